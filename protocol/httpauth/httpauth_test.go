package httpauth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

const testURL = "https://relay.example/"

var body = []byte(`{"method":"supportedmethods","params":[]}`)

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func request() Request {
	return Request{URL: []string{testURL}, Method: "POST", Body: body}
}

// token signs a good event after change spoiled it.
func token(t testing.TB, at time.Time, change func(*nostr.Event)) (header, pubkey string) {
	t.Helper()
	sum := sha256.Sum256(body)
	ev := nostr.Event{Kind: Kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{
		{"u", testURL}, {"method", "POST"}, {"payload", hex.EncodeToString(sum[:])},
	}}
	if change != nil {
		change(&ev)
	}
	if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	return encode(t, &ev), ev.PubKey
}

func encode(t testing.TB, ev *nostr.Event) string {
	t.Helper()
	data, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return "Nostr " + base64.StdEncoding.EncodeToString(data)
}

func TestGoodTokenNamesItsKeyOnce(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	v := NewVerifier(c.now)
	header, pubkey := token(t, c.at, nil)
	got, err := v.Verify(header, request())
	if err != nil || got != pubkey {
		t.Fatalf("got %s, %v; want %s", got, err, pubkey)
	}
	for range 2 {
		if _, err := v.Verify(header, request()); !errors.Is(err, ErrUsed) {
			t.Errorf("used again: %v", err)
		}
		c.at = c.at.Add(Window)
	}
	c.at = c.at.Add(time.Second)
	if _, err := v.Verify(header, request()); !errors.Is(err, ErrInvalid) {
		t.Errorf("after its time: %v", err)
	}
}

func TestTokenFromTheFutureIsUsableOnceUntilItIsOver(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	v := NewVerifier(c.now)
	header, _ := token(t, c.at.Add(Window), nil)
	for i := range 121 {
		_, err := v.Verify(header, request())
		if (i == 0) != (err == nil) {
			t.Fatalf("after %d seconds: %v", i, err)
		}
		c.at = c.at.Add(time.Second)
	}
}

func TestSpoiltTokenIsRefused(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	tag := func(name string, values ...string) func(*nostr.Event) {
		return func(ev *nostr.Event) {
			for i := range ev.Tags {
				if ev.Tags[i][0] == name {
					ev.Tags[i] = append(nostr.Tag{name}, values...)
				}
			}
		}
	}
	for name, spoil := range map[string]func(*nostr.Event){
		"kind":           func(ev *nostr.Event) { ev.Kind = 1 },
		"old":            func(ev *nostr.Event) { ev.CreatedAt -= 61 },
		"future":         func(ev *nostr.Event) { ev.CreatedAt += 61 },
		"far future":     func(ev *nostr.Event) { ev.CreatedAt = 1 << 60 },
		"no tags":        func(ev *nostr.Event) { ev.Tags = nostr.Tags{} },
		"url":            tag("u", "https://relay.example"),
		"url empty":      tag("u"),
		"url twice":      func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"u", testURL}) },
		"method":         tag("method", "GET"),
		"method in case": tag("method", "post"),
		"payload":        tag("payload", strings.Repeat("0", 64)),
		"payload empty":  tag("payload"),
		"many tags": func(ev *nostr.Event) {
			for i := range maxTags {
				ev.Tags = append(ev.Tags, nostr.Tag{"x", fmt.Sprint(i)})
			}
		},
	} {
		v := NewVerifier(c.now)
		header, _ := token(t, c.at, spoil)
		if _, err := v.Verify(header, request()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if len(v.used) != 0 {
			t.Errorf("%s: it is remembered", name)
		}
	}
}

func TestForgedTokenIsRefusedAndNotRemembered(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	v := NewVerifier(c.now)
	header, _ := token(t, c.at, nil)
	ev, err := parse(header)
	if err != nil {
		t.Fatal(err)
	}
	forged := *ev
	forged.PubKey, _ = nostr.GetPublicKey(nostr.GeneratePrivateKey())
	if _, err := v.Verify(encode(t, &forged), request()); !errors.Is(err, ErrInvalid) {
		t.Errorf("the id of another event: %v", err)
	}
	forged.ID = forged.GetID()
	if _, err := v.Verify(encode(t, &forged), request()); !errors.Is(err, ErrInvalid) {
		t.Errorf("the signature of another key: %v", err)
	}
	if len(v.used) != 0 {
		t.Error("a forged token is remembered")
	}
}

func TestHeaderThatIsNoTokenIsRefused(t *testing.T) {
	v := NewVerifier(nil)
	for header, want := range map[string]error{
		"": ErrMissing, "Bearer x": ErrMissing, "Nostr": ErrInvalid, "Nostr !": ErrInvalid, "Nostr e30=": ErrInvalid, "Nostr bnVsbA==": ErrInvalid,
		"Nostr " + strings.Repeat("A", maxHeader+4): ErrInvalid,
	} {
		if _, err := v.Verify(header, request()); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", header, err, want)
		}
	}
}

func TestStrangersDoNotFillTheMemory(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	v := NewVerifier(c.now)
	v.limit = 2
	req := request()
	req.Allow = func(string) bool { return false }
	for range 4 {
		header, _ := token(t, c.at, nil)
		if _, err := v.Verify(header, req); !errors.Is(err, ErrForbidden) {
			t.Fatal(err)
		}
	}
	req.Allow = nil
	for i := range 4 {
		header, _ := token(t, c.at, nil)
		if _, err := v.Verify(header, req); errors.Is(err, ErrBusy) != (i >= 2) {
			t.Fatalf("token %d: %v", i, err)
		}
	}
	c.at = c.at.Add(Window + time.Second)
	header, _ := token(t, c.at, nil)
	if _, err := v.Verify(header, req); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	at := time.Unix(1_700_000_000, 0)
	header, _ := token(f, at, nil)
	f.Add(header)
	f.Add("Nostr e30=")
	f.Add("Nostr bnVsbA==")
	v := NewVerifier(func() time.Time { return at })
	f.Fuzz(func(t *testing.T, header string) {
		if pubkey, err := v.Verify(header, request()); err == nil && len(pubkey) != 64 {
			t.Errorf("%q is taken for key %q", header, pubkey)
		}
	})
}
