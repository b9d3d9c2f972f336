package relay

import (
	"math"
	"sync"
	"time"
)

// counts are the numbers of the page, those of the metrics.
type counts struct {
	Cards           *int64 `json:"cards"` // null while they are not held in memory
	Connections     int64  `json:"connections"`
	Subscriptions   int64  `json:"subscriptions"`
	EventsPerMinute int64  `json:"events_per_minute"` // stored, over the last minute or two
}

func (r *Relay) counts() counts {
	return counts{
		Cards:           r.cardCount(),
		Connections:     int64(measure(r.metrics.connections).GetGauge().GetValue()),
		Subscriptions:   int64(measure(r.metrics.subscriptions).GetGauge().GetValue()),
		EventsPerMinute: r.pace.perMinute(r.opts.Now(), r.storedEvents()),
	}
}

// storedEvents is what the counter of stored events shows.
func (r *Relay) storedEvents() float64 {
	return measure(r.metrics.events.WithLabelValues(resultStored)).GetCounter().GetValue()
}

// measure reads a metric. M is the type in which metrics write themselves.
func measure[M any](metric interface{ Write(to *M) error }) *M {
	m := new(M)
	_ = metric.Write(m) // it fails for metrics that are no valid metrics
	return m
}

// pace tells how fast a counter grows. It remembers what it showed at the last
// marks, which are about a minute apart.
type pace struct {
	mu    sync.Mutex
	marks [3]mark // the newest first
}

// mark is what a counter showed at a moment.
type mark struct {
	at    time.Time
	value float64
}

// mark remembers the counter.
func (p *pace) mark(now time.Time, value float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = [3]mark{{now, value}, p.marks[0], p.marks[1]}
}

// perMinute is the growth since the youngest mark that is a minute old, or else
// the oldest there is.
func (p *pace) perMinute(now time.Time, value float64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.marks[0]
	for _, m := range p.marks[1:] {
		if now.Sub(from.at) >= time.Minute || m.at.IsZero() {
			break
		}
		from = m
	}
	past := now.Sub(from.at)
	if from.at.IsZero() || past <= 0 {
		return 0
	}
	past = max(past, time.Minute) // a relay that just began did not run at this pace yet
	return int64(math.Round((value - from.value) * float64(time.Minute) / float64(past)))
}
