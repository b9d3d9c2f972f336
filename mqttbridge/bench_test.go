package mqttbridge_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// benchTurn is how many wraps one way of sending has before the other's turn, so that
// what else the machine does hits both.
const benchTurn = 500

// BenchmarkSend sends wraps through the carrier, in turns with the same number of bare
// publishes of the client library to the same broker, both with the same number
// outstanding. An operation is a wrap; run it with -benchtime 10000x.
func BenchmarkSend(b *testing.B) {
	for _, window := range []int{1, 20, 100} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) { benchSend(b, window) })
	}
}

func benchSend(b *testing.B, window int) {
	broker := mqtttest.StartMosquitto(b)
	key := newKey(b)
	to := inboxAt(broker.URL, key)
	topic := mqttbridge.InboxTopic(key.PublicKey())
	wrap := wrapOfSize(b, key, key, 2048)
	c := newCarrier(b, newKey(b), func(o *mqttbridge.Options) { o.Window = window })
	client := bareClient(b, broker.Addr)
	bare := func() error {
		token := client.Publish(topic, 1, false, wrap)
		token.Wait()
		return token.Error()
	}
	carried := func() error { return c.Send(b.Context(), to, wrap) }
	for _, send := range []func() error{bare, carried} { // connects
		if err := send(); err != nil {
			b.Fatal(err)
		}
	}
	var times, bareTimes []time.Duration
	var took, bareTook time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= benchTurn {
		n := min(left, benchTurn)
		bareTook += inParallel(b, n, window, bare, &bareTimes)
		took += inParallel(b, n, window, carried, &times)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/bareTook.Seconds(), "bare/s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "carrier/s")
	b.ReportMetric(bareTook.Seconds()/took.Seconds(), "ratio")
	for _, p := range []int{50, 99} {
		added := percentile(times, p) - percentile(bareTimes, p)
		b.ReportMetric(float64(added.Microseconds()), fmt.Sprintf("p%d-added-µs", p))
		b.ReportMetric(float64(percentile(bareTimes, p).Microseconds()), fmt.Sprintf("p%d-bare-µs", p))
	}
}

func bareClient(b *testing.B, addr string) mqtt.Client {
	b.Helper()
	client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("bare").SetAutoReconnect(false))
	if token := client.Connect(); !token.WaitTimeout(patience) || token.Error() != nil {
		b.Fatal(token.Error())
	}
	b.Cleanup(func() { client.Disconnect(0) })
	return client
}

// inParallel calls send n times from a number of goroutines and notes how long each
// call took.
func inParallel(b *testing.B, n, goroutines int, send func() error, times *[]time.Duration) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	all := make([][]time.Duration, goroutines)
	var group sync.WaitGroup
	began := time.Now()
	for i := range goroutines {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				at := time.Now()
				if err := send(); err != nil {
					b.Error(err)
					return
				}
				all[i] = append(all[i], time.Since(at))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	*times = append(*times, slices.Concat(all...)...)
	return took
}

func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)*p/100]
}

// BenchmarkIdleTopics reads the inboxes of many recipients, as a bridge does, and says
// what that costs this process and how long the subscriptions take. An operation is one
// session; run it with -benchtime 1x.
func BenchmarkIdleTopics(b *testing.B) {
	for _, topics := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			broker := mqtttest.StartMosquitto(b)
			for b.Loop() {
				before := heap()
				side, end := idleSide(b, broker, topics)
				b.ReportMetric(float64(heap()-before)/float64(topics), "heap-B/topic")
				runtime.KeepAlive(side)
				end()
			}
		})
	}
}

// idleSide subscribes to topics and returns once the last of them is served.
func idleSide(b *testing.B, broker *mqtttest.Mosquitto, topics int) (*mqttbridge.Side, func()) {
	b.Helper()
	keys := make([]string, topics)
	for i := range keys {
		keys[i] = fmt.Sprintf("%064x", i)
	}
	loopback := egress.New(egress.Options{AllowLoopback: true})
	side, err := mqttbridge.NewSide(mqttbridge.SideOptions{Broker: broker.URL, Signer: newKey(b), Dialer: loopback, Recipients: keys})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	began := time.Now()
	served, done := make(chan struct{}, 1000), make(chan struct{})
	go func() {
		defer close(done)
		_ = side.Read(ctx, "", func(context.Context, []byte, carrier.Cursor) error { served <- struct{}{}; return nil })
	}()
	c := newCarrier(b, newKey(b))
	last := broker.URL + "/" + mqttbridge.InboxTopic(keys[topics-1])
	for {
		if err := c.Send(ctx, carrier.Address{Scheme: mqttbridge.Scheme, Address: last}, []byte("x")); err != nil {
			b.Fatal(err)
		}
		select {
		case <-served:
			b.ReportMetric(time.Since(began).Seconds(), "s-to-subscribe")
			return side, func() { cancel(); <-done; side.Close() }
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(began) > patience {
			b.Fatal("the last topic is not served")
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
