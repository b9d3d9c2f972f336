package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parleykit/parley/agent/agenttest"
)

// program runs this test binary as the program parley.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: self, Args: append([]string{"parley"}, args...), Env: os.Environ(), Stderr: os.Stderr}
}

// connectModel starts "parley mcp" for a home and speaks to it as a model does.
func connectModel(t *testing.T, home string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "model", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{
		Command: program(t, "--home", home, "mcp"), TerminateDuration: 20 * time.Second,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("parley mcp ended with %v", err)
		}
	})
	return session
}

// use calls a tool and reads its answer into out.
func use(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any, out any) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if out != nil {
		text := result.Content[0].(*mcp.TextContent).Text
		if err := json.Unmarshal([]byte(text), out); err != nil {
			t.Fatalf("%s answered %s: %v", tool, text, err)
		}
	}
	return result
}

func TestModelsFindWriteReviewAndDecideOverMCP(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	homes := map[string]string{}
	npubs := map[string]string{}
	for _, name := range []string{"alice", "bob"} {
		homes[name] = filepath.Join(t.TempDir(), "h")
		cmd := program(t, "--home", homes[name], "--json", "init", "--server", server.URL, "--name", name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var pin struct {
			NPub string `json:"npub"`
		}
		if err := json.Unmarshal(out, &pin); err != nil {
			t.Fatal(err)
		}
		npubs[name] = pin.NPub
	}
	for name, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		for _, args := range [][]string{
			{"card", "publish", "--about", name, "--can", "talk"},
			{"contact", "add", npubs[other], "--name", other},
		} {
			if out, err := program(t, append([]string{"--home", homes[name]}, args...)...).Output(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}
	alice, bob := connectModel(t, homes["alice"]), connectModel(t, homes["bob"])

	tools, err := alice.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	want := []string{"comment_agreement", "decide_agreement", "find_agents", "read_inbox", "review_agreement", "send_text"}
	if !slices.Equal(names, want) {
		t.Errorf("tools = %v, want %v", names, want)
	}

	var found struct{ Cards []struct{ NPub string } }
	use(t, alice, "find_agents", map[string]any{"words": []string{"talk"}}, &found)
	if len(found.Cards) != 2 {
		t.Errorf("found %d cards, want 2", len(found.Cards))
	}
	var sent struct{ State string }
	use(t, alice, "send_text", map[string]any{"to": "bob", "text": "hello \u009b31m", "wait_seconds": 20}, &sent)
	if sent.State != "acked" {
		t.Errorf("state = %s", sent.State)
	}
	var inbox struct{ Texts []struct{ Text string } }
	raw := use(t, bob, "read_inbox", map[string]any{"wait_seconds": 20}, &inbox)
	if len(inbox.Texts) != 1 || inbox.Texts[0].Text != "hello \u009b31m" {
		t.Errorf("inbox = %+v", inbox)
	}
	if strings.Contains(raw.Content[0].(*mcp.TextContent).Text, "\u009b") {
		t.Error("a control character of another agent's text is not escaped")
	}

	draft := filepath.Join(t.TempDir(), "draft.yaml")
	if err := os.WriteFile(draft, []byte("title: Tea\nobjective: Tea at four.\nmust: [Bring cups.]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := program(t, "--home", homes["alice"], "--json", "propose", draft, "--with", "bob", "--deadline", "48h").Output()
	if err != nil {
		t.Fatalf("propose: %v\n%s", err, out)
	}
	for _, model := range []*mcp.ClientSession{alice, bob} {
		var review struct{ Digest, Markdown string }
		use(t, model, "review_agreement", map[string]any{"wait_seconds": 20}, &review)
		refused := use(t, model, "decide_agreement", map[string]any{"action": "agree", "digest": strings.Repeat("0", 64)}, nil)
		if !refused.IsError || !strings.Contains(review.Markdown, "Tea at four") {
			t.Errorf("another digest: %+v; markdown %q", refused, review.Markdown)
		}
		use(t, model, "decide_agreement", map[string]any{"action": "agree", "digest": review.Digest, "wait_seconds": 20}, nil)
	}
	var closed struct{ Outcome string }
	use(t, alice, "review_agreement", map[string]any{"until": "reached", "wait_seconds": 20, "id": idOf(t, out)}, &closed)
	if closed.Outcome != "reached" {
		t.Errorf("outcome = %s", closed.Outcome)
	}
}

func idOf(t *testing.T, proposed []byte) string {
	t.Helper()
	var p struct {
		AgreementID string `json:"agreement_id"`
	}
	if err := json.Unmarshal(proposed, &p); err != nil {
		t.Fatal(err)
	}
	return p.AgreementID
}
