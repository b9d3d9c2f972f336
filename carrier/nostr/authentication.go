package nostr

import (
	"context"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
)

// authenticate proves the client's key to the relay (NIP-42). It waits a
// little for a challenge; errNoChallenge when none comes.
func (c *connection) authenticate(ctx context.Context) error {
	if c.client.opts.Signer == nil {
		return fmt.Errorf("%w: the relay wants authentication and there is no key", carrier.ErrPermanent)
	}
	c.authMu.Lock()
	defer c.authMu.Unlock()
	if c.authed {
		return nil
	}
	challenge, err := c.awaitChallenge(ctx)
	if err != nil {
		return err
	}
	ev := nostr.Event{
		Kind: nostr.KindClientAuthentication, CreatedAt: nostr.Timestamp(c.client.now().Unix()),
		Tags: nostr.Tags{{"relay", c.url}, {"challenge", challenge}},
	}
	if err := c.client.opts.Signer.Sign(&ev); err != nil {
		return fmt.Errorf("signing the authentication: %w", err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		return err
	}
	if err := c.submit(ctx, labelAuth, ev.ID, data); err != nil {
		return fmt.Errorf("authenticating: %w", demanded(err))
	}
	c.authed = true
	return nil
}

func (c *connection) awaitChallenge(ctx context.Context) (string, error) {
	timer := time.NewTimer(challengeWait)
	defer timer.Stop()
	select {
	case <-c.challenged:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.challenge, nil
	case <-timer.C:
		return "", errNoChallenge
	case <-c.ctx.Done():
		return "", context.Cause(c.ctx)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
