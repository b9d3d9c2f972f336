package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

var (
	now   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	alice = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	bob   = "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
)

const (
	firstID  = "019ad4a2-2c00-7000-8000-000000000001"
	secondID = "019ad4a2-2c00-7000-8000-000000000002"
)

func size(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// signed is an event with the shape of a signature; package message does not
// look further.
func signed() nostr.Event {
	return nostr.Event{
		ID: strings.Repeat("0a", 32), PubKey: alice, CreatedAt: nostr.Timestamp(now.Unix()), Kind: 1418,
		Tags: nostr.Tags{{"action", "propose"}, {"-"}}, Content: "", Sig: strings.Repeat("0b", 64),
	}
}

// bodies has one valid body of each type that has a Body.
func bodies() []Body {
	signature := signed()
	event := jsontext.Value(`{"seq":1}`)
	return []Body{
		Text{Text: "Grüße, \"quoted\" \U0001F600\n\u2028"},
		Ack{ID: firstID},
		Nack{ID: firstID, Reason: "three pieces missing"},
		Error{ID: firstID, Code: "unknown_type", Detail: "no such type here"},
		ContactCarriers{Carriers: []Carrier{{"nostr", "wss://relay.example", 1}, {"mailto", "a@b.example", 20}}},
		AgreementPropose{Revision: `{"title":"x"}`, Signature: signature},
		AgreementInvite{Revision: `{"title":"x"}`, Signature: signature},
		AgreementCommand{Command: jsontext.Value(`{"action":"agree"}`), Key: "key:0001", Signature: &signature},
		AgreementResult{InReplyTo: firstID, AgreementID: secondID, Event: event},
		AgreementEvent{Event: event, Outcome: "no_consensus"},
		AgreementQuery{AgreementID: secondID, From: 3},
		AgreementArtifact{AgreementID: secondID, Bundle: `{"schema":"x"}`},
	}
}

// examples has a message of each type, all choices fixed.
func examples(t *testing.T) map[string]*Message {
	t.Helper()
	all := map[string]*Message{}
	for i, body := range bodies() {
		m, err := New(body.Type(), alice, bob, body, now, 24*time.Hour)
		if err != nil {
			t.Fatalf("%s: %v", body.Type(), err)
		}
		m.ID = fmt.Sprintf("019ad4a2-2c00-7000-8000-%012d", i+1)
		m.Thread, m.Seq = firstID, int64(i)
		all[m.Type] = m
	}
	return all
}

func TestTypes_all_have_an_example_or_no_body(t *testing.T) {
	all := examples(t)
	for typ, info := range Types {
		if _, ok := all[typ]; ok != (info.new != nil) {
			t.Errorf("%s: example %v", typ, ok)
		}
		if info.Unanswered != (typ == TypeAck || typ == TypeNack || typ == TypeError) {
			t.Errorf("%s: unanswered %v", typ, info.Unanswered)
		}
		if info.new != nil && info.new().Type() != typ {
			t.Errorf("%s: body of %s", typ, info.new().Type())
		}
	}
}

func TestDecodeBody_gives_back_what_New_took(t *testing.T) {
	for _, in := range bodies() {
		m, err := New(in.Type(), alice, bob, in, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		out := newBody(in.Type())
		if err := DecodeBody(m, out); err != nil {
			t.Errorf("%s: %v", in.Type(), err)
			continue
		}
		want, _ := canonical.Marshal(in)
		if got, err := canonical.Marshal(out); err != nil || string(got) != string(want) {
			t.Errorf("got %s, want %s, %v", got, want, err)
		}
	}
}

func TestMessage_survives_Encode_and_Parse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 200, -1).Draw(t, "text")
		m, err := New(TypeText, alice, bob, Text{text}, now, time.Duration(rapid.Int64Range(1, 30*86400).Draw(t, "ttl"))*time.Second)
		if errors.Is(err, canonical.ErrNotIJSON) {
			t.Skip("noncharacter")
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Seq = rapid.Int64Range(0, maxSeq).Draw(t, "seq")
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNew_makes_fresh_ids_that_start_a_thread(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		m, err := New(TypeText, alice, bob, &Text{"hi"}, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.ID] || m.Thread != m.ID || !canonical.IsUUID(m.ID, 7) {
			t.Fatalf("id %s, thread %s", m.ID, m.Thread)
		}
		seen[m.ID] = true
	}
}

func TestNew_refuses_what_Parse_would(t *testing.T) {
	for name, c := range map[string]struct {
		typ, from, to string
		body          any
		ttl           time.Duration
		want          error
	}{
		"body of another type": {TypeAck, alice, bob, Text{"x"}, time.Hour, ErrType},
		"invalid body":         {TypeText, alice, bob, Text{""}, time.Hour, ErrMalformed},
		"raw body, unchecked":  {TypeText, alice, bob, jsontext.Value(`{"txt":"x"}`), time.Hour, ErrMalformed},
		"body no object":       {"x.new", alice, bob, "text", time.Hour, ErrMalformed},
		"upper-case sender":    {TypeText, strings.ToUpper(alice), bob, Text{"x"}, time.Hour, ErrMalformed},
		"recipient an npub":    {TypeText, alice, "npub1" + bob, Text{"x"}, time.Hour, ErrMalformed},
		"no lifetime":          {TypeText, alice, bob, Text{"x"}, 0, ErrLifetime},
		"more than 30 days":    {TypeText, alice, bob, Text{"x"}, MaxLifetime + time.Second, ErrLifetime},
		"too large":            {"x.new", alice, bob, map[string]string{"a": strings.Repeat("x", UnknownMaxBody)}, time.Hour, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.typ, c.from, c.to, c.body, now, c.ttl); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestCheck_draws_the_line_at_the_second(t *testing.T) {
	at := func(d time.Duration) canonical.Time { return canonical.At(now.Add(d)) }
	for name, c := range map[string]struct {
		sent, expires time.Duration
		want          error
	}{
		"fresh":                     {0, time.Hour, nil},
		"expires next second":       {-time.Hour, time.Second, nil},
		"expires now":               {-time.Hour, 0, ErrExpired},
		"expired":                   {-2 * time.Hour, -time.Hour, ErrExpired},
		"15 minutes ahead":          {MaxSkew, time.Hour, nil},
		"a second further":          {MaxSkew + time.Second, time.Hour, ErrFuture},
		"30 days":                   {0, MaxLifetime, nil},
		"30 days and a second":      {0, MaxLifetime + time.Second, ErrLifetime},
		"expires when sent":         {0, 0, ErrLifetime},
		"expires before it is sent": {time.Minute, 0, ErrLifetime},
		"centuries":                 {-200 * 365 * 24 * time.Hour, 200 * 365 * 24 * time.Hour, ErrLifetime},
	} {
		t.Run(name, func(t *testing.T) {
			m := Message{SentAt: at(c.sent), ExpiresAt: at(c.expires)}
			if err := m.Check(now); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestParse_bounds_size_before_reading(t *testing.T) {
	if _, err := Parse(make([]byte, MaxSize+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	deep := `{"body":` + strings.Repeat(`{"a":`, MaxSize/8) + `1` + strings.Repeat(`}`, MaxSize/8) + `}`
	if _, err := Parse([]byte(deep)); !errors.Is(err, canonical.ErrNotIJSON) {
		t.Errorf("deep body: got %v", err)
	}
}

func TestParse_bounds_the_body_of_each_type(t *testing.T) {
	for typ, info := range Types {
		m := *examples(t)[TypeText]
		m.Type, m.Body = typ, jsontext.Value(`{"a":"`+strings.Repeat("x", info.MaxBody)+`"}`)
		if err := m.validate(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v", typ, err)
		}
	}
}

func TestText_of_the_longest_form_fits_its_limit(t *testing.T) {
	longest := Text{strings.Repeat("\u0001", MaxText)}
	if _, err := New(TypeText, alice, bob, longest, now, time.Hour); err != nil {
		t.Error(err)
	}
	longest.Text += "a"
	if err := longest.Validate(); !errors.Is(err, ErrMalformed) {
		t.Errorf("one more: got %v", err)
	}
	if err := (Text{strings.Repeat("\U0001F600", MaxText)}).Validate(); err != nil {
		t.Errorf("limits count code points: %v", err)
	}
}

func TestParse_keeps_an_unknown_type_and_its_body(t *testing.T) {
	m, err := New("x.later-thing_2", alice, bob, map[string]any{"any": []int{1}}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(data); err != nil || Known(got.Type) || string(got.Body) != `{"any":[1]}` {
		t.Errorf("got %v, %v", got, err)
	}
}

// Every one of the ten members is required, and none may be null.
func TestParse_wants_every_member(t *testing.T) {
	for _, member := range []string{"v", "id", "type", "thread", "from", "to", "seq", "sent_at", "expires_at", "body"} {
		for _, value := range []any{nil, true} {
			data := with(t, examples(t)[TypeText], func(members map[string]any) { members[member] = value })
			if _, err := Parse(data); err == nil {
				t.Errorf("%s = %v was taken", member, value)
			}
		}
		data := with(t, examples(t)[TypeText], func(members map[string]any) { delete(members, member) })
		if _, err := Parse(data); !errors.Is(err, ErrMalformed) {
			t.Errorf("without %s: got %v", member, err)
		}
	}
}

// with is m's JSON after a change to its members.
func with(t *testing.T, m *Message, change func(map[string]any)) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	change(members)
	if data, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	return data
}

func FuzzParse(f *testing.F) {
	m, err := New(TypeText, alice, bob, Text{"hi"}, now, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	data, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.Replace(string(data), `{"text":"hi"}`, `{"id":"`+firstID+`"}`, 1)))
	f.Add([]byte(`{"v":1,"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		encoded, err := m.Encode()
		if err != nil {
			t.Fatalf("parsed but not encoded: %v", err)
		}
		exact, err := canonical.Transform(data)
		if err != nil || string(exact) != string(encoded) {
			t.Fatalf("something was lost: %s became %s", exact, encoded)
		}
	})
}
