package card

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pubkey is a valid public key made from a name.
func pubkey(name string) string {
	sum := sha256.Sum256([]byte(name))
	pub, err := nostr.GetPublicKey(hex.EncodeToString(sum[:]))
	if err != nil {
		panic(err)
	}
	return pub
}

const a2aCard = `{"name":"Tide clerk","description":"Publishes tide tables.","version":"1.0.0",` +
	`"supportedInterfaces":[{"url":"https://tide.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` +
	`"capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}`

// minimal is the smallest card.
func minimal() *Card {
	return &Card{PubKey: pubkey("me"), Name: DefaultName, Alt: "Contact card of an agent", Expires: now.Add(30 * 24 * time.Hour)}
}

// full is a card with every field.
func full() *Card {
	c := minimal()
	c.Name, c.Content = "tide.clerk-1", a2aCard
	c.Carriers = []Carrier{
		{SchemeNostr, "wss://relay.example", 10},
		{SchemeNostr, "ws://127.0.0.1:8417/", 40},
		{SchemeNtfy, "https://ntfy.example/wake_9x", 20},
		{SchemeMQTT, "mqtts://mqtt.example:8883/parley/in/tide", 30},
		{SchemeHTTPS, "https://tide.example/carrier/v1/inbox", 5},
		{SchemeMailto, "mailto:tide@tide.example", 90},
	}
	c.Protocols = []string{"parley/1", "consensus/1", "a2a/1.0"}
	c.Capabilities = []string{"tide-tables", "übersetzung", "潮汐"}
	c.Kinds = []int{1, 1059, 30417}
	c.A2A = []string{"https://tide.example/a2a"}
	c.Owner, c.Agents = pubkey("owner"), []string{pubkey("agent 1"), pubkey("agent 2")}
	c.Moved, c.Previous = pubkey("next"), pubkey("old")
	c.Proof = &Proof{"YXR0ZXN0YXRpb24", "c2FsdA"}
	return c
}

