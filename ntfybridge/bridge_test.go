package ntfybridge_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// source is a side that hands in what it is given.
type source struct{ wraps chan []byte }

func (s source) Name() string { return "relay" }

func (s source) Read(ctx context.Context, _ carrier.Cursor, handle func(context.Context, []byte, carrier.Cursor) error) error {
	for {
		select {
		case wrap := <-s.wraps:
			if err := handle(ctx, wrap, ""); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s source) Write(context.Context, bridge.Item) error { return nil }

// sealed makes n wraps for each of some recipients.
func sealed(t testing.TB, recipients, n int) map[string][][]byte {
	t.Helper()
	all := make(map[string][][]byte)
	sender, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	for range recipients {
		to, err := keys.GenerateNostr()
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			m, err := message.New(message.TypeText, sender.PublicKey(), to.PublicKey(), message.Text{Text: "hello"}, time.Now(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			wraps, err := envelope.Seal(m, sender, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			all[to.PublicKey()] = append(all[to.PublicKey()], wraps[0].Bytes)
		}
	}
	return all
}

// startBridge joins a source to topics of a server, one for each recipient.
func startBridge(t testing.TB, server *ntfytest.Server, recipients map[string][][]byte) source {
	t.Helper()
	topics := make(map[string]string)
	for pubkey := range recipients {
		topics[pubkey] = server.URL + "/" + pubkey
	}
	side, err := ntfybridge.NewSide(ntfybridge.SideOptions{
		Recipients: topics, Dialer: loopback(), Allowances: map[string]ntfybridge.Allowance{server.URL: generous},
	})
	if err != nil {
		t.Fatal(err)
	}
	from := source{make(chan []byte, 1<<16)}
	b, err := bridge.New(t.Context(), bridge.Options{
		DB: databasetest.OpenAt(t, filepath.Join(t.TempDir(), "data", "parley.db")), Name: "test", A: from, B: side, Holder: "one",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; side.Close() })
	return from
}

func TestBridgeMovesEachEnvelopeOnceInOrder(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	all := sealed(t, 3, 10)
	from := startBridge(t, server, all)
	for i := range 10 {
		for _, wraps := range all {
			from.wraps <- wraps[i]
			from.wraps <- wraps[i] // and again
		}
	}
	p := protocol{url: server.URL}
	for pubkey := range all {
		until(t, "ten envelopes in a topic", func() bool { return len(p.poll(t, pubkey, "")) >= 10 })
	}
	for pubkey, wraps := range all {
		var want []string
		for _, wrap := range wraps {
			want = append(want, string(wrap))
		}
		got := p.poll(t, pubkey, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("topic of %.8s (-want +got):\n%s", pubkey, diff)
		}
	}
}

// BenchmarkBridge moves envelopes from a side in memory to topics of eight
// recipients. An operation is an envelope; run it with -benchtime 2000x.
func BenchmarkBridge(b *testing.B) {
	server := ntfytest.Start(b, ntfytest.Options{Burst: -1, File: filepath.Join(b.TempDir(), "messages")})
	all := sealed(b, 8, (b.N+7)/8)
	from := startBridge(b, server, all)
	n := 0
	b.ResetTimer()
	began := time.Now()
	for i := range (b.N + 7) / 8 {
		for _, wraps := range all {
			from.wraps <- wraps[i]
			n++
		}
	}
	until(b, "all publications", func() bool { return server.Published() >= n })
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "bridge/s")
}
