package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
)

const (
	fanned     = 40_000                // deliveries of one fan-out, about
	grace      = 3 * time.Second       // for the last delivery
	answerTime = 10 * time.Millisecond // that each event may take beyond it to be answered
	paced      = 13 * time.Millisecond // between two events beside a stopped subscriber
	pacedBytes = 40 << 10              // of such an event: a queue and the buffers of two sockets are soon full
	narrowest  = 4 << 10               // receive buffer of the stopped subscriber
)

// audience are connections that subscribe to one author.
type audience struct {
	clients []*client
	sent    []atomic.Int64 // when each event was sent, in nanoseconds since begin
	begin   time.Time
	readers sync.WaitGroup

	mu   sync.Mutex
	took latencies
	last time.Time     // of all deliveries
	done chan struct{} // closed when everything was delivered
}

// subscribe connects n subscribers to what the filter finds. Each counts on the
// given number of events, which come in the order they were sent.
func (r *run) subscribe(n, events int, filter string) (*audience, error) {
	clients, err := r.connect(n)
	if err != nil {
		return nil, err
	}
	for _, c := range clients {
		if _, err := c.ask(request("live", filter)); err != nil {
			closeAll(clients)
			return nil, err
		}
	}
	a := &audience{clients: clients, sent: make([]atomic.Int64, events), begin: time.Now(), done: make(chan struct{})}
	for _, c := range clients {
		a.readers.Go(func() { a.read(c) })
	}
	go func() { a.readers.Wait(); close(a.done) }()
	return a, nil
}