func event(t testing.TB, c *Card) nostr.Event {
	t.Helper()
	ev, err := c.Event(now)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestEvent_isReadBackAsTheSameCard(t *testing.T) {
	for _, c := range []*Card{minimal(), full()} {
		ev := event(t, c)
		got, err := Parse(&ev, now)
		if err != nil {
			t.Fatal(err)
		}
		want := *c
		want.CreatedAt = now
		want.Carriers = byPriority(c.Carriers)
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		again := event(t, got)
		if diff := cmp.Diff(ev, again); diff != "" {
			t.Errorf("another event from what was read:\n%s", diff)
		}
	}
}

func TestEvent_matchesItsGoldenFile(t *testing.T) {
	for name, c := range map[string]*Card{"minimal.json": minimal(), "full.json": full()} {
		ev := event(t, c)
		got := ev.String() + "\n" + relayListOf(c) + "\n"
		path := "../../testdata/card/" + name
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func relayListOf(c *Card) string { ev := RelayList(c, now); return ev.String() }

func TestRelayList_namesTheNostrCarriersByPriority(t *testing.T) {
	ev := RelayList(full(), now)
	want := nostr.Tags{{"r", "wss://relay.example"}, {"r", "ws://127.0.0.1:8417/"}}
	if diff := cmp.Diff(want, ev.Tags); diff != "" || ev.Kind != 10002 {
		t.Error(ev.Kind, diff)
	}
}

// edit changes the first tag of a name; nil removes it.
func edit(tags nostr.Tags, name string, to nostr.Tag) nostr.Tags {
	out := nostr.Tags{}
	done := false
	for _, tag := range tags {
		if tag[0] == name && !done {
			done = true
			if to != nil {
				out = append(out, to)
			}
			continue
		}
		out = append(out, tag)
	}
	return out
}

func TestParse_refusesAWrongTag(t *testing.T) {
	key := pubkey("x")
	cases := map[string]struct {
		name string
		to   nostr.Tag
	}{
		"no d":                   {"d", nil},
		"empty d":                {"d", nostr.Tag{"d", ""}},
		"upper-case d":           {"d", nostr.Tag{"d", "Tide"}},
		"long d":                 {"d", nostr.Tag{"d", strings.Repeat("a", 33)}},
		"d with more":            {"d", nostr.Tag{"d", "default", "x"}},
		"no alt":                 {"alt", nil},
		"blank alt":              {"alt", nostr.Tag{"alt", "  "}},
		"alt of two lines":       {"alt", nostr.Tag{"alt", "a\nb"}},
		"no expiration":          {"expiration", nil},
		"expiration not decimal": {"expiration", nostr.Tag{"expiration", "1e9"}},
		"expiration spelled":     {"expiration", nostr.Tag{"expiration", "01796040000"}},
		"expiration too far":     {"expiration", nostr.Tag{"expiration", fmt.Sprint(now.Add(MaxLifetime + time.Second).Unix())}},
		"expiration overflow":    {"expiration", nostr.Tag{"expiration", "99999999999999999999"}},
		"carrier short":          {"carrier", nostr.Tag{"carrier", "https", "https://a.example/x"}},
		"carrier priority":       {"carrier", nostr.Tag{"carrier", "https", "https://a.example/x", "-1"}},
		"carrier priority high":  {"carrier", nostr.Tag{"carrier", "https", "https://a.example/x", "65536"}},
		"carrier scheme":         {"carrier", nostr.Tag{"carrier", "gopher", "gopher://a.example/x", "1"}},
		"carrier twice":          {"t", nostr.Tag{"carrier", "nostr", "wss://relay.example", "7"}},
		"L missing":              {"L", nil},
		"L twice":                {"t", nostr.Tag{"L", "parley.carrier"}},
		"l missing":              {"l", nil},
		"l of no carrier":        {"l", nostr.Tag{"l", "smoke", "parley.carrier"}},
		"l twice":                {"t", nostr.Tag{"l", "parley/1", "parley.protocol"}},
		"l without space":        {"l", nostr.Tag{"l", "https"}},
		"protocol malformed":     {"t", nostr.Tag{"l", "Parley", "parley.protocol"}},
		"upper-case t":           {"t", nostr.Tag{"t", "Tide"}},
		"t with blank":           {"t", nostr.Tag{"t", "a b"}},
		"empty t":                {"t", nostr.Tag{"t", ""}},
		"t twice":                {"k", nostr.Tag{"t", "tide-tables"}},
		"k not a number":         {"k", nostr.Tag{"k", "0x1"}},
		"k too high":             {"k", nostr.Tag{"k", "65536"}},
		"a2a plain":              {"a2a", nostr.Tag{"a2a", "http://tide.example/a2a"}},
		"p without marker":       {"p", nostr.Tag{"p", key}},
		"p marker unknown":       {"p", nostr.Tag{"p", key, "", "friend"}},
		"p relay hint":           {"p", nostr.Tag{"p", key, "wss://x", "owner"}},
		"p not a key":            {"p", nostr.Tag{"p", strings.Repeat("f", 64), "", "owner"}},
		"p short key":            {"p", nostr.Tag{"p", key[:62], "", "owner"}},
		"p own key":              {"p", nostr.Tag{"p", pubkey("me"), "", "owner"}},
		"two owners":             {"t", nostr.Tag{"p", key, "", "owner"}},
		"two previous":           {"t", nostr.Tag{"p", key, "", "previous"}},
		"agent twice":            {"t", nostr.Tag{"p", pubkey("agent 1"), "", "agent"}},
		"moved to itself":        {"moved", nostr.Tag{"moved", pubkey("me")}},
		"moved twice":            {"t", nostr.Tag{"moved", key}},
		"mailto without proof":   {"proof", nil},
		"proof padded":           {"proof", nostr.Tag{"proof", "YQ==", "YQ"}},
		"proof empty":            {"proof", nostr.Tag{"proof", "", "YQ"}},
		"empty tag":              {"t", nostr.Tag{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ev := event(t, full())
			ev.Tags = edit(ev.Tags, c.name, c.to)
			_, err := Parse(&ev, now)
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v", err)
			}
			if len(err.Error()) > 120 || !strings.HasPrefix(err.Error(), "card: ") {
				t.Errorf("text %q", err)
			}
		})
	}
}

func TestParse_boundsTimeKindAndSize(t *testing.T) {
	cases := map[string]struct {
		edit func(*nostr.Event)
		want error
	}{
		"kind":           {func(ev *nostr.Event) { ev.Kind = 30418 }, ErrKind},
		"from tomorrow":  {func(ev *nostr.Event) { ev.CreatedAt += 901 }, ErrFuture},
		"15 minutes on":  {func(ev *nostr.Event) { ev.CreatedAt += 900 }, nil},
		"too many tags":  {func(ev *nostr.Event) { ev.Tags = slices.Repeat(nostr.Tags{{"x"}}, 201) }, ErrTooLarge},
		"too large":      {func(ev *nostr.Event) { ev.Content = strings.Repeat(" ", MaxSize) }, ErrTooLarge},
		"large escaped":  {func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"x", strings.Repeat("\x01", MaxSize/5)}) }, ErrTooLarge},
		"unknown tag":    {func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"client", "x"}, nostr.Tag{"y"}) }, nil},
		"17 carriers":    {func(ev *nostr.Event) { ev.Tags = append(ev.Tags, manyCarriers(17)...) }, ErrMalformed},
		"content list":   {func(ev *nostr.Event) { ev.Content = "[]" }, ErrMalformed},
		"content text":   {func(ev *nostr.Event) { ev.Content = "hello" }, ErrMalformed},
		"content double": {func(ev *nostr.Event) { ev.Content = strings.Replace(a2aCard, `"name"`, `"name":"x","name"`, 1) }, ErrMalformed},
		"content lacks":  {func(ev *nostr.Event) { ev.Content = strings.Replace(a2aCard, `"skills"`, `"skill"`, 1) }, ErrMalformed},
		"content v0.3":   {func(ev *nostr.Event) { ev.Content = strings.Replace(a2aCard, `"protocolBinding"`, `"transport"`, 1) }, ErrMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ev := event(t, minimal())
			c.edit(&ev)
			if _, err := Parse(&ev, now); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	ev := event(t, minimal())
	if _, err := Parse(&ev, minimal().Expires); !errors.Is(err, ErrExpired) {
		t.Errorf("at its expiration: %v", err)
	}
}

