package nostr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
)

// Answer is what a relay said to an EVENT (OK, NIP-01). Text is a stranger's.
type Answer struct {
	Given bool // the relay answered
	OK    bool
	Text  string // begins with a prefix such as "duplicate:" or is empty
}

// Offer gives events to one relay, in their order and without waiting for one
// answer before the next event, and returns the answers in the same order. No
// event may occur twice. A refusal is no error, nor is a demand to authenticate
// that this client cannot meet. With an error, one of the way to the
// relay as Publish has them, the answers that came before are returned as well.
func (c *Client) Offer(ctx context.Context, relay string, events []*nostr.Event) (answers []Answer, err error) {
	demanded := false
	err = c.with(ctx, relay, func(conn *connection) error {
		if answers, err = conn.offer(ctx, events); err != nil || demanded || c.opts.Signer == nil {
			return err
		}
		demanded = slices.ContainsFunc(answers, func(a Answer) bool {
			return !a.OK && errors.Is(refusal(a.Text), errAuthRequired)
		})
		if demanded {
			return errAuthRequired // all of them again, as an authenticated client
		}
		return nil
	})
	return answers, err
}

// offer sends the events and reads the answers.
func (c *connection) offer(ctx context.Context, events []*nostr.Event) ([]Answer, error) {
	answers, replies := make([]Answer, len(events)), make([]chan frame, 0, len(events))
	var failure error
	for _, ev := range events {
		data, err := canonical.EncodeEvent(ev)
		if err != nil {
			return answers, fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
		reply, err := c.expectReply(ev.ID)
		if err != nil {
			return answers, fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
		defer c.forgetReply(ev.ID)
		if failure = c.write(ctx, eventFrame(labelEvent, data)); failure != nil {
			break
		}
		replies = append(replies, reply)
	}
	for i, reply := range replies {
		f, err := c.nextReply(ctx, reply)
		if err != nil {
			return answers, cmp.Or(failure, err)
		}
		answers[i] = Answer{true, f.ok, f.text}
	}
	return answers, failure
}
