package relay

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
)

const (
	hexA      = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	eventSeed = `{"id":"` + hexA + `","pubkey":"` + hexA + `","created_at":1700000000,"kind":0,"tags":[["t","ä\n\u0001\"\\"],["-"]],"content":"x\u2028\ttab","sig":"` + hexA + hexA + `"}`
)

func TestNestingIsBoundedOutsideOfStringsOnly(t *testing.T) {
	for data, ok := range map[string]bool{
		`[[[[]]]]`:                 true,
		`[[[[[]]]]]`:               false,
		`["[[[[[[[[[[[["]`:         true,
		`["\"[[[[[[[[[["]`:         true,
		`["\\",[[[[`:               false,
		strings.Repeat("{", 1<<16): false,
		"\xff":                     false,
	} {
		if err := checkDepth([]byte(data)); (err == nil) != ok {
			t.Errorf("%.40q: %v, want ok %v", data, err, ok)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		`["EVENT",` + eventSeed + `]`, `["REQ","id",{"kinds":[0]},{}]`, `["CLOSE","id"]`, `["AUTH",` + eventSeed + `]`,
		`[]`, `[[[[[[`, `["REQ"]`, `["REQ",null]`, ` [ "REQ" , "x" ]`, `["\u0052EQ","x"]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Errorf("%q was read and is not JSON", data)
		}
		if (m.event == nil) == (m.id == "") || len(m.id) > maxSubscriptionID {
			t.Errorf("%q gives %+v", data, m)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(eventSeed))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"tags":[["d"]]}`))
	f.Add([]byte(strings.Replace(eventSeed, `"kind":0`, `"kind":0,"extra":{}`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := parseEvent(data)
		if err != nil {
			return
		}
		written := appendEvent(nil, ev)
		again, err := parseEvent(written)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", written, err)
		}
		if diff := cmp.Diff(ev, again); diff != "" {
			t.Errorf("an event changed on its way (-first +again):\n%s", diff)
		}
		if bytes.ContainsAny(written, "\n\r\t") {
			t.Errorf("%q holds raw control characters", written)
		}
	})
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"ids":["` + hexA + `"],"limit":0}`, `{"kinds":[0,30417],"#t":["x"],"since":1,"until":2}`, `{"limit":1e1}`,
		`{"authors":[]}`, `{"#d":[null]}`, `null`, `{"kinds":[1,1],"kinds":[2]}`, `{"limit":99999}`,
	} {
		f.Add([]byte(seed))
	}
	limits := DefaultLimits()
	f.Fuzz(func(t *testing.T, data []byte) {
		filter, err := parseFilter(data, limits)
		if err != nil {
			return
		}
		var plain map[string]any
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("%q was read and is not a JSON object", data)
		}
		if filter.Limit < 0 || filter.Limit > limits.Results || filter.LimitZero != (filter.Limit == 0) {
			t.Errorf("%q gives limit %d", data, filter.Limit)
		}
		for _, f := range mustScope(t, filter, []string{hexA}).parts {
			if f.Kinds == nil {
				t.Errorf("%q has a part without kinds", data)
			}
		}
	})
}

func mustScope(t *testing.T, f nostr.Filter, keys []string) scope {
	t.Helper()
	s, err := scopeOf(f, openKinds, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScopeCutsWrapsToOwnKeys(t *testing.T) {
	own, other := hexA, strings.Repeat("b", 64)
	for name, tc := range map[string]struct {
		in   nostr.Filter
		want []nostr.Filter
	}{
		"no kinds": {nostr.Filter{}, []nostr.Filter{{Kinds: openKinds}}},
		"open":     {nostr.Filter{Kinds: []int{0}}, []nostr.Filter{{Kinds: []int{0}}}},
		"wraps":    {nostr.Filter{Kinds: []int{1059}}, []nostr.Filter{{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {own}}}}},
		"both": {
			nostr.Filter{Kinds: []int{1059, 0}},
			[]nostr.Filter{{Kinds: []int{0}}, {Kinds: []int{1059}, Tags: nostr.TagMap{"p": {own}}}},
		},
		"other recipient": {
			nostr.Filter{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {other}}},
			[]nostr.Filter{{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mustScope(t, tc.in, []string{own}).parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := scopeOf(nostr.Filter{Kinds: []int{0, 1059}}, openKinds, nil); err != errAuthRequired {
		t.Errorf("without a key: %v, want errAuthRequired", err)
	}
}
