package relay_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// maxFrames bounds the messages of one input.
const maxFrames = 64

// FuzzSession sends an input, cut at line feeds, as messages of one connection
// to a live relay. Whatever it is, the relay answers what follows or closes
// the connection, and another client goes on undisturbed.
func FuzzSession(f *testing.F) {
	ev := nostr.Event{Kind: 0, CreatedAt: 1700000000, Tags: nostr.Tags{{"t", "x"}, {"-"}}, Content: "{}"}
	if err := ev.Sign("0000000000000000000000000000000000000000000000000000000000000001"); err != nil {
		f.Fatal(err)
	}
	event := ev.String()
	for _, seed := range []string{
		"", "\n", "[]", "nonsense", "[[[[[[[[", "{\"a\":1}\n\x00\xff",
		`["EVENT",` + event + "]\n" + `["REQ","a",{"authors":["` + ev.PubKey + `"]}]` + "\n" + `["CLOSE","a"]`,
		`["EVENT",` + event + "]\n" + `["EVENT",` + event + "]\n" + `["EVENT",{}]` + "\n" + `["EVENT",null]`,
		`["REQ","a",{}]` + "\n" + `["REQ","a",{"limit":0}]` + "\n" + `["REQ","b",{"kinds":[1059]},{"#p":[]}]` + "\n" + `["REQ"]`,
		`["AUTH",` + event + "]\n" + `["AUTH","x"]` + "\n" + `["COUNT","c",{}]` + "\n" + `["CLOSE",1]`,
		`["NEG-OPEN","n",{},"6100000200"]` + "\n" + `["NEG-MSG","n","61"]` + "\n" + `["NEG-CLOSE","n"]`,
		`["REQ","s",{"search":"\u0000 \" *","since":-1,"until":9223372036854775807,"limit":18446744073709551616}]`,
		`["EVENT",{"id":"","pubkey":"","created_at":1e99,"kind":-0,"tags":[["d"]],"content":"\ud800","sig":""}]`,
	} {
		f.Add([]byte(seed))
	}
	s := relaytest.Start(f, relay.Options{})
	witness := dialFuzz(f, s.URL)
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := dialFuzz(t, s.URL)
		defer conn.CloseNow()
		frames := bytes.Split(data, []byte("\n"))
		for _, frame := range frames[:min(len(frames), maxFrames)] {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := conn.Write(ctx, websocket.MessageText, frame)
			cancel()
			if err != nil {
				break // closed, which the next step demands to see
			}
		}
		if err := answered(t.Context(), conn); errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the relay neither answers nor closes: %v", err)
		}
		if err := answered(t.Context(), witness); err != nil {
			t.Fatalf("another client is not answered: %v", err)
		}
	})
}

func dialFuzz(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatalf("dialling the relay: %v", err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

// answered sends a REQ and reads up to its EOSE or CLOSED.
func answered(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const id = "fuzz-is-over"
	if err := conn.Write(ctx, websocket.MessageText, []byte(`["REQ","`+id+`",{"limit":0}]`)); err != nil {
		return err
	}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(data, []byte(`["CLOSED","`+id)) {
			return nil
		}
		if bytes.HasPrefix(data, []byte(`["EOSE","`+id)) {
			return conn.Write(ctx, websocket.MessageText, []byte(`["CLOSE","`+id+`"]`))
		}
	}
}
