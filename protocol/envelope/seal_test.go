package envelope

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

func TestSeal_and_Open_give_messages_of_any_size_back(t *testing.T) {
	longest := rapid.SampledFrom(slices.Concat(slices.Repeat([]int{2000}, 30), slices.Repeat([]int{60_000}, 9), []int{1_000_000}))
	alphabets := rapid.SampledFrom([]string{"a", base64url, `"\`, "\x01\n\x7f\u2028", "äé€\U0001F600\U0001F601", base64url + `"\/€` + "\t"})
	rapid.Check(t, func(rt *rapid.T) {
		alphabet, size := alphabets.Draw(rt, "alphabet"), rapid.IntRange(1, longest.Draw(rt, "longest")).Draw(rt, "size")
		words := noise(strconv.Itoa(rapid.Int().Draw(rt, "seed")), alphabet, size)
		m := artifact(t, words)
		if len(m.Body) > message.Types[m.Type].MaxBody {
			m = artifact(t, string([]rune(words)[:size/8])) // escapes cost up to seven bytes each
		}
		data, err := m.Encode()
		if errors.Is(err, message.ErrTooLarge) {
			rt.Skip("escapes take it beyond a message")
		}
		if err != nil {
			rt.Fatal(err)
		}
		wraps := mustSeal(t, m)
		got, parts := openAll(t, wraps)
		if parts != nil {
			rand.New(fixedEntropy("order")).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			if got, err = Join(parts, alice.PublicKey(), bob.PublicKey(), now); err != nil {
				rt.Fatal(err)
			}
		}
		if again, err := got.Encode(); err != nil || string(again) != string(data) {
			rt.Fatalf("another message came out, %v", err)
		}
	})
}

func TestSeal_of_the_largest_message_needs_fewer_wraps_than_allowed(t *testing.T) {
	m := artifact(t, "")
	m = artifact(t, noise("large", base64url, message.Types[m.Type].MaxBody-len(m.Body)))
	wraps := mustSeal(t, m)
	if len(wraps) < 2 || len(wraps) > MaxParts {
		t.Errorf("%d wraps", len(wraps))
	}
	_, parts := openAll(t, wraps)
	got, err := Join(parts, alice.PublicKey(), bob.PublicKey(), now)
	if err != nil || string(got.Body) != string(m.Body) {
		t.Errorf("another message came out, %v", err)
	}
}

func TestSeal_refuses_more_parts_than_allowed(t *testing.T) {
	s := &sealer{message: text(t, "x"), now: now}
	if _, _, err := s.slices([]byte(noise("huge", base64url, 2<<20))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// What a carrier sees of two wraps of one message does not connect them.
func TestSeal_makes_unrelated_wraps(t *testing.T) {
	m := artifact(t, noise("parts", base64url, 100_000))
	wraps := append(mustSeal(t, m), mustSeal(t, m)...)
	keys, times, contents := map[string]bool{}, map[int64]bool{}, map[string]bool{}
	for _, wrap := range wraps {
		ev, err := parseWrap(wrap.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		age := now.Sub(ev.CreatedAt.Time())
		if age < 0 || age > MaxBackdate {
			t.Errorf("created %s before", age)
		}
		if keys[ev.PubKey] || contents[ev.Content[:64]] || ev.PubKey == alice.PublicKey() {
			t.Error("key or payload used twice")
		}
		keys[ev.PubKey], times[int64(ev.CreatedAt)], contents[ev.Content[:64]] = true, true, true
	}
	if len(wraps) != 8 || len(times) < 2 {
		t.Errorf("%d wraps at %d times", len(wraps), len(times))
	}
}

func TestSeal_spreads_created_at_over_two_days(t *testing.T) {
	s := &sealer{entropy: fixedEntropy("times"), now: now}
	var oldest, youngest int64 = 0, 1 << 40
	for range 10_000 {
		age := now.Unix() - int64(s.past())
		oldest, youngest = max(oldest, age), min(youngest, age)
	}
	if youngest < 0 || youngest > 600 || oldest > 48*3600 || oldest < 48*3600-600 {
		t.Errorf("between %d and %d seconds", youngest, oldest)
	}
}

func TestSeal_rounds_the_expiration_up_to_the_hour(t *testing.T) {
	for expires, want := range map[time.Duration]time.Duration{
		time.Hour: time.Hour, time.Hour + time.Second: 2 * time.Hour, time.Second: time.Hour, 2*time.Hour - time.Second: 2 * time.Hour,
		message.MaxLifetime: message.MaxLifetime,
	} {
		m := text(t, "hello")
		m.ExpiresAt = canonical.At(now.Add(expires))
		opened, err := Open(mustSeal(t, m)[0].Bytes, bob, now)
		if err != nil {
			t.Fatal(err)
		}
		if !opened.Expires.Equal(now.Add(want)) {
			t.Errorf("%s became %s", expires, opened.Expires.Sub(now))
		}
	}
}

func TestSeal_refuses_messages_Open_would_refuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*message.Message)
		want   error
	}{
		"from another key":        {func(m *message.Message) { m.From = carol.PublicKey() }, ErrSender},
		"to a key off the curve":  {func(m *message.Message) { m.To = strings.Repeat("f", 64) }, ErrRecipient},
		"to no key":               {func(m *message.Message) { m.To = "bob" }, ErrMessage},
		"expired":                 {func(m *message.Message) { m.ExpiresAt = canonical.At(now) }, ErrMessage},
		"expired since":           {func(m *message.Message) { m.SentAt, m.ExpiresAt = canonical.At(now.Add(-time.Hour)), canonical.At(now) }, ErrExpired},
		"of another version":      {func(m *message.Message) { m.V = 2 }, ErrMessage},
		"without a body":          {func(m *message.Message) { m.Body = nil }, ErrMessage},
		"with a body of no words": {func(m *message.Message) { m.Body = []byte(`{}`) }, ErrMessage},
	} {
		m := text(t, "hello")
		c.change(m)
		if wraps, err := Seal(m, alice, now); !errors.Is(err, c.want) || wraps != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// twoFaced names one key and signs with another.
type twoFaced struct{ key }

func (twoFaced) Sign(ev *nostr.Event) error { return carol.Sign(ev) }

func TestSeal_refuses_a_signer_with_another_key(t *testing.T) {
	if _, err := Seal(text(t, "hello"), twoFaced{alice}, now); !errors.Is(err, ErrSender) {
		t.Errorf("got %v", err)
	}
}

func TestPack_deflates_when_that_saves_a_tenth(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want bool
	}{
		"words":               {strings.Repeat("the same words again and ", 100), true},
		"noise":               {noise("noise", base64url, 10_000), false},
		"nothing to speak of": {`{}`, false},
	} {
		content, tags := pack([]byte(c.data))
		if deflated := len(tags) == 1; deflated != c.want {
			t.Errorf("%s: deflated %v", name, deflated)
		}
		if c.want && len(content)*10 > len(c.data)*9 {
			t.Errorf("%s: %d bytes of %d", name, len(content), len(c.data))
		}
		data, err := unpack(content, c.want)
		if diff := cmp.Diff(c.data, string(data)); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}
