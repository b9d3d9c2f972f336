package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// ruled is the answer of a call.
type ruled struct {
	status int
	Result json.RawMessage
	Error  string
}

// manage makes a call as k.
func manage(t *testing.T, s *relaytest.Server, k *key, method string, params ...any) ruled {
	t.Helper()
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	return post(t, s, body, tokenOf(k, s.HTTP+"/", body))
}

var tokens int

// tokenOf is the Authorization header of a call.
func tokenOf(k *key, url string, body []byte) string {
	sum := sha256.Sum256(body)
	tokens++
	ev := k.event(27235, nostr.Now(), "", nostr.Tags{
		{"u", url}, {"method", "POST"}, {"payload", hex.EncodeToString(sum[:])}, {"nonce", fmt.Sprint(tokens)},
	})
	return "Nostr " + base64.StdEncoding.EncodeToString([]byte(ev.String()))
}

func post(t *testing.T, s *relaytest.Server, body []byte, authorization string) (r ruled) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.HTTP, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/nostr+json+rpc; charset=utf-8")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &r) != nil {
		t.Fatalf("answer %d %q: %v", resp.StatusCode, text, err)
	}
	if (r.Error == "") != (resp.StatusCode == 200) || (r.Result == nil) == (r.Error == "") {
		t.Errorf("answer %d %s", resp.StatusCode, text)
	}
	r.status = resp.StatusCode
	return r
}

// done demands success.
func (r ruled) done(t *testing.T) ruled {
	t.Helper()
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.Error)
	}
	return r
}

func TestManagementIsForItsAdministrators(t *testing.T) {
	admin := newKey(t)
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Admins: []string{admin.pub}}})
	body := []byte(`{"method":"supportedmethods","params":[]}`)
	var methods []string
	if err := json.Unmarshal(manage(t, s, admin, "supportedmethods").done(t).Result, &methods); err != nil || !slices.Contains(methods, "banpubkey") {
		t.Errorf("methods %v, %v", methods, err)
	}
	for _, url := range []string{s.HTTP, s.HTTP + "/", s.URL, s.URL + "/"} {
		post(t, s, body, tokenOf(admin, url, body)).done(t)
	}
	once := tokenOf(admin, s.HTTP, body)
	post(t, s, body, once).done(t)
	for what, header := range map[string]string{
		"no token": "", "a used token": once, "another relay": tokenOf(admin, "https://relay.example/", body),
		"a path": tokenOf(admin, s.HTTP+"/relay", body), "another body": tokenOf(admin, s.HTTP, []byte("{}")), "no event": "Nostr e30=",
	} {
		if r := post(t, s, body, header); r.status != 401 {
			t.Errorf("%s: status %d %s", what, r.status, r.Error)
		}
	}
	if r := manage(t, s, newKey(t), "supportedmethods"); r.status != 403 {
		t.Errorf("a stranger: status %d", r.status)
	}
	large := bytes.Repeat([]byte(" "), 1<<20)
	if r := post(t, s, large, tokenOf(admin, s.HTTP, large)); r.status != 413 {
		t.Errorf("a large body: status %d", r.status)
	}
	for _, bad := range []string{"", "null", "[]", "{}", `{"method":1}`, `{"method":"listbannedpubkeys"} {}`, `{"method":"nothing","params":[]}`, `{"method":"banpubkey","params":{}}`} {
		if r := post(t, s, []byte(bad), tokenOf(admin, s.HTTP, []byte(bad))); r.status != 400 {
			t.Errorf("%q: status %d %s", bad, r.status, r.Error)
		}
	}
	if doc := document(t, s); !slices.Contains(doc.NIPs, 86) {
		t.Errorf("the document says %v", doc.NIPs)
	}
	s.SetPolicy(t, relay.Policy{})
	if r := manage(t, s, admin, "supportedmethods"); r.status != 403 {
		t.Errorf("a former administrator: status %d", r.status)
	}
	if doc := document(t, s); slices.Contains(doc.NIPs, 86) {
		t.Errorf("the document says %v", doc.NIPs)
	}
}

