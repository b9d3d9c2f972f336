package agent_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/message"
)

// described holds every answer that passes through it against the document; a
// stream is left to its reader.
type described struct{ under http.RoundTripper }

func (d described) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.under.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media == "application/x-ndjson" || !agent.Describes(r.Method, r.URL.Path) {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, agent.CheckAnswer(r.Method, r.URL.Path, answer.StatusCode, media, body)
}

// story asks one operation after another of running agents.
type story struct {
	*testing.T
	answered map[string]bool
}

// ask returns the answer to one operation, which must be given.
func (s *story) ask(a *agent.Agent, operation string, request map[string]any) map[string]any {
	s.Helper()
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			s.Fatal(err)
		}
	}
	answer, err := overSocket(a.Home()).Post("http://agent/v1/"+operation, "application/json", bytes.NewReader(body))
	if err != nil {
		s.Fatalf("%s: %v", operation, err)
	}
	defer answer.Body.Close()
	var value map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&value); err != nil || answer.StatusCode != http.StatusOK {
		s.Fatalf("%s %s: status %d, %v, %v", operation, body, answer.StatusCode, value, err)
	}
	s.answered[operation] = true
	return value
}

// Every operation is asked for over the socket, where there is nothing to tell
// and where there is all it can tell, and each answer is held against the
// document.
func TestEveryOperationAnswersAsOpenAPISays(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	s := &story{T: t, answered: make(map[string]bool)}
	alice, bob := daemon(t, server), daemon(t, server)
	for _, operation := range []string{
		"agent.status", "agent.refusals", "card.find", "contact.list", "contact.requests", "message.inbox", "outbox.list", "agreement.list",
	} {
		s.ask(alice, operation, nil)
	}
	s.meetAndWrite(server, alice, bob)
	s.agree(alice, bob)
	s.stream(bob)
	s.leave(server, alice, bob)
	for _, op := range agent.Operations() {
		if !s.answered[op.Name] {
			t.Errorf("%s was not asked for", op.Name)
		}
	}
}

func (s *story) meetAndWrite(server *agenttest.Server, alice, bob *agent.Agent) {
	s.ask(alice, "server.pin", map[string]any{"url": server.URL, "name": "alice"})
	s.ask(alice, "server.trust", map[string]any{"url": server.URL})
	s.ask(alice, "card.publish", map[string]any{"about": "keeps the archive", "can": []string{"archive"}, "expires_seconds": 86400})
	s.ask(bob, "card.publish", map[string]any{})
	s.ask(alice, "card.show", map[string]any{})
	s.ask(alice, "card.show", map[string]any{"who": bob.PublicKey()})
	s.ask(bob, "card.find", map[string]any{"words": []string{"archive"}})
	push := ntfytest.Start(s, ntfytest.Unlimited)
	s.ask(alice, "carrier.add", map[string]any{"scheme": "ntfy", "address": push.URL, "wake_up": true})
	s.ask(alice, "carrier.list", nil)
	s.ask(alice, "agent.doctor", map[string]any{"wait_seconds": patient})
	s.ask(alice, "carrier.remove", map[string]any{"scheme": "ntfy", "address": push.URL})
	s.ask(alice, "contact.add", map[string]any{"who": bob.PublicKey(), "name": "bob"})
	s.ask(alice, "message.send", map[string]any{"to": "bob", "text": "good morning"})
	s.until(bob, "contact.requests", nil, "requests")
	s.ask(bob, "contact.accept", map[string]any{"who": alice.PublicKey(), "name": "alice"})
	s.ask(bob, "contact.list", nil)
	s.ask(bob, "message.inbox", map[string]any{"from": "alice", "all": true, "wait_seconds": patient})
	server.Refuse(true)
	s.ask(alice, "message.send", map[string]any{"to": "bob", "text": "is lost"})
	s.until(alice, "outbox.list", nil, "messages")
	s.ask(alice, "outbox.list", map[string]any{"all": true})
	server.Refuse(false)
	s.ask(alice, "outbox.requeue", map[string]any{"all": true})
	s.ask(alice, "outbox.purge", map[string]any{"all": true})
}

