package relay

import (
	"context"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

// scopeOf cuts the filter to what this connection may read.
func (s *session) scopeOf(f nostr.Filter) (scope, error) {
	bridged, err := s.bridged(f)
	if err != nil {
		return scope{}, err
	}
	return scopeOf(f, s.relay.rules().open(), slices.Concat(s.keys, bridged))
}

// readers are the keys whose wraps the scopes may read.
func (s *session) readers(scopes []scope) []string {
	keys := slices.Clone(s.keys)
	for _, sc := range scopes {
		for _, k := range sc.keys {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// bridged are the recipients that the filter names and whose wraps this
// connection may read as a bridge. The right is looked up when the request is
// made and holds until the subscription ends.
func (s *session) bridged(f nostr.Filter) (recipients []string, err error) {
	if !slices.Contains(f.Kinds, kindWrap) {
		return nil, nil
	}
	rules := s.relay.rules()
	for _, key := range s.keys {
		for _, b := range rules.bridges[key] {
			for _, recipient := range f.Tags["p"] {
				if len(b.Recipients) > 0 && !slices.Contains(b.Recipients, recipient) || slices.Contains(recipients, recipient) {
					continue
				}
				reached, err := s.relay.reachedBy(s.ctx, recipient, b.Scheme)
				if err != nil {
					return nil, err
				}
				if reached {
					recipients = append(recipients, recipient)
				}
			}
		}
	}
	return recipients, nil
}

// maxBridgeCards bounds the cards of one key that are read for a bridge.
const maxBridgeCards = 64

// reachedBy reports whether a live card of the key names a carrier of the
// scheme.
func (r *Relay) reachedBy(ctx context.Context, pubkey, scheme string) (bool, error) {
	if !canonical.IsHex(pubkey, 32) {
		return false, nil
	}
	now := r.opts.Now()
	f := nostr.Filter{Kinds: []int{kindCard}, Authors: []string{pubkey}, Limit: maxBridgeCards}
	for rec, err := range r.store.Query(ctx, f, now, r.limits().Scan) {
		if err != nil {
			return false, fmt.Errorf("reading cards for a bridge: %w", err)
		}
		c, err := card.Parse(rec.Event, now)
		if err == nil && slices.ContainsFunc(c.Carriers, func(c card.Carrier) bool { return c.Scheme == scheme }) {
			return true, nil
		}
	}
	return false, nil
}
