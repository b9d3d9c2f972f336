package mirror_test

import (
	"testing"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/mirror"
)

// BenchmarkImport puts a file of cards into an empty store, and into a relay
// over the wire, every event verified.
func BenchmarkImport(b *testing.B) {
	const events = 20_000
	file := jsonLines(b, newAuthor(b).cards("x", events)...)
	for name, target := range map[string]func(b *testing.B) mirror.Target{
		"offline": func(b *testing.B) mirror.Target { return &relay.Importer{Store: newStore(b)} },
		"wire": func(b *testing.B) mirror.Target {
			return serve(b, relay.Options{Limits: relay.Limits{KeyEventRate: -1}}).Wire
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				to := target(b)
				b.StartTimer()
				if sum := importInto(b, to, file); sum.Accepted != events {
					b.Fatalf("%+v", sum)
				}
			}
			b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
