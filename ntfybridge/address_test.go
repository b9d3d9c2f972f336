package ntfybridge_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/ntfybridge"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://ntfy.example/topic":                             "https://ntfy.example/topic",
		"HTTPS://Ntfy.Example:443/Topic_1-":                      "https://ntfy.example/Topic_1-",
		"https://ntfy.example:8443/t":                            "https://ntfy.example:8443/t",
		"http://127.0.0.1:2586/t":                                "http://127.0.0.1:2586/t",
		"http://localhost:80/t":                                  "http://localhost/t",
		"https://[2001:db8::1]/t":                                "https://[2001:db8::1]/t",
		"http://ntfy.example/topic":                              "",
		"https://ntfy.example":                                   "",
		"https://ntfy.example/":                                  "",
		"https://ntfy.example/a/b":                               "",
		"https://ntfy.example/a,b":                               "",
		"https://ntfy.example/a%2Fb":                             "",
		"https://ntfy.example/a?up=1":                            "",
		"https://ntfy.example/a?":                                "",
		"https://ntfy.example/a#b":                               "",
		"https://user:pass@ntfy.example/topic":                   "",
		"https:///topic":                                         "",
		"https://ntfy.example:/topic":                            "",
		"https:ntfy.example/topic":                               "",
		"ntfy://ntfy.example/topic":                              "",
		"topic":                                                  "",
		"https://ntfy.example/" + strings.Repeat("x", 65):        "",
		"https://" + strings.Repeat("x", 600) + ".example/topic": "",
	} {
		got, err := ntfybridge.ParseAddress(text)
		if want == "" && !errors.Is(err, carrier.ErrPermanent) || want != "" && (err != nil || got.String() != want) {
			t.Errorf("ParseAddress(%.80q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"https://ntfy.example/topic", "http://127.0.0.1:2586/t", "https://u:p@h/t", "https://h:443/t?x", "https://h/%2e%2e", "//h/t", "https://[::1]:/t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ntfybridge.ParseAddress(text)
		if err != nil {
			return
		}
		again, err := ntfybridge.ParseAddress(a.String())
		if err != nil || again != a || strings.ContainsAny(a.Origin, "@?# \r\n") {
			t.Errorf("%q became %q, then %q (%v)", text, a, again, err)
		}
	})
}

// The vectors of docs/spec/wakeup.md.
func TestTopicsAreThoseOfTheSpecification(t *testing.T) {
	secret := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f")
	for _, v := range topicVectors {
		contact := strings.Repeat(v.digit, 64)
		if got := ntfybridge.Topic(secret, contact, v.epoch); got != v.topic {
			t.Errorf("epoch %d, contact %s…: %s, want %s", v.epoch, v.digit, got, v.topic)
		}
	}
	now := time.Date(2026, 12, 10, 0, 0, 0, 0, time.UTC)
	if n := ntfybridge.Epoch(now); n != 693 || !ntfybridge.EpochEnd(n).Equal(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("epoch %d, ends %s", n, ntfybridge.EpochEnd(n))
	}
	topics := ntfybridge.Topics(secret, strings.Repeat("a", 64), now)
	if len(topics) != 2 || topics[0] != topicVectors[0].topic || topics[1] != topicVectors[1].topic {
		t.Errorf("topics %q", topics)
	}
}

func TestPointers(t *testing.T) {
	id := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		ntfybridge.Pointer(id):                  id,
		ntfybridge.Pointer(strings.ToUpper(id)): "",
		ntfybridge.Pointer(id[1:]):              "",
		ntfybridge.Pointer(id) + " ":            "",
		ntfybridge.WakeUp:                       "",
		id:                                      "",
	} {
		if got, ok := ntfybridge.ParsePointer(text); ok != (want != "") || ok && got != want {
			t.Errorf("ParsePointer(%q) = %q, %v", text, got, ok)
		}
	}
}
