package mqttbridge_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
)

// source is a relay whose events were verified: it hands in what the benchmark gives it.
type source struct{ wraps chan []byte }

func (s source) Name() string   { return "relay" }
func (s source) Verified() bool { return true }

func (s source) Write(context.Context, bridge.Item) error { return nil }

func (s source) Read(ctx context.Context, _ carrier.Cursor, handle func(context.Context, []byte, carrier.Cursor) error) error {
	slots := make(chan struct{}, 64)
	for {
		select {
		case wrap := <-s.wraps:
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				_ = handle(ctx, wrap, "")
			}()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// written counts what a side has taken, and notes how long that took.
type written struct {
	bridge.Side
	n    atomic.Int64
	done chan struct{} // gets one for each
}

func (w *written) Write(ctx context.Context, item bridge.Item) error {
	err := w.Side.Write(ctx, item)
	if err == nil {
		w.n.Add(1)
		w.done <- struct{}{}
	}
	return err
}

// BenchmarkBridge carries wraps of a hundred recipients from a relay to a broker, each
// durable before it is published, in turns with as many bare publishes with the same
// window. Run it with -benchtime 5000x.
func BenchmarkBridge(b *testing.B) {
	const window, recipients = 64, 100
	broker := mqtttest.StartMosquitto(b, "max_inflight_messages 1000", "max_queued_messages 0")
	sender := newKey(b)
	var all []*keys.Nostr
	for range recipients {
		all = append(all, newKey(b))
	}
	wraps := make([][]byte, b.N)
	for i := range wraps {
		wraps[i] = numbered(b, sender, all[i%recipients], i)
	}
	side, err := mqttbridge.NewSide(mqttbridge.SideOptions{
		Broker: broker.URL, Signer: sender, Dialer: egress.New(egress.Options{AllowLoopback: true}), Window: window, Recipients: []string{sender.PublicKey()},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer side.Close()
	from, to := source{make(chan []byte)}, &written{Side: side, done: make(chan struct{}, 1<<16)}
	carrying, err := bridge.New(b.Context(), bridge.Options{DB: databasetest.Open(b), Name: "bench", A: from, B: to, Holder: "bench", Window: window})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- carrying.Run(ctx) }()
	client := bareClient(b, broker.Addr)
	bare := func() error {
		token := client.Publish(mqttbridge.InboxTopic(sender.PublicKey()+"x"), 1, false, wraps[0])
		token.Wait()
		return token.Error()
	}
	var bareTimes []time.Duration
	var took, bareTook time.Duration
	b.ResetTimer()
	for next := 0; next < b.N; {
		turn := wraps[next:min(next+benchTurn, b.N)]
		bareTook += inParallel(b, len(turn), window, bare, &bareTimes)
		began := time.Now()
		go func() {
			for _, wrap := range turn {
				from.wraps <- wrap
			}
		}()
		for range turn {
			<-to.done
		}
		took += time.Since(began)
		next += len(turn)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/bareTook.Seconds(), "bare/s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "bridge/s")
	b.ReportMetric(bareTook.Seconds()/took.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
	cancel()
	if err := <-ended; err != nil {
		b.Error(fmt.Errorf("ending the bridge: %w", err))
	}
}

// numbered is an event of about two kilobytes that looks like a wrap and is like no other.
func numbered(b *testing.B, from, to *keys.Nostr, n int) []byte {
	b.Helper()
	ev := nostr.Event{
		Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Content: strings.Repeat("x", 1600) + strconv.Itoa(n),
		Tags: nostr.Tags{{"p", to.PublicKey()}, {"expiration", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}},
	}
	if err := from.Sign(&ev); err != nil {
		b.Fatal(err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		b.Fatal(err)
	}
	return data
}
