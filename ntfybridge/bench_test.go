package ntfybridge_test

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
)

const (
	publishers = 8   // at a time, in both halves
	turn       = 200 // publications of one half before the other's turn
)

// BenchmarkPublish gives envelopes of 2 KiB to a topic through the carrier, and
// in turns with it publishes as many with nothing around the request. An
// operation is an envelope; run it with -benchtime 5000x. A server that keeps
// messages in a file is what stands outside; one in memory shows what the
// carrier itself costs.
func BenchmarkPublish(b *testing.B) {
	b.Run("file", func(b *testing.B) {
		benchmarkPublish(b, ntfytest.Options{Burst: -1, File: filepath.Join(b.TempDir(), "messages")})
	})
	b.Run("memory", func(b *testing.B) { benchmarkPublish(b, ntfytest.Unlimited) })
}

func benchmarkPublish(b *testing.B, opts ntfytest.Options) {
	server := ntfytest.Start(b, opts)
	c := newCarrier(b, ntfybridge.Options{}, server.URL)
	to := address(server.URL + "/inbox")
	body := []byte("{" + strings.Repeat("x", 2046) + "}")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}
	bare := func() error {
		response, err := client.Post(server.URL+"/bare", "", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	through := func() error { return c.Send(b.Context(), to, body) }
	var took [2]time.Duration
	var delays [2][]time.Duration
	for left := b.N; left > 0; left -= turn {
		for i, publish := range []func() error{bare, through} {
			began := time.Now()
			delays[i] = append(delays[i], inParallel(b, min(left, turn), publish)...)
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(b.N)/took[0].Seconds(), "bare/s")
	b.ReportMetric(float64(b.N)/took[1].Seconds(), "carrier/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
	for _, q := range []struct {
		name string
		part float64
	}{{"p50-added-ms", 0.50}, {"p99-added-ms", 0.99}} {
		b.ReportMetric((quantile(delays[1], q.part)-quantile(delays[0], q.part)).Seconds()*1000, q.name)
	}
}

// inParallel publishes n times and returns how long each took.
func inParallel(b *testing.B, n int, publish func() error) []time.Duration {
	delays := make([]time.Duration, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				began := time.Now()
				if err := publish(); err != nil {
					b.Error(err)
				}
				delays[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	return delays
}

func quantile(delays []time.Duration, part float64) time.Duration {
	slices.Sort(delays)
	return delays[int(part*float64(len(delays)-1))]
}

// BenchmarkFrames gives an envelope of 64 KiB to a topic in frames of text, and
// reads them.
func BenchmarkFrames(b *testing.B) {
	server := ntfytest.Start(b, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	c := newCarrier(b, ntfybridge.Options{Topics: []string{topic}}, server.URL)
	box := newBox()
	receive(b, c, "", box.handle)
	until(b, "the stream", func() bool { return len(server.Queries()) == 2 })
	_, pieces := frames(b, 64<<10)
	b.SetBytes(64 << 10)
	n := 0
	for b.Loop() {
		for _, piece := range pieces {
			send(b, c, topic, string(piece))
		}
		n += len(pieces)
		for {
			box.mu.Lock()
			came, change := len(box.got), box.change
			box.mu.Unlock()
			if came >= n {
				break
			}
			<-change
		}
	}
}
