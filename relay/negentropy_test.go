package relay_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/negentropy"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// opening is the first message of a client that has these events.
func opening(t testing.TB, events ...nostr.Event) string {
	t.Helper()
	set := &negentropy.Set{}
	for _, ev := range events {
		if err := set.Add(ev.CreatedAt, ev.ID); err != nil {
			t.Fatal(err)
		}
	}
	set.Seal()
	return negentropy.NewClient(set, 0).Open()
}

// reconciles sends a message of NIP-77 and demands this label and beginning of
// the text.
func (c *client) reconciles(label, prefix string, parts ...any) reply {
	c.t.Helper()
	c.send(parts...)
	r := c.next()
	if r.label != label || !strings.HasPrefix(r.text, prefix) {
		c.t.Fatalf("%.100v is answered %.200v, want %s %q", parts, r, label, prefix)
	}
	return r
}

func profiles(t testing.TB, c *client, n int) (events []nostr.Event) {
	for i := range n {
		ev := newKey(t).note(nostr.Now(), fmt.Sprint(i))
		c.accept(ev)
		events = append(events, ev)
	}
	return events
}

func TestReconciliationsAreBounded(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Reconciliations: 5, ReconciliationEvents: 10}})
	c, other := dial(t, s), dial(t, s)
	profiles(t, c, 10)
	open := func(c *client, label, prefix, id string) {
		t.Helper()
		c.reconciles(label, prefix, "NEG-OPEN", id, nostr.Filter{}, opening(t))
	}
	for i := range 4 {
		open(c, "NEG-MSG", "61", fmt.Sprint(i))
	}
	open(c, "NEG-ERR", "restricted: ", "4")
	open(c, "NEG-MSG", "61", "3") // in the place of the one open
	open(other, "NEG-MSG", "61", "0")
	open(other, "NEG-ERR", "rate-limited: ", "1")
	c.send("NEG-CLOSE", "0")
	c.silence()
	open(other, "NEG-MSG", "61", "1")
	c.conn.CloseNow()
	for tries := 0; ; tries++ { // the end of a connection gives its places back
		other.send("NEG-OPEN", "2", nostr.Filter{}, opening(t))
		if r := other.next(); r.label == "NEG-MSG" {
			break
		} else if tries > 500 {
			t.Fatal(r)
		}
		time.Sleep(10 * time.Millisecond)
	}
	profiles(t, other, 1)
	other.reconciles("NEG-ERR", "blocked: this query is too big", "NEG-OPEN", "2", nostr.Filter{}, opening(t))
	other.reconciles("NEG-MSG", "61", "NEG-OPEN", "2", nostr.Filter{Limit: 10}, opening(t))
}

func TestReconciliationEndsAfterItsTime(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Registerer: reg, Limits: relay.Limits{Reconciliations: 1, ReconciliationTime: time.Millisecond}})
	c := dial(t, s)
	for range 3 { // each has the one place after the time of the one before
		c.send("NEG-OPEN", "n", nostr.Filter{}, opening(t))
		r := c.next()
		if r.label == "NEG-MSG" { // in time
			r = c.next()
		}
		if r.label != "NEG-ERR" || r.id != "n" || r.text != "closed: you took too long to respond!" {
			t.Fatal(r)
		}
	}
	if n := counter(t, reg, "parley_relay_reconciliations"); n != 0 {
		t.Errorf("%v reconciliations are open", n)
	}
}

func TestReconciliationThatIsNotOfferedIsRefused(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Reconciliations: -1}})
	dial(t, s).reconciles("NEG-ERR", "blocked: ", "NEG-OPEN", "n", nostr.Filter{}, opening(t))
	for s, want := range map[*relaytest.Server]bool{s: false, start(t): true} {
		var doc struct {
			SupportedNIPs []int `json:"supported_nips"`
			Negentropy    int
		}
		if err := json.NewDecoder(get(t, "GET", s.HTTP, http.Header{"Accept": {"application/nostr+json"}}).Body).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(doc.SupportedNIPs, 77) != want || (doc.Negentropy == 1) != want {
			t.Errorf("advertised: %+v, want %v", doc, want)
		}
	}
}

func TestReconciliationIsOfTheStateItBeganWith(t *testing.T) {
	c := dial(t, start(t))
	events := profiles(t, c, 40)
	c.reconciles("NEG-MSG", "61", "NEG-OPEN", "n", nostr.Filter{}, opening(t))
	profiles(t, c, 5)
	if r := c.reconciles("NEG-MSG", "61", "NEG-MSG", "n", opening(t, events...)); r.text != "61" {
		t.Errorf("later events take part: %s", r.text)
	}
}

func TestMessageOfAReconciliationThatCannotBeReadEndsItAndNothingElse(t *testing.T) {
	c := dial(t, start(t))
	ev := profiles(t, c, 1)[0]
	for _, bad := range []any{"6g", "", "61000003", "61000002" + strings.Repeat("ff", 9) + "7f", 1, nil, []string{}} {
		c.reconciles("NEG-MSG", "61", "NEG-OPEN", "n", nostr.Filter{}, opening(t))
		c.reconciles("NEG-MSG", "61", "NEG-OPEN", "m", nostr.Filter{}, opening(t))
		c.reconciles("NEG-ERR", "invalid: ", "NEG-MSG", "n", bad)
		c.reconciles("NEG-ERR", "closed: ", "NEG-MSG", "n", opening(t))
		if r := c.reconciles("NEG-MSG", "61", "NEG-MSG", "m", opening(t)); !strings.Contains(r.text, ev.ID) {
			t.Errorf("after %v the other one says %s", bad, r.text)
		}
	}
	for _, parts := range [][]any{{nostr.Filter{}}, {nostr.Filter{}, 1}, {"x", "61"}, {map[string]any{"ids": 1}, "61"}, {nostr.Filter{}, "61", "61"}} {
		c.reconciles("NEG-ERR", "invalid: ", append([]any{"NEG-OPEN", "o"}, parts...)...)
	}
	c.reconciles("NEG-ERR", "unsupported: ", "NEG-OPEN", "o", map[string]any{"~": 1}, "61")
}

