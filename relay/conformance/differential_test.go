package conformance_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/drilltest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/conformance"
	"github.com/parleykit/parley/relay/relaytest"
)

// TestFiltersFindOverTheWireWhatTheyMatch compares what the relay answers with
// the plainest reading of NIP-01: sets of events, and many filters for each.
func TestFiltersFindOverTheWireWhatTheyMatch(t *testing.T) {
	sets := map[string][2]int{"pebble": {10, 2000}, "postgres": {2, 500}} // sets, filters for each
	eachRelay(t, func(t *testing.T, start func(*testing.T, relay.Options) *relaytest.Server) {
		n := sets[t.Name()[len("TestFiltersFindOverTheWireWhatTheyMatch/"):]]
		switch {
		case drilltest.Long():
			n[0] *= 10
		case testing.Short():
			n[0] = 1
		}
		for seed := range uint64(n[0]) {
			compareOverTheWire(t, start(t, relay.Options{}), seed, n[1])
		}
	})
}

// wire is one connection over which REQs are sent without waiting.
type wire struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
}

func dialWire(t *testing.T, url string) *wire {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &wire{t, conn, ctx}
}

func (w *wire) send(parts ...any) {
	data, err := json.Marshal(parts)
	if err == nil {
		err = w.conn.Write(w.ctx, websocket.MessageText, data)
	}
	if err != nil && w.t.Context().Err() == nil && !w.t.Failed() {
		w.t.Error(err)
	}
}

// ask sends a REQ or a COUNT.
func (w *wire) ask(label, id string, filters []nostr.Filter) {
	parts := []any{label, id}
	for _, f := range filters {
		parts = append(parts, conformance.WireFilter(f))
	}
	w.send(parts...)
}

// head is what is read of an answer. Its event is the id of an EVENT, or the
// true or false of an OK.
type head struct {
	label, id, event, rest string
}

