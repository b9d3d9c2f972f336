package nostr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/negentropy"
)

// ErrTooBig means that a relay does not reconcile that many events at once, or
// that the difference is larger than is held; a filter with a shorter time
// (since, until) may do. It comes with carrier.ErrPermanent.
var ErrTooBig = errors.New("too many events for one reconciliation")

// Bounds of one reconciliation.
const (
	reconcileMessage = 60_000        // bytes before hex; many relays take 128 KiB a frame
	reconcileFrame   = 2<<20 + 4<<10 // bytes of one message of the relay
	reconcileRounds  = 2000          // messages of the relay
	maxDifference    = 500_000       // ids found
)

// Difference is what a reconciliation found: ids in 64 lowercase hex digits,
// each once, ascending.
type Difference struct {
	Have []string // only here: the relay lacks them
	Need []string // only there: not verified, the relay may lie
}

// Reconcile compares the events that are held here with those of a relay that
// match the filter (NIP-77) and returns what each side lacks. local yields
// created_at and id of the events here that match the filter, in any order. The
// filter's limit means what the relay takes it for; leave it out. A relay that
// does not offer NIP-77 as a rule never answers: ask its information document
// first. Errors are those of Query, and ErrTooBig.
func (c *Client) Reconcile(ctx context.Context, relay string, filter nostr.Filter, local iter.Seq2[nostr.Timestamp, string]) (Difference, error) {
	set := &negentropy.Set{}
	for at, id := range local {
		if err := set.Add(at, id); err != nil {
			return Difference{}, fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
	}
	set.Seal()
	var d Difference
	err := c.with(ctx, relay, func(conn *connection) (err error) {
		d, err = conn.reconcile(ctx, filter, set)
		return err
	})
	return d, err
}

// reconcile runs one reconciliation to its end.
func (c *connection) reconcile(ctx context.Context, filter nostr.Filter, set *negentropy.Set) (Difference, error) {
	asked, err := filter.MarshalJSON()
	if err != nil {
		return Difference{}, fmt.Errorf("nostr: encoding a filter: %w", err)
	}
	c.ws.SetReadLimit(reconcileFrame)
	client := negentropy.NewClient(set, reconcileMessage)
	r := c.expect(nostr.Filters{filter})
	defer r.endReconciliation()
	if err := c.write(ctx, negFrame("NEG-OPEN", r.id, asked, client.Open())); err != nil {
		return Difference{}, err
	}
	have, need := map[string]struct{}{}, map[string]struct{}{}
	for range reconcileRounds {
		answer, err := r.nextReconciliation(ctx)
		if err != nil {
			return Difference{}, err
		}
		next, haves, needs, err := client.Reconcile(answer)
		if err != nil {
			return Difference{}, fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
		insert(have, haves)
		insert(need, needs)
		if len(need) > maxDifference {
			return Difference{}, fmt.Errorf("%w: %w: the relay names more than %d ids", carrier.ErrPermanent, ErrTooBig, maxDifference)
		}
		if next == "" {
			return Difference{Have: slices.Sorted(maps.Keys(have)), Need: slices.Sorted(maps.Keys(need))}, nil
		}
		if err := c.write(ctx, negFrame(labelNegMsg, r.id, nil, next)); err != nil {
			return Difference{}, err
		}
	}
	return Difference{}, fmt.Errorf("%w: the reconciliation has no end after %d messages", carrier.ErrPermanent, reconcileRounds)
}

func insert(to map[string]struct{}, ids []string) {
	for _, id := range ids {
		to[id] = struct{}{}
	}
}

// negFrame is a message to the relay; argument is JSON or nil, text is hex.
func negFrame(label, id string, argument []byte, text string) []byte {
	data := append([]byte(`["`+label+`","`), id...)
	data = append(data, '"')
	if argument != nil {
		data = append(append(data, ','), argument...)
	}
	if text != "" {
		data = append(append(append(data, `,"`...), text...), '"')
	}
	return append(data, ']')
}

// nextReconciliation waits for the relay's next message, in hex.
func (r *request) nextReconciliation(ctx context.Context) (string, error) {
	f, err := r.nextStored(ctx)
	switch {
	case err != nil:
		return "", err
	case f.label == labelNegMsg:
		return f.text, nil
	case f.label != labelNegErr && f.label != labelClosed:
		return "", fmt.Errorf("%w: the relay answers a reconciliation with %s", carrier.ErrPermanent, clip(f.label))
	}
	err = refusal(f.text)
	switch {
	case err == nil:
		err = fmt.Errorf("%w: the relay ended the reconciliation: %s", carrier.ErrPermanent, clip(f.text))
	case strings.HasPrefix(f.text, "blocked:") && (strings.Contains(f.text, "too big") || strings.Contains(f.text, "too many")):
		err = fmt.Errorf("%w: %w", ErrTooBig, err) // NIP-77: "blocked: this query is too big"
	}
	return "", err
}

// endReconciliation forgets the request and tells the relay.
func (r *request) endReconciliation() {
	r.forget()
	if r.conn.ctx.Err() == nil {
		_ = r.conn.write(r.conn.ctx, negFrame("NEG-CLOSE", r.id, nil, ""))
	}
}
