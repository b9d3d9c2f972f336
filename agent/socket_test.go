package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
)

// overSocket is an HTTP client of a home's socket. An answer that is not as
// openapi.json says is an error.
func overSocket(home string) *http.Client {
	return &http.Client{Transport: described{&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", agent.SocketPath(home))
		},
		DisableKeepAlives: true,
	}}}
}

// daemon is a running agent whose socket answers.
func daemon(t *testing.T, server *agenttest.Server) *agent.Agent {
	t.Helper()
	a := server.Running(t, agent.Options{})
	for {
		client, err := agent.Dial(t.Context(), a.Home())
		if err == nil {
			client.Close()
			return a
		}
		if !errors.Is(err, agent.ErrNoDaemon) {
			t.Fatal(err)
		}
	}
}

func TestTheSocketAnswersStrictRequestsOnly(t *testing.T) {
	t.Parallel()
	a := daemon(t, agenttest.Start(t))
	client := overSocket(a.Home())
	for _, c := range []struct {
		name, method, path, media, body string
		status                          int
		code                            string
	}{
		{"good", "POST", "/v1/agent.status", "application/json", `{}`, 200, ""},
		{"charset", "POST", "/v1/agent.status", "application/json; charset=utf-8", `{}`, 200, ""},
		{"empty body", "POST", "/v1/agent.status", "application/json", ``, 200, ""},
		{"unknown member", "POST", "/v1/agent.status", "application/json", `{"x":1}`, 400, "invalid"},
		{"another case", "POST", "/v1/card.show", "application/json", `{"Who":"x"}`, 400, "invalid"},
		{"a member twice", "POST", "/v1/card.show", "application/json", `{"who":"","who":""}`, 400, "invalid"},
		{"another type", "POST", "/v1/card.show", "application/json", `{"who":1}`, 400, "invalid"},
		{"two documents", "POST", "/v1/agent.status", "application/json", `{}{}`, 400, "invalid"},
		{"no JSON", "POST", "/v1/agent.status", "application/json", `nonsense`, 400, "invalid"},
		{"a form", "POST", "/v1/agent.status", "application/x-www-form-urlencoded", `a=b`, 400, "invalid"},
		{"no type", "POST", "/v1/agent.status", "", `{}`, 400, "invalid"},
		{"too long", "POST", "/v1/agent.status", "application/json", `{"x":"` + strings.Repeat("a", 5<<20) + `"}`, 400, "invalid"},
		{"a long wait", "POST", "/v1/message.inbox", "application/json", `{"wait_seconds":3601}`, 400, "invalid"},
		{"a negative wait", "POST", "/v1/message.inbox", "application/json", `{"wait_seconds":-1}`, 400, "invalid"},
		{"get", "GET", "/v1/agent.status", "", ``, 404, "not_found"},
		{"unknown operation", "POST", "/v1/key.export", "application/json", `{}`, 404, "not_found"},
		{"no one", "POST", "/v1/message.send", "application/json", `{"to":"nobody","text":"x"}`, 404, "not_found"},
		{"stream from nowhere", "GET", "/v1/events?after=-1", "", ``, 400, "invalid"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://agent"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.media != "" {
			r.Header.Set("Content-Type", c.media)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		data, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		var problem struct{ Code, Detail string }
		if err := json.Unmarshal(data, &problem); err != nil || answer.StatusCode != c.status || problem.Code != c.code {
			t.Errorf("%s: status %d, %s, want %d %s", c.name, answer.StatusCode, data, c.status, c.code)
		}
		if c.status != 200 && (answer.Header.Get("Content-Type") != "application/problem+json" || problem.Detail == "") {
			t.Errorf("%s: no problem document: %s", c.name, data)
		}
	}
}

func TestTheSocketIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	a := daemon(t, agenttest.Start(t))
	for path, want := range map[string]os.FileMode{a.Home(): 0o700, agent.SocketPath(a.Home()): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", path, info.Mode(), err, want)
		}
	}
}

func TestAConnectionOfAnotherUserIsClosedUnread(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, rejected := agent.ListenAs(t, socket, func(*net.UnixConn) (int, error) { return os.Getuid() + 1, nil })
	go http.Serve(listener, http.NotFoundHandler()) //nolint:errcheck // It ends with the listener.
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.EOF) {
		t.Logf("closed with %v", err)
	}
	if reason := <-rejected; reason != "peer" {
		t.Errorf("rejected for %q", reason)
	}
}

func TestTheKernelSaysWhoConnects(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, _ := agent.ListenAs(t, socket, nil)
	go func() {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			defer conn.Close()
		}
	}()
	conn, err := listener.Accept() // waits for ever if the own user is turned away
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestMoreConnectionsThanTheLimitAreClosed(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, rejected := agent.ListenAs(t, socket, nil)
	var held []net.Conn
	for range agent.MaxConnections {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, accepted)
	}
	go listener.Accept() //nolint:errcheck // It ends with the listener.
	extra, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if reason := <-rejected; reason != "full" {
		t.Errorf("rejected for %q", reason)
	}
	for _, conn := range held {
		conn.Close()
		conn.Close() // gives its slot back once only
	}
}

func TestTheLiveStreamResumesWhereItsReaderStopped(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	bob := daemon(t, server)
	alice := server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	say := func(text string) string {
		t.Helper()
		d, err := alice.SendText(t.Context(), agent.SendRequest{To: "bob", Text: text, WaitSeconds: patient})
		if err != nil || d.State != "acked" {
			t.Fatalf("%+v, %v", d, err)
		}
		return d.ID
	}
	client, err := agent.Dial(t.Context(), bob.Home())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	enough := errors.New("enough")
	next := func(after int64) agent.Notice {
		t.Helper()
		var got agent.Notice
		err := client.Events(t.Context(), after, func(n agent.Notice) error { got = n; return enough })
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
		return got
	}
	first := say("one")
	n := next(0)
	if n.Kind != agent.NoticeText || n.ID != first || n.Peer != alice.PublicKey() {
		t.Errorf("notice = %+v", n)
	}
	second := say("two")
	if n = next(n.N); n.ID != second {
		t.Errorf("notice after the first = %+v, want %s", n, second)
	}
}

func TestTheStreamEndsWhenTheDaemonStops(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a := server.Agent(t, agent.Options{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var answer *http.Response
	for answer == nil {
		answer, _ = overSocket(a.Home()).Get("http://agent/v1/events") //nolint:bodyclose // Closed below.
	}
	defer answer.Body.Close()
	stop()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		t.Errorf("unexpected notice %s", lines.Text())
	}
	if err := <-done; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}