func (w *wire) next() head {
	_, data, err := w.conn.Read(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if rest, found := bytes.CutPrefix(data, []byte(`["EVENT","`)); found { // most are; NIP-01 JSON begins with the id
		id, event, _ := bytes.Cut(rest, []byte(`",{"id":"`))
		return head{label: "EVENT", id: string(id), event: string(event[:64])}
	}
	var parts []json.RawMessage
	var h head
	if err := json.Unmarshal(data, &parts); err != nil {
		w.t.Fatal(err)
	}
	_ = json.Unmarshal(parts[0], &h.label)
	_ = json.Unmarshal(parts[1], &h.id)
	h.rest = string(parts[len(parts)-1])
	if h.label == "OK" {
		h.event = string(parts[2])
	}
	return h
}

func compareOverTheWire(t *testing.T, s *relaytest.Server, seed uint64, filters int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	now := time.Now().Unix()
	world := &conformance.World{
		Kinds: []int{0, 5, 10002, 30417}, Letters: []string{"t", "p", "d"},
		Values: []string{"red", "green", "", "rot", "1", "2"}, Times: [2]int64{now - 60, now - 1},
	}
	w, counts := dialWire(t, s.URL), advertises(t, s.HTTP, 45)
	stored := publishWorld(w, rng, world)
	asked := make(chan []nostr.Filter, filters)
	go func() {
		defer close(asked)
		for i := range filters {
			list := []nostr.Filter{world.Filter(rng)}
			if rng.IntN(5) == 0 {
				list = append(list, world.Filter(rng))
			}
			asked <- list
			w.ask("REQ", fmt.Sprint(i), list)
			w.send("CLOSE", fmt.Sprint(i))
			if counts {
				w.ask("COUNT", fmt.Sprint(i), withoutLimits(list))
			}
		}
	}()
	i := 0
	for list := range asked {
		got := []string{}
		for h := w.next(); h.label != "EOSE"; h = w.next() {
			if h.label == "EVENT" && h.id == fmt.Sprint(i) {
				got = append(got, h.event)
			} else if h.label == "CLOSED" {
				t.Fatalf("REQ %s: %s", h.id, h.rest)
			}
		}
		if diff := gocmp.Diff(plainAnswer(list, stored), got); diff != "" {
			t.Fatalf("seed %d, filters %v (-plain +relay):\n%s", seed, list, diff)
		}
		if counts {
			w.counted(list, len(plainAnswer(withoutLimits(list), stored)))
		}
		i++
	}
}

// withoutLimits are the filters as COUNT reads them.
func withoutLimits(filters []nostr.Filter) (open []nostr.Filter) {
	for _, f := range filters {
		f.Limit, f.LimitZero = 0, false
		open = append(open, f)
	}
	return open
}

// counted demands the answer to a COUNT.
func (w *wire) counted(filters []nostr.Filter, want int) {
	h := w.next()
	for h.label != "COUNT" {
		h = w.next()
	}
	if h.rest != fmt.Sprintf(`{"count":%d}`, want) {
		w.t.Fatalf("filters %v: count is %s, want %d", filters, h.rest, want)
	}
}

// advertises reports whether the relay's document names the NIP.
func advertises(t *testing.T, url string, nip int) bool {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	req.Header.Set("Accept", "application/nostr+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		SupportedNIPs []int `json:"supported_nips"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return slices.Contains(doc.SupportedNIPs, nip)
}

// publishWorld stores random events of six authors and returns those that are
// left, newest first, as NIP-01 orders them.
func publishWorld(w *wire, rng *rand.Rand, world *conformance.World) (stored []*nostr.Event) {
	secrets := make([]string, 6)
	for i := range secrets {
		secrets[i] = nostr.GeneratePrivateKey()
		pub, _ := nostr.GetPublicKey(secrets[i])
		world.Authors = append(world.Authors, pub)
	}
	for range 120 {
		ev := randomEvent(rng, world)
		if err := ev.Sign(secrets[rng.IntN(len(secrets))]); err != nil {
			w.t.Fatal(err)
		}
		w.send("EVENT", ev)
		h := w.next()
		for h.label != "OK" {
			h = w.next()
		}
		if h.event != "true" {
			w.t.Fatalf("event %s: %s", ev, h.rest)
		}
		world.IDs = append(world.IDs, ev.ID)
		stored = replace(stored, ev)
	}
	slices.SortFunc(stored, order)
	return stored
}

func order(a, b *nostr.Event) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func randomEvent(rng *rand.Rand, world *conformance.World) *nostr.Event {
	ev := &nostr.Event{Kind: world.Kinds[rng.IntN(len(world.Kinds))], CreatedAt: world.Time(rng), Tags: world.Tags(rng)}
	if ev.Kind == 30417 {
		words := slices.DeleteFunc(ev.Tags, func(t nostr.Tag) bool { return t[0] != "t" || t[1] == "" })
		slices.SortFunc(words, func(a, b nostr.Tag) int { return cmp.Compare(a[1], b[1]) })
		words = slices.CompactFunc(words, func(a, b nostr.Tag) bool { return a[1] == b[1] })
		ev.Tags = append(words, nostr.Tag{"d", fmt.Sprint(rng.IntN(4))}, nostr.Tag{"alt", "card"},
			nostr.Tag{"expiration", fmt.Sprint(time.Now().Unix() + 3600)})
	}
	if ev.Tags == nil {
		ev.Tags = nostr.Tags{}
	}
	return ev
}

// replace adds the event unless a newer version is there.
func replace(stored []*nostr.Event, ev *nostr.Event) []*nostr.Event {
	for i, old := range stored {
		same := old.Kind == ev.Kind && old.PubKey == ev.PubKey && ev.Kind != 5
		if ev.Kind == 30417 {
			same = same && old.Tags.GetD() == ev.Tags.GetD()
		}
		if ev.ID == old.ID || same && order(ev, old) > 0 {
			return stored
		}
		if same {
			return append(slices.Delete(stored, i, i+1), ev)
		}
	}
	return append(stored, ev)
}

// plainAnswer is the union of what each filter finds under its own limit.
func plainAnswer(filters []nostr.Filter, stored []*nostr.Event) []string {
	found := map[string]bool{}
	for _, f := range filters {
		left := 500
		if f.Limit > 0 || f.LimitZero {
			left = f.Limit
		}
		for _, ev := range stored {
			if left > 0 && conformance.Matches(f, ev) {
				found[ev.ID] = true
				left--
			}
		}
	}
	out := []string{}
	for _, ev := range stored {
		if found[ev.ID] {
			out = append(out, ev.ID)
		}
	}
	return out
}
