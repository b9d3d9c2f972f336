package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrScenario is wrapped by the error for a scenario that is not known.
var ErrScenario = errors.New("load: unknown scenario")

// Options says what is played. Every zero field has a working value.
type Options struct {
	// Scenarios are played in this order; none means Scenarios().
	Scenarios []string
	// Duration is how long one scenario is measured; 0 means 2 s.
	Duration time.Duration
	// Soak is how long a soak lasts; 0 means one minute.
	Soak time.Duration
	// Cards is how many cards are stored before the first look-up; 0 means 1000.
	Cards int
	// PID is the process of the relay where it runs on this machine, or 0.
	PID int
	// Done is called after each scenario.
	Done func(Result)
}

// Result is what one scenario measured. Times are in milliseconds.
type Result struct {
	Scenario string `json:"scenario"`
	// Unit is what Operations counts.
	Unit       string  `json:"unit"`
	Operations int     `json:"operations"`
	Refused    int     `json:"refused,omitempty"` // operations the relay did not take
	Reason     string  `json:"reason,omitempty"`  // of one of them
	Seconds    float64 `json:"seconds"`
	Rate       float64 `json:"rate"` // operations in a second
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	// Alone is the 99th percentile without the stopped subscriber.
	Alone float64 `json:"p99_alone_ms,omitempty"`
	// Missing are events that subscribers should have got and did not get in time.
	Missing int `json:"missing,omitempty"`
	// ClientCPU and RelayCPU are seconds on the processor, RelayCPU only with a PID.
	ClientCPU float64 `json:"client_cpu_s"`
	RelayCPU  float64 `json:"relay_cpu_s,omitempty"`
	// RelayMemory are resident bytes at the end, only with a PID; Growth is by
	// how much they grew in the scenario.
	RelayMemory int64 `json:"relay_memory_bytes,omitempty"`
	Growth      int64 `json:"relay_memory_growth_bytes,omitempty"`
}

// scenarios are the kinds of scenarios.
var scenarios = map[string]func(*run, int) (Result, error){
	"ingest": (*run).ingest, "lookup": (*run).lookup, "tag": (*run).tag, "inbox": (*run).inbox,
	"fanout": (*run).fanOut, "burst": (*run).burst, "stopped": (*run).stopped, "idle": (*run).idle, "soak": (*run).soak,
}

// Scenarios are those that an ordinary relay can bear, in their order.
func Scenarios() []string {
	return []string{
		"ingest-1", "ingest-4", "ingest-64", "lookup-1", "lookup-4", "lookup-64",
		"tag-4", "inbox-4", "fanout-400", "burst-400", "stopped-40",
	}
}

// run is one run of scenarios against one relay.
type run struct {
	ctx  context.Context
	url  string
	opts Options

	cards []string // authors of the stored cards
	made  int      // cards made until now
}

// Run plays the scenarios against the relay at a ws or wss URL. It stops at the
// first that fails and returns the results until then as well. A relay that
// refuses operations does not make a scenario fail; Result.Refused counts them.
func Run(ctx context.Context, url string, o Options) ([]Result, error) {
	if len(o.Scenarios) == 0 {
		o.Scenarios = Scenarios()
	}
	if o.Duration == 0 {
		o.Duration = 2 * time.Second
	}
	if o.Soak == 0 {
		o.Soak = time.Minute
	}
	if o.Cards == 0 {
		o.Cards = 1000
	}
	r := &run{ctx: ctx, url: url, opts: o}
	for _, name := range o.Scenarios {
		if _, _, err := parseScenario(name); err != nil {
			return nil, err
		}
	}
	var results []Result
	for _, name := range o.Scenarios {
		play, n, _ := parseScenario(name)
		result, err := play(r, n)
		if err != nil {
			return results, fmt.Errorf("%s: %w", name, err)
		}
		result.Scenario = name
		results = append(results, result)
		if o.Done != nil {
			o.Done(result)
		}
	}
	return results, nil
}

// maxConnections bounds one scenario.
const maxConnections = 50_000

func parseScenario(name string) (func(*run, int) (Result, error), int, error) {
	kind, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	play := scenarios[kind]
	if play == nil || err != nil || n < 1 || n > maxConnections {
		return nil, 0, fmt.Errorf("%w: %q", ErrScenario, name)
	}
	return play, n, nil
}

// stopwatch measures time and what both processes use meanwhile.
type stopwatch struct {
	pid           int
	begin         time.Time
	client, relay usage
}

func (r *run) start() stopwatch {
	return stopwatch{r.opts.PID, time.Now(), usageOf(os.Getpid()), usageOf(r.opts.PID)}
}

// stop makes a result of the operations since start.
func (w stopwatch) stop(unit string, operations int, took latencies) Result {
	seconds := time.Since(w.begin).Seconds()
	client, relay := usageOf(os.Getpid()), usageOf(w.pid)
	return Result{
		Unit: unit, Operations: operations, Seconds: seconds, Rate: float64(operations) / seconds,
		P50: milliseconds(took.quantile(0.5)), P99: milliseconds(took.quantile(0.99)),
		ClientCPU: (client.cpu - w.client.cpu).Seconds(), RelayCPU: (relay.cpu - w.relay.cpu).Seconds(),
		RelayMemory: relay.memory, Growth: relay.memory - w.relay.memory,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// connect opens n connections, a few at a time.
func (r *run) connect(n int) ([]*client, error) {
	clients, errs := make([]*client, n), make([]error, min(n, 32))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				clients[i], errs[w] = dial(r.ctx, r.url, 0)
			}
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(clients)
		return nil, err
	}
	return clients, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		if c != nil {
			c.close()
		}
	}
}

// tally is what the connections of a closed loop did together.
type tally struct {
	mu      sync.Mutex
	took    latencies
	refused int
	reason  string
}

// loop lets every client do one operation after the other until the time is over
// or do returns errEnough. It is the closed loop of most scenarios.
func (r *run) loop(limit time.Duration, clients []*client, do func(worker int, c *client) error) (*tally, error) {
	t := &tally{}
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	errs := make([]error, len(clients))
	var workers sync.WaitGroup
	for w, c := range clients {
		workers.Go(func() { errs[w] = t.repeat(ctx, func() error { return do(w, c) }) })
	}
	workers.Wait()
	return t, errors.Join(errs...)
}

// errEnough ends the loop of a worker.
var errEnough = errors.New("load: enough")

func (t *tally) repeat(ctx context.Context, do func() error) error {
	var took latencies
	refused, reason := 0, ""
	for ctx.Err() == nil {
		begin := time.Now()
		err := do()
		if errors.Is(err, errEnough) {
			break
		}
		if errors.Is(err, errRefused) {
			refused, reason = refused+1, err.Error()
			time.Sleep(50 * time.Millisecond) // it asks to slow down
			continue
		}
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took...)
	t.refused += refused
	if reason != "" {
		t.reason = reason
	}
	return nil
}

// result is stop for a closed loop.
func (w stopwatch) result(unit string, t *tally) Result {
	result := w.stop(unit, len(t.took), t.took)
	result.Refused, result.Reason = t.refused, t.reason
	return result
}

// someCard is the author of a stored card.
func (r *run) someCard() string { return r.cards[rand.IntN(len(r.cards))] }
