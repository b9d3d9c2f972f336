package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// arrival is a new event of one side.
type arrival struct {
	way *direction
	ev  *nostr.Event
}

// arrivals is how many new events wait; then the relay they come from waits.
const arrivals = 1024

// follow listens first and compares then, so that nothing falls between the
// two, and goes on until ctx ends, which is no error.
func (s *syncing) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan arrival, arrivals)
	ways := []*direction{s.toward}
	if s.Both {
		ways = append(ways, s.back)
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel(nil) // runs before the Wait
	for _, way := range ways {
		listening.Go(func() {
			if err := s.listen(ctx, way, queue); err != nil && ctx.Err() == nil {
				cancel(err) // no connection will do better
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); err != context.Canceled {
				return err
			}
			return nil
		case <-timer.C:
			timer.Reset(s.compare(ctx))
		case first := <-queue:
			if err := s.pass(ctx, first, queue); err != nil {
				s.fail(ctx, err)
				timer.Reset(failPause)
			}
		}
	}
}

// compare is one round and the pause until the next.
func (s *syncing) compare(ctx context.Context) time.Duration {
	if err := s.round(ctx); err != nil {
		s.fail(ctx, err)
		return failPause
	}
	return s.Every
}

func (s *syncing) fail(ctx context.Context, err error) {
	if s.Failed != nil && ctx.Err() == nil {
		s.Failed(err)
	}
}

// listen queues what comes new on one side. Client.Subscribe reconnects by
// itself.
func (s *syncing) listen(ctx context.Context, way *direction, queue chan<- arrival) error {
	f := s.Filter.Clone()
	if since := nostr.Timestamp(s.Now().Unix()); f.Since == nil || *f.Since < since {
		f.Since = &since // older ones that come late are found by the next comparison
	}
	return way.from.Client.Subscribe(ctx, way.from.URL, func(ctx context.Context, ev *nostr.Event) error {
		select {
		case queue <- arrival{way, ev}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, f)
}

// pass gives what has arrived to the other side.
func (s *syncing) pass(ctx context.Context, first arrival, queue <-chan arrival) error {
	events := map[*direction][]*nostr.Event{first.way: {first.ev}}
	for n := 1; n < batchLines && len(queue) > 0; n++ {
		a := <-queue
		events[a.way] = append(events[a.way], a.ev)
	}
	for way, list := range events {
		if err := way.give(ctx, s.Filter, list); err != nil {
			return err
		}
	}
	s.tell()
	return nil
}