func TestParamsOfCallsAreChecked(t *testing.T) {
	admin := newKey(t)
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Admins: []string{admin.pub}}})
	long := strings.Repeat("x", 501)
	for _, tc := range []struct {
		method string
		params []any
	}{
		{"banpubkey", nil},
		{"banpubkey", []any{"npub1"}},
		{"banpubkey", []any{7}},
		{"banpubkey", []any{strings.ToUpper(admin.pub)}},
		{"banpubkey", []any{newKey(t).pub, 7}},
		{"banpubkey", []any{newKey(t).pub, long}},
		{"banpubkey", []any{admin.pub}},
		{"banpubkey", []any{newKey(t).pub, "", "", "", "", "", "", "", ""}},
		{"unbanpubkey", []any{""}},
		{"allowpubkey", []any{"x"}},
		{"banevent", []any{nil}},
		{"allowevent", []any{"x"}},
		{"allowkind", []any{"1"}},
		{"allowkind", []any{20000}},
		{"allowkind", []any{70000}},
		{"allowkind", []any{1.5}},
		{"allowkind", nil},
		{"disallowkind", []any{30417}},
		{"blockip", []any{"localhost"}},
		{"blockip", []any{"10.0.0.0/8"}},
		{"unblockip", nil},
		{"changerelayname", nil},
		{"changerelayname", []any{strings.Repeat("x", 101)}},
		{"changerelayicon", []any{"javascript:alert(1)"}},
	} {
		if r := manage(t, s, admin, tc.method, tc.params...); r.status != 400 {
			t.Errorf("%s %v: status %d %s", tc.method, tc.params, r.status, r.Result)
		}
	}
}

func TestRulingsHoldAtOnceAndAfterARestart(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(relay.Options) *relaytest.Server) {
		admin, bad, good := newKey(t), newKey(t), newKey(t)
		o := relay.Options{Dir: t.TempDir(), Policy: relay.Policy{Admins: []string{admin.pub}, Authors: []string{}, Name: "configured"}}
		s := start(o)
		c, now := dial(t, s), nostr.Now()
		c.refuse(bad.note(now-9, ""), "restricted: ")
		for _, k := range []*key{bad, good} {
			manage(t, s, admin, "allowpubkey", k.pub, "asked nicely").done(t)
			c.accept(k.note(now-9, ""))
		}
		c.accept(wrap(t, bad.pub))
		keep := wrap(t, good.pub)
		c.accept(keep)
		banned := good.card("default", now-9)
		c.accept(banned)
		manage(t, s, admin, "banpubkey", bad.pub, "spam <b>").done(t)
		manage(t, s, admin, "banevent", banned.ID).done(t)
		manage(t, s, admin, "allowkind", 1).done(t)
		manage(t, s, admin, "changerelayname", "by management").done(t)
		manage(t, s, admin, "changerelayicon", "https://relay.example/icon.png").done(t)

		check := func(s *relaytest.Server) {
			t.Helper()
			c := dial(t, s)
			c.refuse(bad.note(nostr.Now(), ""), "blocked: this key may not publish here")
			c.refuse(wrap(t, bad.pub), "blocked: wraps for this recipient")
			c.refuse(banned, "blocked: this event was removed here")
			c.accept(good.event(1, nostr.Now(), fmt.Sprint(tokens), nil))
			if got := c.stored(nostr.Filter{Authors: []string{bad.pub}}, nostr.Filter{IDs: []string{banned.ID}}); len(got) != 0 {
				t.Errorf("what was banned is found: %v", ids(got))
			}
			for _, k := range []*key{bad, good} {
				reader := dial(t, s)
				reader.authenticate(k)
				want := []string{}
				if k == good {
					want = append(want, keep.ID)
				}
				if got := ids(reader.stored(nostr.Filter{Kinds: []int{1059}})); !slices.Equal(got, want) {
					t.Errorf("wraps %v, want %v", got, want)
				}
			}
			if doc := document(t, s); doc.Name != "by management" || doc.Icon == "" || !slices.Contains(doc.Kinds, 1) {
				t.Errorf("the document says %v", doc)
			}
			for method, want := range map[string]string{
				"listbannedpubkeys":  `[{"pubkey":"` + bad.pub + `","reason":"spam \u003cb\u003e"}]`,
				"listallowedpubkeys": `[{"pubkey":"` + good.pub + `","reason":"asked nicely"}]`,
				"listbannedevents":   `[{"id":"` + banned.ID + `"}]`,
				"listallowedkinds":   `[0,1,5,62,1059,10002,10050,30417]`,
				"listblockedips":     `[]`,
			} {
				if got := string(manage(t, s, admin, method).done(t).Result); got != want {
					t.Errorf("%s: %s, want %s", method, got, want)
				}
			}
		}
		check(s)
		s.Stop()
		s = start(o)
		check(s)

		c = dial(t, s)
		manage(t, s, admin, "unbanpubkey", bad.pub).done(t)
		c.refuse(bad.note(now, ""), "restricted: ")
		manage(t, s, admin, "allowpubkey", bad.pub).done(t)
		c.accept(bad.note(now, ""))
		if r := c.publish(bad.note(now-9, "again")); !r.ok { // stale, not deleted
			t.Error(r)
		}
	})
}