// read takes the events of one subscriber until it has all or is closed.
func (a *audience) read(c *client) {
	took, last := make(latencies, 0, len(a.sent)), a.begin
	for len(took) < len(a.sent) {
		label, _, err := c.receive()
		if err != nil {
			break
		}
		if label == "EVENT" {
			sent := time.Duration(a.sent[len(took)].Load())
			last = time.Now()
			took = append(took, last.Sub(a.begin)-sent)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, took...)
	if last.After(a.last) {
		a.last = last
	}
}

// note says that event i is sent now.
func (a *audience) note(i int) { a.sent[i].Store(int64(time.Since(a.begin))) }

// finish waits for the last delivery and returns how long each took.
func (a *audience) finish(ctx context.Context) latencies {
	select {
	case <-a.done:
	case <-time.After(grace):
	case <-ctx.Done():
	}
	closeAll(a.clients)
	<-a.done
	return a.took
}

// result is what the audience got of the deliveries that were due.
func (a *audience) result(watch stopwatch, took latencies, refused, due int) Result {
	result := watch.stop("deliveries", len(took), took)
	if seconds := a.last.Sub(watch.begin).Seconds(); seconds > 0 { // not what was waited for in vain
		result.Seconds, result.Rate = seconds, float64(len(took))/seconds
	}
	result.Refused, result.Missing = refused, due-len(took)
	return result
}

// author is a new key whose events have made signs, one after the other.
type author struct {
	secret, public string
	now            time.Time
}

func newAuthor() (author, error) {
	a := author{secret: nostr.GeneratePrivateKey(), now: time.Now()}
	var err error
	a.public, err = nostr.GetPublicKey(a.secret)
	return a, err
}

func (a *author) card(i int) (signed, error) {
	return sealCard(i, "n"+strconv.Itoa(i), a.public, a.secret, a.now)
}

// profile i replaces those before it; all lie in the past.
func (a *author) profile(i, of int) (signed, error) {
	at := a.now.Add(time.Duration(i-of) * time.Second)
	return seal(nostr.Event{
		Kind: kindProfile, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{},
		Content: `{"name":"load","about":"` + strings.Repeat("x", pacedBytes) + `"}`,
	}, a.secret)
}

// fanOut publishes cards to n subscribers, the next after the OK of the last.
func (r *run) fanOut(n int) (Result, error) {
	return r.spread(n, r.publishTo)
}

// burst publishes cards to n subscribers, all at once.
func (r *run) burst(n int) (Result, error) {
	return r.spread(n, func(a *audience, events []signed) (int, error) {
		return r.publishPaced(a, events, 0)
	})
}

// spread measures deliveries to n subscribers.
func (r *run) spread(n int, publish func(*audience, []signed) (refused int, err error)) (Result, error) {
	writer, err := newAuthor()
	if err != nil {
		return Result{}, err
	}
	events, err := many(max(fanned/n, 5), writer.card)
	if err != nil {
		return Result{}, err
	}
	filter := fmt.Sprintf(`{"authors":["%s"],"kinds":[%d]}`, writer.public, card.Kind)
	a, err := r.subscribe(n, len(events), filter)
	if err != nil {
		return Result{}, err
	}
	watch := r.start()
	refused, err := publish(a, events)
	took := a.finish(r.ctx)
	if err != nil {
		return Result{}, err
	}
	return a.result(watch, took, refused, n*(len(events)-refused)), nil
}

func (r *run) publishTo(a *audience, events []signed) (refused int, err error) {
	c, err := dial(r.ctx, r.url, 0)
	if err != nil {
		return 0, err
	}
	defer c.close()
	for i, ev := range events {
		a.note(i)
		err := c.publish(ev)
		if errors.Is(err, errRefused) {
			refused++
		} else if err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// stopped publishes at a pace to n subscribers, alone and then beside one that
// stops reading.
func (r *run) stopped(n int) (Result, error) {
	alone, err := r.pace(n, false)
	if err != nil {
		return Result{}, err
	}
	result, err := r.pace(n, true)
	result.Alone = alone.P99
	return result, err
}

func (r *run) pace(n int, stopped bool) (Result, error) {
	writer, err := newAuthor()
	if err != nil {
		return Result{}, err
	}
	count := max(int(r.opts.Duration/paced), 1)
	events, err := many(count, func(i int) (signed, error) { return writer.profile(i, count) })
	if err != nil {
		return Result{}, err
	}
	filter := fmt.Sprintf(`{"authors":["%s"],"kinds":[%d]}`, writer.public, kindProfile)
	if stopped {
		idle, err := dial(r.ctx, r.url, narrowest)
		if err != nil {
			return Result{}, err
		}
		defer idle.close() // kept until the end: a socket that is collected would be closed
		if _, err := idle.ask(request("idle", filter)); err != nil {
			return Result{}, err
		}
	}
	a, err := r.subscribe(n, len(events), filter)
	if err != nil {
		return Result{}, err
	}
	watch := r.start()
	refused, err := r.publishPaced(a, events, paced)
	took := a.finish(r.ctx)
	if err != nil {
		return Result{}, err
	}
	return a.result(watch, took, refused, n*(len(events)-refused)), nil
}

// publishPaced sends the events at their pace, whether they are answered or not.
func (r *run) publishPaced(a *audience, events []signed, pace time.Duration) (refused int, err error) {
	c, err := dial(r.ctx, r.url, 0)
	if err != nil {
		return 0, err
	}
	defer c.close()
	answered := make(chan int, 1)
	go func() { answered <- c.takeAll(len(events)) }()
	begin := time.Now()
	for i, ev := range events {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * pace)))
		a.note(i)
		if err := c.send(ev.frame); err != nil {
			return 0, err
		}
	}
	select {
	case refused := <-answered:
		return refused, nil
	case <-time.After(grace + time.Duration(len(events))*answerTime): // a relay that stands still answers nothing; the missing deliveries tell
		return 0, nil
	}
}

// takeAll reads the OKs of n events and counts the refusals.
func (c *client) takeAll(n int) (refused int) {
	for n > 0 {
		label, data, err := c.receive()
		if err != nil {
			return refused
		}
		if label != "OK" {
			continue
		}
		if taken(data) != nil {
			refused++
		}
		n--
	}
	return refused
}