// FuzzNegentropy sends two inputs as messages of a reconciliation to a live
// relay: each is answered NEG-MSG or NEG-ERR, no answer is beyond the size of
// one, and another reconciliation of the same connection goes on.
func FuzzNegentropy(f *testing.F) {
	reg := prometheus.NewRegistry()
	s := relaytest.Start(f, relay.Options{Registerer: reg})
	key, events := newKey(f), []nostr.Event{}
	witness := dialFuzz(f, s.URL)
	c := &fuzzClient{f, witness}
	c.next(f) // AUTH
	for i := range 100 {
		ev := key.card(fmt.Sprint("c", i), nostr.Now()-nostr.Timestamp(i/3))
		c.send(f, `["EVENT",`+ev.String()+`]`)
		if r := c.next(f); !r.ok {
			f.Fatal(r)
		}
		events = append(events, ev)
	}
	for _, seed := range []string{
		opening(f), opening(f, events...), opening(f, events[:70]...), "7f00", "6100000202ffff",
		"61000002" + strings.Repeat("ff", 9) + "7f", "61" + strings.Repeat("8fffffffffffff7f0000", 3), "610021" + strings.Repeat("00", 34),
	} {
		data, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data, true)
		f.Add([]byte(seed), data[1:], false)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, asHex bool) {
		if len(first)+len(second) > 30_000 {
			t.Skip("the frame is too large in any case")
		}
		c := &fuzzClient{t, dialFuzz(t, s.URL)}
		defer c.conn.CloseNow()
		c.next(t) // AUTH
		c.send(t, `["NEG-OPEN","other",{},"`+opening(t)+`"]`)
		c.next(t)
		messages := []string{text(first, asHex), text(second, asHex)}
		c.send(t, `["NEG-OPEN","n",{},`+messages[0]+`]`)
		c.demand(t)
		for _, m := range slices.Repeat(messages, 2) {
			c.send(t, `["NEG-MSG","n",`+m+`]`)
			c.demand(t)
		}
		c.send(t, `["NEG-MSG","other","`+opening(t)+`"]`)
		if r := c.next(t); r.label != "NEG-MSG" || r.id != "other" || !strings.Contains(r.text, events[0].ID) {
			t.Fatalf("the other reconciliation says %.200v", r)
		}
		if err := answered(t.Context(), witness); err != nil {
			t.Fatalf("another client is not answered: %v", err)
		}
		if n := counterOf(reg, "parley_relay_panics_total"); n != 0 {
			t.Fatalf("%v panics", n)
		}
	})
}

// text is the JSON of a string: the bytes in hex, or as they are where that is
// a string that a message may hold.
func text(data []byte, asHex bool) string {
	if asHex {
		return `"` + hex.EncodeToString(data) + `"`
	}
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(data), ""))
	return `"` + s + `"`
}

type fuzzClient struct {
	t    testing.TB
	conn *websocket.Conn
}

func (c *fuzzClient) send(t testing.TB, data string) {
	t.Helper()
	if err := (&client{conn: c.conn}).write(data); err != nil {
		t.Fatal(err)
	}
}

func (c *fuzzClient) next(t testing.TB) reply {
	t.Helper()
	r, err := (&client{conn: c.conn}).read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// demand reads the answer to a message of the reconciliation n.
func (c *fuzzClient) demand(t testing.TB) {
	t.Helper()
	if r := c.next(t); r.id != "n" || r.label != "NEG-ERR" && r.label != "NEG-MSG" || len(r.text) > 2*60_000 {
		t.Fatalf("the answer is %.200v", r)
	}
}

func counterOf(reg *prometheus.Registry, name string) float64 {
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

func TestReconciliationsOfAnAddressAreBounded(t *testing.T) {
	address := netip.MustParseAddr("2001:db8::1")
	s := relaytest.Start(t, relay.Options{
		Limits:   relay.Limits{ReconciliationsPerAddress: 2},
		ClientIP: func(*http.Request) netip.Addr { return address },
	})
	a := dial(t, s)
	address = netip.MustParseAddr("2001:db8::2") // same /64
	b := dial(t, s)
	address = netip.MustParseAddr("2001:db8:0:1::2")
	c := dial(t, s)
	open := func(c *client, id, label, prefix string) {
		t.Helper()
		c.reconciles(label, prefix, "NEG-OPEN", id, nostr.Filter{}, opening(t))
	}
	open(a, "1", "NEG-MSG", "61")
	open(b, "1", "NEG-MSG", "61")
	open(a, "2", "NEG-ERR", "rate-limited: too many reconciliations of this address")
	open(b, "1", "NEG-MSG", "61") // in the place of the one open
	for i := range 4 {
		c.send("NEG-CLOSE", fmt.Sprint(i-2))
		open(c, fmt.Sprint(i), "NEG-MSG", "61")
		if i >= 1 {
			open(c, "more", "NEG-ERR", "rate-limited: ")
		}
	}
	b.send("NEG-CLOSE", "1")
	b.silence()
	open(a, "2", "NEG-MSG", "61")
}
