package relay

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay/mirror"
)

// Importer puts events into the Store of a relay that does not run. It takes
// what the relay's own checks of shape, kind, time and content take, of any
// author, at any rate and for any recipient: what the operator brings is exempt
// from the policy for strangers. Deletions, replacement and quotas are the
// Store's and hold. It implements mirror.Target and mirror.Checker.
type Importer struct {
	Store Store
	// Origin is that of the relay's Options: requests to vanish (NIP-62) that
	// name other relays only are refused. Empty takes those for all relays.
	Origin string
	// Kinds are taken, no others; nil means DefaultKinds.
	Kinds []int
	// WrapQuota is that of Options; 0 means DefaultWrapQuota.
	WrapQuota int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Check implements mirror.Checker.
func (i *Importer) Check(ctx context.Context, ev mirror.Event) (mirror.Outcome, error) {
	rec, outcome := i.record(ev)
	if outcome != "" {
		return outcome, nil
	}
	known, err := i.Store.Check(ctx, rec, i.quota())
	if err != nil || known == Stored {
		return "", err
	}
	return importedAs(known), nil
}

// Put implements mirror.Target: one commit.
func (i *Importer) Put(ctx context.Context, events []mirror.Event) ([]mirror.Outcome, error) {
	outcomes := make([]mirror.Outcome, len(events))
	var records []*Record
	for n, ev := range events {
		var rec *Record
		if rec, outcomes[n] = i.record(ev); rec != nil {
			records = append(records, rec)
		}
	}
	if len(records) == 0 {
		return outcomes, nil
	}
	decided, err := i.Store.Commit(ctx, records, i.quota())
	if err != nil {
		return nil, err
	}
	for n := range outcomes {
		if outcomes[n] == "" {
			outcomes[n], decided = importedAs(decided[0]), decided[1:]
		}
	}
	return outcomes, nil
}

func importedAs(o Outcome) mirror.Outcome {
	switch o {
	case Stored:
		return mirror.Accepted
	case Duplicate:
		return mirror.Duplicate
	case Stale:
		return mirror.Stale
	case Deleted:
		return mirror.Deleted
	case OverQuota:
		return mirror.RateLimited
	}
	return mirror.Failed
}

// record makes an event ready for the store, or says why it is not taken.
func (i *Importer) record(ev mirror.Event) (*Record, mirror.Outcome) {
	now := i.now()
	kinds := i.Kinds
	if kinds == nil {
		kinds = DefaultKinds()
	}
	if !slices.Contains(kinds, ev.Kind) {
		return nil, mirror.Blocked
	}
	at, ok, err := expiration(ev.Event)
	created := time.Unix(int64(ev.CreatedAt), 0)
	if err != nil || checkShape(ev.Event) != nil || created.After(now.Add(DefaultLimits().CreatedAhead)) {
		return nil, mirror.Invalid
	}
	retention := openRetention
	if ev.Kind == kindWrap {
		retention = DefaultWrapRetention
	}
	if last := now.Add(retention).Unix(); !ok || at > last {
		at = last
	}
	if at <= now.Unix() {
		return nil, mirror.Expired
	}
	rec := &Record{Event: ev.Event, JSON: appendEvent(make([]byte, 0, len(ev.JSON)), ev.Event), Expires: at}
	switch ev.Kind {
	case kindCard:
		if _, err := card.Parse(ev.Event, now); err != nil {
			return nil, mirror.Invalid
		}
	case kindVanish:
		if checkVanish(ev.Event, i.Origin) != "" {
			return nil, mirror.Blocked
		}
	case kindInboxList:
		if checkInboxList(ev.Event) != "" {
			return nil, mirror.Invalid
		}
	case kindWrap:
		if rec.Recipient = soleRecipient(ev.Event); rec.Recipient == "" {
			return nil, mirror.Invalid
		}
	}
	return rec, ""
}

// soleRecipient is the key of the one p tag of a wrap; empty without one.
func soleRecipient(ev *nostr.Event) (key string) {
	for _, tag := range ev.Tags {
		if tag[0] != "p" {
			continue
		}
		if key != "" || len(tag) < 2 || !canonical.IsHex(tag[1], 32) {
			return ""
		}
		key = tag[1]
	}
	return key
}

func (i *Importer) quota() int {
	if i.WrapQuota > 0 {
		return i.WrapQuota
	}
	return DefaultWrapQuota
}

// Export yields the events of a Store that match a filter and are not expired,
// newest first, wraps included: for whoever may read the whole store.
func Export(ctx context.Context, store Store, filter nostr.Filter, now time.Time) iter.Seq2[mirror.Event, error] {
	return func(yield func(mirror.Event, error) bool) {
		for rec, err := range store.Query(ctx, filter, now, math.MaxInt) {
			if err != nil {
				yield(mirror.Event{}, err)
				return
			}
			if !yield(mirror.Event{Event: rec.Event, JSON: rec.JSON}, nil) {
				return
			}
		}
	}
}

func (i *Importer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}
