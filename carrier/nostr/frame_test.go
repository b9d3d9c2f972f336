package nostr

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/carrier"
)

func TestFramesAreReadByTheirShape(t *testing.T) {
	for in, want := range map[string]frame{
		`["EVENT","r1",{"id":"x"}]`:     {label: "EVENT", id: "r1", event: []byte(`{"id":"x"}`)},
		` [ "OK" , "ab", true , "" ] `:  {label: "OK", id: "ab", ok: true},
		`["OK","ab",false]`:             {label: "OK", id: "ab"},
		`["OK","ab",false,"error: no"]`: {label: "OK", id: "ab", text: "error: no"},
		`["EOSE","r1"]`:                 {label: "EOSE", id: "r1"},
		`["CLOSED","r1","x"]`:           {label: "CLOSED", id: "r1", text: "x"},
		`["NOTICE","x"]`:                {label: "NOTICE", text: "x"},
		`["AUTH","c"]`:                  {label: "AUTH", text: "c"},
		`["COUNT","r1",{"count":3}]`:    {label: "COUNT"},
	} {
		got, err := parseFrame([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(frame{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	for _, in := range []string{
		``, `{}`, `[]`, `[1]`, `["EVENT"]`, `["EVENT","r1"]`, `["EVENT","r1",[]]`, `["EVENT","r1",{}`, `["EVENT","r1",{},1]`,
		`["OK","a","true",""]`, `["OK","a",true,1]`, `["OK",1,true]`, `["EOSE",null]`, `["EOSE","r1"]x`, `["AUTH",{}]`,
		`["NOTICE","` + strings.Repeat("x", maxText+1) + `"]`, `["EOSE","` + strings.Repeat("x", maxID+1) + `"]`,
		`["EVENT","r1",{"a":1,"a":2}]`, "[\"NOTICE\",\"\xff\"]",
	} {
		if f, err := parseFrame([]byte(in)); err == nil {
			t.Errorf("%.60q gives %+v", in, f)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, seed := range []string{`["EVENT","r1",{"id":"x"}]`, `["OK","ab",true,""]`, `["EOSE","r1"]`, `["CLOSED","r1","x"]`, `["AUTH","c"]`, `["X",[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseFrame(data)
		if err != nil {
			return
		}
		if len(got.id) > maxID || len(got.text) > maxText || len(got.label) > maxID {
			t.Fatalf("a string over its bound: %+v", got)
		}
		if got.label == labelEvent && (!bytes.Contains(data, got.event) || got.event[0] != '{') {
			t.Fatalf("event %q is not part of %q", got.event, data)
		}
	})
}

func TestAddressesHaveOneSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"wss://relay.example":                      "wss://relay.example",
		"WSS://Relay.Example/":                     "wss://relay.example",
		"wss://relay.example/a/b/":                 "wss://relay.example/a/b",
		"ws://127.0.0.1:8417":                      "ws://127.0.0.1:8417",
		"ws://localhost:1/":                        "ws://localhost:1",
		"ws://[::1]:1":                             "ws://[::1]:1",
		"ws://relay.example":                       "",
		"ws://192.168.0.1":                         "",
		"https://relay.example":                    "",
		"wss://":                                   "",
		"wss://user@relay.example":                 "",
		"wss://relay.example/?a=b":                 "",
		"wss://relay.example/#frag":                "",
		"relay.example":                            "",
		"wss://relay.example/\x00":                 "",
		"wss://" + strings.Repeat("a", maxAddress): "",
	} {
		got, err := ParseAddress(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseAddress(%.60q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestCursorHoldsEveryRelaysMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var relays []string
		for i := range rapid.IntRange(0, MaxRelays).Draw(t, "relays") {
			relays = append(relays, fmt.Sprintf("wss://relay%d.example", i))
		}
		p := newPosition("", relays)
		for _, url := range relays {
			at := rapid.Int64Range(0, maxTime).Draw(t, "mark")
			p.set(url, mark{at, dayOf(at)})
		}
		cursor := p.cursor()
		if len(cursor) > carrier.MaxCursor {
			t.Fatalf("cursor of %d bytes", len(cursor))
		}
		q := newPosition(cursor, relays)
		for _, url := range relays {
			if p.of(url) != q.of(url) {
				t.Fatalf("mark of %s = %v, want %v", url, q.of(url), p.of(url))
			}
		}
		if gone := newPosition(cursor, nil); gone.cursor() != "" {
			t.Fatal("a relay that is not listened to keeps a mark")
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("00000000.zzzzz,x.y,,")
	f.Fuzz(func(t *testing.T, text string) {
		relays := []string{"wss://relay.example"}
		if p := newPosition(carrier.Cursor(text), relays); len(p.cursor()) > carrier.MaxCursor {
			t.Fatal("cursor too long")
		}
	})
}