func manyCarriers(n int) nostr.Tags {
	t := nostr.Tags{{"L", spaceCarrier}, {"l", SchemeHTTPS, spaceCarrier}}
	for i := range n {
		t = append(t, nostr.Tag{"carrier", SchemeHTTPS, fmt.Sprintf("https://a.example/%d", i), "1"})
	}
	return t
}

func TestParse_acceptsSixteenCarriers(t *testing.T) {
	ev := event(t, minimal())
	ev.Tags = append(ev.Tags, manyCarriers(16)...)
	if _, err := Parse(&ev, now); err != nil {
		t.Error(err)
	}
}

func TestParse_relaysTagDecidesNothing(t *testing.T) {
	ev := event(t, full())
	ev.Tags = edit(ev.Tags, "relays", nostr.Tag{"relays", "wss://other.example"})
	c, err := Parse(&ev, now)
	if err != nil || slices.Contains(c.Relays(), "wss://other.example") {
		t.Errorf("%v %v", c.Relays(), err)
	}
}

func TestEvent_failsWhereParseWould(t *testing.T) {
	c := minimal()
	c.Carriers = []Carrier{{SchemeNostr, "ws://relay.example", 1}}
	if _, err := c.Event(now); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestLinks_countOnlyWhenBothCardsSaySo(t *testing.T) {
	owner, agent := minimal(), minimal()
	owner.PubKey, agent.PubKey = pubkey("owner"), pubkey("agent")
	agent.Owner = owner.PubKey
	if Owns(owner, agent) {
		t.Error("a claim alone counts")
	}
	owner.Agents = []string{agent.PubKey}
	if !Owns(owner, agent) {
		t.Error("both say so")
	}
	agent.Owner = pubkey("another owner")
	if Owns(owner, agent) {
		t.Error("the agent names another owner")
	}
	owner.Moved = agent.PubKey
	if Succeeds(owner, agent) {
		t.Error("one side alone counts")
	}
	agent.Previous = owner.PubKey
	if !Succeeds(owner, agent) || Succeeds(agent, owner) {
		t.Error("succession")
	}
}

// TestParse_errorsNeverRepeatTheCard puts a mark into every element in turn.
func TestParse_errorsNeverRepeatTheCard(t *testing.T) {
	ev := event(t, full())
	rapid.Check(t, func(t *rapid.T) {
		changed := ev
		changed.Tags = slices.Clone(ev.Tags)
		i := rapid.IntRange(0, len(ev.Tags)-1).Draw(t, "tag")
		changed.Tags[i] = slices.Clone(ev.Tags[i])
		j := rapid.IntRange(1, len(ev.Tags[i])-1).Draw(t, "element")
		changed.Tags[i][j] = rapid.SampledFrom([]string{"SECRET", "SECRET\x00", "wss://SECRET@x"}).Draw(t, "text")
		if _, err := Parse(&changed, now); err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Fatal(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, c := range []*Card{minimal(), full()} {
		ev := event(f, c)
		f.Add(ev.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		var ev nostr.Event
		if ev.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		c, err := Parse(&ev, now)
		if err != nil {
			return
		}
		again, err := c.Event(c.CreatedAt)
		if err != nil {
			// Twins that the card left out can lift it over a limit.
			if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrExpired) {
				t.Fatal(err)
			}
			return
		}
		back, err := Parse(&again, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Fatal(diff)
		}
	})
}
