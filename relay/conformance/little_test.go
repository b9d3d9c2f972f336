package conformance_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// Limits of the little relay, small so that checks reach them.
const (
	littleMessage       = 64 << 10
	littleSubscriptions = 20
	littleResults       = 40
	littleTags          = 100
	littleAhead         = 900
	littleWork          = 4 // bits
	littleID            = 64
)

// little is the smallest relay that passes every check, all in memory and
// under one lock, but for the one behaviour that is broken.
type little struct {
	broken string
	web    *httptest.Server
	admin  string // public key

	mu       sync.Mutex
	dead     bool
	lives    int // live events so far
	taken    int // EVENTs so far
	sessions map[*session]bool
	store
}

// startLittle starts a little relay; admin is the public key of its
// administrator.
func startLittle(t testing.TB, broken, admin string) *little {
	t.Helper()
	l := &little{broken: broken, admin: admin, sessions: map[*session]bool{}, store: newStore()}
	l.bystanders()
	l.web = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		l.mu.Lock()
		for s := range l.sessions {
			s.cancel()
		}
		l.mu.Unlock()
		l.web.Close()
	})
	return l
}

func (l *little) url() string { return "ws" + strings.TrimPrefix(l.web.URL, "http") }

// is reports whether this is what is broken.
func (l *little) is(behaviour string) bool { return l.broken == behaviour }

func (l *little) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if l.is("upgrade to the letter") {
		upgrade = r.Header.Get("Upgrade") == "websocket"
	}
	switch {
	case dead:
		panic(http.ErrAbortHandler)
	case upgrade:
		l.serveWebSocket(w, r)
	case r.Method == http.MethodPost:
		l.serveManagement(w, r)
	default:
		l.serveInformation(w, r)
	}
}

func (l *little) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	conn.SetReadLimit(littleMessage)
	if l.is("no limit of messages") {
		conn.SetReadLimit(-1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{l: l, conn: conn, out: make(chan []byte, 20_000), challenge: challenge(), cancel: cancel, neg: map[string]*reconciliation{}}
	if l.is("one challenge for all") {
		s.challenge = "same challenge"
	}
	l.mu.Lock()
	l.sessions[s] = true
	l.mu.Unlock()
	go s.write(ctx)
	if !l.is("no challenge") {
		s.say("AUTH", s.challenge)
	}
	s.read(ctx)
	cancel()
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
	_ = conn.CloseNow()
}

func challenge() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
