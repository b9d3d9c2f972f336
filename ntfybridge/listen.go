package ntfybridge

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/parleykit/parley/carrier"
)

const (
	refusedPause = 5 * time.Minute // after a refusal that trying again does not change
	markAfter    = 256             // messages of no use until the cursor moves for them
)

// listener reads the topics of one server in order.
type listener struct {
	*ear
	origin string
	topics []string
	added  []string // topics that were not listened to before
	at     *position
	handle carrier.Handler

	seen   string // id of the last message that was of no use, not yet in a cursor
	unseen int    // messages since the cursor moved
}

// ear is what the listeners of all servers have in common.
type ear struct {
	client    *Client
	logger    *slog.Logger
	silence   time.Duration // until a stream is given up
	look      time.Duration // between two looks at that
	reconnect carrier.Backoff
	waker     *waker
	origins   []string // that are in the cursor
}

// keep reads the server until ctx ends, reconnecting with growing pauses.
func (l *listener) keep(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := l.client.now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		reason := endedOther
		if errors.Is(err, errSilent) {
			reason = endedSilent
		}
		l.client.metrics.ended.WithLabelValues(reason).Inc()
		if l.client.now().Sub(began) > time.Minute {
			failures = 0
		}
		pause := l.pause(failures, err)
		failures++
		l.logger.InfoContext(ctx, "stream of an ntfy server ended", "server", l.origin, "retry_after", pause, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pause is how long to wait after a session ended.
func (l *listener) pause(failures int, err error) time.Duration {
	var answer *answerError
	if errors.As(err, &answer) {
		if answer.after > 0 {
			return answer.after
		}
		if errors.Is(err, carrier.ErrPermanent) {
			return refusedPause
		}
	}
	return l.reconnect.Delay(failures)
}

// session reads what is stored, and then what comes until the stream ends.
func (l *listener) session(ctx context.Context) error {
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	return l.read(ctx, l.topics, l.at.of(l.origin), false, func(ctx context.Context, data []byte, id string) error {
		return l.store(ctx, data, id)
	})
}

// catchUp reads what is stored. A server orders by whole seconds, so the cursor
// stands still until all of it has been handed on.
func (l *listener) catchUp(ctx context.Context) error {
	var last string
	collect := func(ctx context.Context, data []byte, id string) error {
		last = id
		if data == nil {
			return nil
		}
		return l.handle(ctx, data, l.at.with(l.origins, l.origin, ""))
	}
	if len(l.added) > 0 { // what came to them before the cursor's message
		if err := l.read(ctx, l.added, "", true, collect); err != nil {
			return err
		}
		l.added, last = nil, ""
	}
	err := l.read(ctx, l.topics, l.at.of(l.origin), true, collect)
	var answer *answerError
	if errors.As(err, &answer) && answer.code == codeSince {
		l.at.set(l.origin, "") // the server does not know such ids: read all
		err = l.read(ctx, l.topics, "", true, collect)
	}
	if err != nil || last == "" {
		return err
	}
	return l.move(ctx, nil, last)
}

// store hands on a message and moves the cursor to its id. For messages of no
// use, without data, it moves now and then only.
func (l *listener) store(ctx context.Context, data []byte, id string) error {
	if data == nil && l.unseen+1 < markAfter && l.at.of(l.origin) != "" {
		l.seen, l.unseen = id, l.unseen+1
		return nil
	}
	return l.move(ctx, data, id)
}

// move hands on a message, or nothing, and moves the cursor.
func (l *listener) move(ctx context.Context, data []byte, id string) error {
	if err := l.handle(ctx, data, l.at.with(l.origins, l.origin, id)); err != nil {
		return err
	}
	l.at.set(l.origin, id)
	l.seen, l.unseen = "", 0
	return nil
}

// mark moves the cursor for messages that were of no use.
func (l *listener) mark(ctx context.Context) error {
	if l.seen == "" {
		return nil
	}
	return l.move(ctx, nil, l.seen)
}

// read opens a stream and passes its messages on until it ends. The end of a
// poll is no error.
func (l *listener) read(ctx context.Context, topics []string, after string, poll bool, pass func(context.Context, []byte, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := l.client.open(ctx, l.origin, topics, after, poll)
	if err != nil {
		return err
	}
	defer s.body.Close()
	defer context.AfterFunc(ctx, func() { _ = s.body.Close() })()
	go l.supervise(ctx, cancel, s)
	if !poll {
		l.client.metrics.streams.Inc()
		defer l.client.metrics.streams.Dec()
	}
	for {
		e, err := s.next()
		if err == nil {
			s.handling(true)
			err = l.take(ctx, e, topics, pass)
			s.handling(false)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case poll && errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// supervise ends a stream that is silent.
func (l *listener) supervise(ctx context.Context, cancel context.CancelCauseFunc, s *stream) {
	ticker := time.NewTicker(l.look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.silent(l.silence) {
				cancel(errSilent)
			}
		}
	}
}

// take passes one event on if it is a message of use.
func (l *listener) take(ctx context.Context, e event, topics []string, pass func(context.Context, []byte, string) error) error {
	dropped := e.dropped
	switch {
	case dropped != "":
	case e.Event == "open" || e.Event == "keepalive":
		return l.mark(ctx)
	case e.Event != "message":
		return nil
	case !slices.Contains(topics, e.Topic):
		dropped = droppedTopic
	case e.attached():
		dropped = droppedAttachment
	}
	data, err := e.body()
	if err != nil {
		dropped = cmp.Or(dropped, droppedLine)
	}
	if dropped != "" {
		l.client.metrics.dropped.WithLabelValues(dropped).Inc()
		return nil
	}
	kind := kindOf(data)
	l.client.metrics.received.WithLabelValues(kind).Inc()
	switch kind {
	case kindEnvelope, kindFrame:
		return pass(carrier.WithInlet(ctx, originKey(l.origin)+"/"+e.Topic), data, e.ID)
	case kindWakeUp, kindPointer:
		l.waker.wake()
	}
	return pass(ctx, nil, e.ID)
}