func TestConfigurationWinsOverManagement(t *testing.T) {
	admin, listed, denied := newKey(t), newKey(t), newKey(t)
	open := relay.Policy{Admins: []string{admin.pub}}
	s := relaytest.Start(t, relay.Options{Policy: open})
	c, now := dial(t, s), nostr.Now()
	manage(t, s, admin, "banpubkey", listed.pub).done(t)
	manage(t, s, admin, "allowpubkey", denied.pub).done(t)
	c.refuse(listed.note(now, ""), "blocked: ")
	c.accept(denied.note(now-1, ""))

	strict := open
	strict.Recipients, strict.Denied = []string{listed.pub}, []string{denied.pub}
	s.SetPolicy(t, strict)
	c.accept(listed.note(now, ""))
	c.refuse(denied.note(now, ""), "blocked: ")
	if r := manage(t, s, admin, "banpubkey", listed.pub); r.status != 400 || !strings.Contains(r.Error, "configuration") {
		t.Errorf("status %d %s", r.status, r.Error)
	}
	if r := manage(t, s, admin, "allowpubkey", denied.pub); r.status != 400 || !strings.Contains(r.Error, "configuration") {
		t.Errorf("status %d %s", r.status, r.Error)
	}
	manage(t, s, admin, "allowkind", 30417).done(t) // it is allowed already
	manage(t, s, admin, "changerelayname", "by management").done(t)
	manage(t, s, admin, "changerelayname", "").done(t)
	if doc := document(t, s); doc.Name != "" {
		t.Errorf("the name is %q", doc.Name)
	}
}

func TestBlockedAddressIsCutOffButMayManage(t *testing.T) {
	admin := newKey(t)
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Admins: []string{admin.pub}}})
	c := dial(t, s)
	manage(t, s, admin, "blockip", "127.0.0.1", "test").done(t)
	if r, err := c.read(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the open connection got %v, %v", r, err)
	}
	if conn, resp, err := websocket.Dial(t.Context(), s.URL, nil); err == nil || resp == nil || resp.StatusCode != 503 {
		t.Errorf("a new connection: %v, %v", conn, err)
	}
	if got := string(manage(t, s, admin, "listblockedips").done(t).Result); got != `[{"ip":"127.0.0.1","reason":"test"}]` {
		t.Errorf("blocked: %s", got)
	}
	manage(t, s, admin, "unblockip", "::ffff:127.0.0.1").done(t)
	dial(t, s)
}

func TestRulingsReachOtherProcessesOfTheDatabase(t *testing.T) {
	admin, bad := newKey(t), newKey(t)
	address := databasetest.NewPostgres(t)
	var servers []*relaytest.Server
	for range 2 {
		store, err := relay.OpenPostgres(t.Context(), address, relay.PostgresOptions{})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, relaytest.Start(t, relay.Options{Store: store, Policy: relay.Policy{Admins: []string{admin.pub}}}))
	}
	manage(t, servers[0], admin, "banpubkey", bad.pub).done(t)
	c, n := dial(t, servers[1]), int64(0)
	eventually(t, func() bool {
		n++
		return !c.publish(bad.note(nostr.Timestamp(n), "")).ok
	})
}
