package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// RulingList names the list a Ruling stands in, a closed set.
type RulingList string

// The lists of rulings.
const (
	BannedKeys       RulingList = "banned_key"   // subject: public key
	AllowedKeys      RulingList = "allowed_key"  // subject: public key
	BannedEvents     RulingList = "banned_event" // subject: event id
	AllowedKinds     RulingList = "allowed_kind" // subject: number
	BlockedAddresses RulingList = "blocked_ip"   // subject: address, of IPv6 the first of its /64
	Texts            RulingList = "text"         // subject: name, description or icon; Text is the text
)

// maxRulings bounds one list.
const maxRulings = 10_000

// Ruling is one decision of an administrator (NIP-86).
type Ruling struct {
	List    RulingList `json:"list"`
	Subject string     `json:"subject"`
	Text    string     `json:"text,omitempty"` // the reason, or the text that is set
	Admin   string     `json:"admin"`          // public key
	At      int64      `json:"at"`             // Unix time
}

// rulings are those that hold, by subject.
type rulings struct {
	version         string
	banned, allowed map[string]Ruling
	events, texts   map[string]Ruling
	kinds           map[int]Ruling
	addresses       map[netip.Addr]Ruling
}

// newRulings sorts rulings into their lists. One that cannot be read, such as
// one of a later version, is left out.
func newRulings(all []Ruling, version string) rulings {
	r := rulings{
		version: version, banned: map[string]Ruling{}, allowed: map[string]Ruling{}, events: map[string]Ruling{},
		texts: map[string]Ruling{}, kinds: map[int]Ruling{}, addresses: map[netip.Addr]Ruling{},
	}
	for _, one := range all {
		switch one.List {
		case BannedKeys:
			r.banned[one.Subject] = one
		case AllowedKeys:
			r.allowed[one.Subject] = one
		case BannedEvents:
			r.events[one.Subject] = one
		case Texts:
			r.texts[one.Subject] = one
		case AllowedKinds:
			if kind, err := strconv.Atoi(one.Subject); err == nil && checkKind(kind) == nil {
				r.kinds[kind] = one
			}
		case BlockedAddresses:
			if a, err := netip.ParseAddr(one.Subject); err == nil {
				r.addresses[network(a)] = one
			}
		}
	}
	return r
}

// list are the rulings of a list by ascending subject.
func (r *rulings) list(list RulingList) []Ruling {
	var all []Ruling
	switch list {
	case BannedKeys:
		all = slices.Collect(maps.Values(r.banned))
	case AllowedKeys:
		all = slices.Collect(maps.Values(r.allowed))
	case BannedEvents:
		all = slices.Collect(maps.Values(r.events))
	case AllowedKinds:
		all = slices.Collect(maps.Values(r.kinds))
	case BlockedAddresses:
		all = slices.Collect(maps.Values(r.addresses))
	case Texts:
		all = slices.Collect(maps.Values(r.texts))
	}
	slices.SortFunc(all, func(a, b Ruling) int { return strings.Compare(a.Subject, b.Subject) })
	return all
}

// readRulings takes over what is stored, also by other processes.
func (r *Relay) readRulings(ctx context.Context) error {
	r.ruling.Lock()
	defer r.ruling.Unlock()
	now := r.rules()
	all, version, err := r.store.Rulings(ctx, now.rulings.version)
	if err != nil {
		return fmt.Errorf("reading rulings: %w", err)
	}
	if version == now.rulings.version {
		return nil
	}
	next := newRules(now.Policy, now.limits, newRulings(all, version))
	r.current.Store(next)
	r.closeBlocked(next)
	return nil
}

// rulingsInterval is how often a process looks for rulings of others.
const rulingsInterval = 2 * time.Second

// followRulings takes over the rulings that other processes stored.
func (r *Relay) followRulings(ctx context.Context) {
	ticker := time.NewTicker(rulingsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := r.readRulings(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "following rulings of other processes", "err", err)
		}
	}
}

// errFull says that a list of rulings has no room.
var errFull = errors.New("the list is full")

// rule makes rulings durable and takes them over.
func (r *Relay) rule(ctx context.Context, record, withdraw []Ruling) error {
	for _, one := range record {
		if len(r.rules().rulings.list(one.List)) >= maxRulings {
			return errFull
		}
	}
	if err := r.store.Rule(ctx, record, withdraw); err != nil {
		return fmt.Errorf("recording a ruling: %w", err)
	}
	return r.readRulings(ctx)
}

// closeBlocked ends the connections of addresses that are blocked.
func (r *Relay) closeBlocked(rules *rules) {
	if len(rules.rulings.addresses) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sessions {
		if rules.blocked(s.address) {
			s.cancel()
		}
	}
}

// bannedAgain is for how long after a ban the removal is repeated: events that
// were on their way when it was made, here or in another process, are stored
// after it.
const bannedAgain = 5 * time.Minute

// removeBanned removes what banned keys have stored, and banned events, where
// the ruling is fresh.
func (r *Relay) removeBanned(ctx context.Context) {
	rules, now := r.rules(), r.opts.Now()
	fresh := func(one Ruling) bool { return now.Sub(time.Unix(one.At, 0)) < bannedAgain }
	for _, one := range rules.rulings.banned {
		if !fresh(one) || !rules.banned(one.Subject) {
			continue
		}
		if err := r.removeKey(ctx, one.Subject); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "removing events of a banned key", "err", err)
		}
	}
	for _, one := range rules.rulings.events {
		if !fresh(one) {
			continue
		}
		if err := r.removeEvents(ctx, []string{one.Subject}); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "removing a banned event", "err", err)
		}
	}
}

// removePage bounds the events removed in one transaction.
const removePage = 500

// removeKey removes what a key published and the wraps for it.
func (r *Relay) removeKey(ctx context.Context, pubkey string) error {
	for _, f := range []nostr.Filter{
		{Authors: []string{pubkey}, Limit: removePage},
		{Kinds: []int{kindWrap}, Tags: nostr.TagMap{"p": {pubkey}}, Limit: removePage},
	} {
		for {
			var ids []string
			for rec, err := range r.store.Query(ctx, f, r.opts.Now(), math.MaxInt) {
				if err != nil {
					return err
				}
				ids = append(ids, rec.Event.ID)
			}
			if err := r.removeEvents(ctx, ids); err != nil {
				return err
			}
			if len(ids) < removePage {
				break
			}
		}
	}
	return nil
}

func (r *Relay) removeEvents(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := r.store.Remove(ctx, ids)
	if err != nil {
		return err
	}
	r.metrics.removed.Add(float64(n))
	return nil
}
