package relay

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// Errors of a Store.
var (
	// ErrTooBroad says that a filter would make the store read more index
	// entries than it is allowed to.
	ErrTooBroad = errors.New("relay: filter reads too much")
	// ErrStoreFormat says that a folder holds a store this version cannot read.
	ErrStoreFormat = errors.New("relay: unknown store format")
)

// Record is one event on its way into or out of a Store. It is not changed
// once it was handed over: many subscriptions share it.
type Record struct {
	Event *nostr.Event
	// JSON is the event in NIP-01 JSON, the keys in the order id, pubkey,
	// created_at, kind, tags, content, sig and without spaces. It is written
	// once and sent to every subscription as it is.
	JSON []byte
	// Expires is the Unix time from which the event is neither served nor
	// kept; 0 means never.
	Expires int64
	// Recipient is the public key whose quota the event counts against, or
	// empty.
	Recipient string

	waiting atomic.Int32 // queues that hold it (account)
}

// expired reports whether the record is no longer served at now.
func (r *Record) expired(now time.Time) bool {
	return r.Expires != 0 && r.Expires <= now.Unix()
}

// Outcome is what a Store decided about one event.
type Outcome int

// The outcomes of Store.Commit and Store.Check.
const (
	// Stored: the event is new and, after Commit, durable.
	Stored Outcome = iota
	// Duplicate: an event of this id is stored.
	Duplicate
	// Stale: a newer version of this replaceable event is stored, or one of
	// the same second with a lower id (NIP-01).
	Stale
	// Deleted: the author deleted this event or this version (NIP-09), or
	// everything up to its time (NIP-62).
	Deleted
	// OverQuota: the recipient has too many wraps stored.
	OverQuota
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Stored:
		return "stored"
	case Duplicate:
		return "duplicate"
	case Stale:
		return "stale"
	case Deleted:
		return "deleted"
	case OverQuota:
		return "over_quota"
	}
	return "unknown"
}

// Store keeps events durably. Its methods may be called concurrently.
// A Store applies NIP-01 replacement, NIP-09 deletion and NIP-62 requests to
// vanish by itself, inside the transaction of the event that causes them; it
// trusts its caller for ids, signatures and shapes.
type Store interface {
	// Commit decides each record in the order given, sees the earlier ones
	// of the batch, and stores those with outcome Stored. When it returns
	// nil they survive a crash of the process and of the machine. With an
	// error nothing of the batch is stored. quota is the number of records
	// one recipient may have.
	Commit(ctx context.Context, batch []*Record, quota int) ([]Outcome, error)
	// Check is the decision Commit would take now, without storing anything.
	// It lets a relay refuse an event before the price of its signature.
	Check(ctx context.Context, rec *Record, quota int) (Outcome, error)
	// Query yields the stored events that match f and are not expired at
	// now, newest first and for one second by ascending id, at most f.Limit
	// when that is positive, none with f.LimitZero. It stops with
	// ErrTooBroad after reading scan index entries.
	Query(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error]
	// Sweep removes at most limit events that expired at or before now and
	// returns how many it removed.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)
	// Involving yields every stored event that is by a person, given as a
	// public key in 64 lowercase hex digits, or has it in a p tag, in no order
	// and also when it has expired.
	Involving(ctx context.Context, person string) iter.Seq2[*Record, error]
	// Erase removes at most limit of the events of Involving and returns how
	// many it removed. Those events, and of replaceable ones every version up
	// to now, are Deleted from then on. What the person's own deletion requests
	// asked for stays deleted.
	Erase(ctx context.Context, person string, now time.Time, limit int) (int, error)
	// Remove removes the events of these ids, where they are stored, and
	// returns how many it removed. They are not Deleted: they may come again.
	Remove(ctx context.Context, ids []string) (int, error)
	// Rulings returns what management ruled, in no order, with the version of
	// that. When since is the version, it returns no rulings.
	Rulings(ctx context.Context, since string) (all []Ruling, version string, err error)
	// Rule records rulings, each in the place of an earlier one of its list and
	// subject, and withdraws others, in one durable transaction.
	Rule(ctx context.Context, record, withdraw []Ruling) error
	// Compact gives the space of removed events back to the disk, where no
	// server of its own does that. It may take minutes.
	Compact(ctx context.Context) error
	// Close waits for running calls and releases the store.
	Close() error
}

// SharedStore is a Store that other processes write to as well.
type SharedStore interface {
	Store
	// Follow offers what other processes stored after the store was opened,
	// until ctx ends. It is called once at a time. An event that is removed
	// soon may be left out; one that comes twice is dropped by its id.
	Follow(ctx context.Context, to Follower)
}

// Follower takes the events of other processes. One goroutine calls it.
type Follower interface {
	// Offer takes stored events.
	Offer(records []*Record)
	// Round begins a reading that finds all that is stored when it begins;
	// settled is called after all of it was offered, now or earlier.
	Round() (settled func())
}