// until asks until a list in the answer has something in it.
func (s *story) until(a *agent.Agent, operation string, request map[string]any, list string) {
	s.Helper()
	for range 1000 {
		if found, _ := s.ask(a, operation, request)[list].([]any); len(found) > 0 {
			return
		}
	}
	s.Fatalf("%s has no %s", operation, list)
}

func (s *story) agree(alice, bob *agent.Agent) {
	draft, err := json.Marshal(proposal("bob"))
	if err != nil {
		s.Fatal(err)
	}
	var request map[string]any
	if err := json.Unmarshal(draft, &request); err != nil {
		s.Fatal(err)
	}
	p := s.ask(alice, "agreement.propose", request)
	id, digest := p["agreement_id"].(string), p["digest"].(string)
	s.ask(bob, "agreement.review", map[string]any{"id": id, "wait_seconds": patient})
	s.ask(bob, "agreement.comment", map[string]any{"kind": "question", "text": "who pays?", "wait_seconds": patient})
	for _, a := range []*agent.Agent{alice, bob} {
		s.ask(a, "agreement.decide", map[string]any{"action": "agree", "digest": digest, "wait_seconds": patient})
	}
	s.ask(bob, "agreement.list", nil)
	done := s.ask(bob, "agreement.review", map[string]any{"id": id, "until": "reached", "wait_seconds": patient})
	bundle, err := os.ReadFile(filepath.Join(done["folder"].(string), "bundle.json"))
	if err != nil {
		s.Fatal(err)
	}
	s.ask(alice, "bundle.verify", map[string]any{"bundle": string(bundle)})
}

// stream reads as many notices as there are texts and agreements.
func (s *story) stream(a *agent.Agent) {
	answer, err := overSocket(a.Home()).Get("http://agent/v1/events?after=0")
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for range 5 { // a request, an invitation and at least three events
		if !lines.Scan() {
			s.Fatalf("the stream ended: %v", lines.Err())
		}
		if err := agent.CheckAnswer(http.MethodGet, "/v1/events", answer.StatusCode, answer.Header.Get("Content-Type"), lines.Bytes()); err != nil {
			s.Error(err)
		}
	}
}

func (s *story) leave(server *agenttest.Server, alice, bob *agent.Agent) {
	nothing := message.AgreementResult{InReplyTo: uuid.Must(uuid.NewV7()).String(), Refusal: &message.Refusal{Code: "cap"}}
	agent.SendRaw(s.T, alice, bob.PublicKey(), nothing)
	s.until(bob, "agent.refusals", nil, "refusals")
	s.ask(bob, "agent.status", nil)
	if row := s.ask(bob, "person.export", map[string]any{"who": "alice"}); row["table"] == "" || row["row"] == nil {
		s.Errorf("the first line about alice is %v", row)
	}
	s.ask(bob, "person.erase", map[string]any{"who": "alice", "agreements": true})
	s.ask(alice, "contact.remove", map[string]any{"who": "bob"})
	s.ask(alice, "key.revoke", nil)

	// A key is replaced in a process that does not stay.
	home := server.Agent(s.T, agent.Options{})
	if err := home.Close(); err != nil {
		s.Fatal(err)
	}
	local, err := agent.OpenLocal(s.Context(), agent.Options{Home: home.Home()})
	if err != nil {
		s.Fatal(err)
	}
	defer local.Close()
	if err := local.Call(s.Context(), "key.succeed", map[string]any{"force": true}, nil); err != nil {
		s.Error(err)
	}
	s.answered["key.succeed"] = true
}

func TestTheSocketTellsItsDocument(t *testing.T) {
	t.Parallel()
	a := daemon(t, agenttest.Start(t))
	answer, err := overSocket(a.Home()).Get("http://agent/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Equal(got, agent.OpenAPI()) {
		t.Errorf("%d bytes, %v, want those of openapi.json", len(got), err)
	}
}

// The table of operations in docs/agent.md is that of the program.
func TestEveryOperationIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| operation | what it does |\n|---|---|\n"
	for _, op := range agent.Operations() {
		want += "| `" + op.Name + "` | " + op.Summary + " |\n"
	}
	if !strings.Contains(string(doc), want+"\n") {
		t.Errorf("docs/agent.md has another table of operations than:\n%s", want)
	}
}
