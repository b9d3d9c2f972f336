package nostr

import (
	"context"
	"errors"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
)

// reconnect is the pause between two connections to one relay.
var reconnect = carrier.Backoff{Base: time.Second, Cap: 2 * time.Minute}

// steady is how long a session lasts before its end counts as the first
// failure again.
const steady = time.Minute

// Subscribe hands every stored and every new event that matches to handle, one
// after the other, until ctx ends or handle fails; it returns the cause. It
// reconnects by itself and asks for everything again then, so an event may
// come more than once. An error that wraps carrier.ErrPermanent is final too.
func (c *Client) Subscribe(ctx context.Context, relay string, handle func(context.Context, *nostr.Event) error, filters ...nostr.Filter) error {
	url, err := ParseAddress(relay)
	if err != nil {
		return err
	}
	return c.keepConnected(ctx, url, func(ctx context.Context, conn *connection) error {
		return c.follow(ctx, conn, filters, handle)
	})
}

// final marks an error that ends keepConnected.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// keepConnected runs session on one connection after the other, until ctx ends
// or the session's error is final or permanent.
func (c *Client) keepConnected(ctx context.Context, url string, session func(context.Context, *connection) error) error {
	for failures := 0; ; failures++ {
		began := time.Now() // the injected clock may be set
		err := c.session(ctx, url, session)
		var end final
		switch {
		case errors.As(err, &end):
			return end.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, carrier.ErrPermanent):
			return err
		}
		if time.Since(began) > steady {
			failures = 0
		}
		pause := c.reconnect.Delay(failures)
		c.logger.WarnContext(ctx, "relay connection ended", "relay", url, "retry_after", pause, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// session runs fn on a connection of its own.
func (c *Client) session(ctx context.Context, url string, fn func(context.Context, *connection) error) error {
	conn, err := c.connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.close(errClosed)
	return fn(ctx, conn)
}

// follow reads one subscription for as long as the connection lasts.
func (c *Client) follow(ctx context.Context, conn *connection, filters nostr.Filters, handle func(context.Context, *nostr.Event) error) error {
	r, err := conn.openAuthenticated(ctx, filters)
	if err != nil {
		return err
	}
	defer r.stop()
	for {
		f, err := r.next(ctx)
		if err != nil {
			return err
		}
		switch f.label {
		case labelClosed:
			return closedError(f)
		case labelEvent:
			if ev, _, ok := c.verify(f.event, filters); ok {
				if err := handle(ctx, ev); err != nil {
					return final{err}
				}
			}
		}
	}
}

var errEnded = errors.New("nostr: the relay ended the subscription")

// closedError is why a relay ended a subscription that should have lasted.
func closedError(f frame) error {
	if err := demanded(refusal(f.text)); err != nil {
		return err
	}
	return errEnded
}

// openAuthenticated sends a REQ, and again after authentication when the
// relay demands it. What the relay sent first is not lost.
func (c *connection) openAuthenticated(ctx context.Context, filters nostr.Filters) (*request, error) {
	r, err := c.open(ctx, filters)
	if err != nil {
		return nil, err
	}
	first, err := r.nextStored(ctx)
	if err != nil {
		r.stop()
		return nil, err
	}
	if first.label == labelClosed && errors.Is(refusal(first.text), errAuthRequired) {
		r.forget()
		if err := c.authenticate(ctx); err != nil {
			return nil, err
		}
		return c.open(ctx, filters)
	}
	r.first = &first
	return r, nil
}
