package relay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

// ErrPolicy is wrapped by every refusal of a Policy.
var ErrPolicy = errors.New("relay: invalid policy")

// Policy is what a relay takes, from whom and for whom, how long it keeps it,
// and what it says about itself. Its zero value takes the kinds the relay is
// made for from everybody for everybody. A relay swaps it as a whole
// (Reconfigure). Public keys are 64 lowercase hex digits.
type Policy struct {
	// Name, Description, Contact, PubKey (the operator's) and PostingPolicy (an
	// https or http URL) are shown in the relay information document (NIP-11).
	Name, Description, Contact, PubKey, PostingPolicy string

	// Kinds are taken, no others; nil means DefaultKinds. Regular, replaceable
	// and addressable kinds are kept by NIP-01. Ephemeral kinds are not
	// possible, 5 and 62 cannot be left out.
	Kinds []int
	// Authors are the keys whose events are taken; nil means everybody's.
	// Denied keys are refused. Neither holds for wraps, whose authors are
	// throwaway keys, nor for requests to delete or to vanish.
	Authors, Denied []string
	// Recipients are the keys for which wraps are stored; nil means every key.
	Recipients []string
	// WrapQuota is the number of wraps stored for one recipient at a time; 0
	// means DefaultWrapQuota.
	WrapQuota int
	// WrapRetention is the longest time a wrap is kept, whatever expiration
	// it asks for; 0 means DefaultWrapRetention.
	WrapRetention time.Duration
	// Work is the number of leading zero bits an id needs (NIP-13), KindWork
	// the same for single kinds. The event must commit to as many.
	Work     int
	KindWork map[int]int
	// Carriers are schemes of which each card must name at least one; none
	// means that a card needs no carrier.
	Carriers []string
	// Bridges may read wraps of others.
	Bridges []Bridge
	// Admins may manage the relay (NIP-86). Without any there is no management.
	Admins []string
}

// Bridge is a key that carries wraps to where the relay does not reach. When
// it is authenticated it may read the wraps for recipients that it names in a
// p tag of the filter and that have a live card with a carrier of the scheme.
type Bridge struct {
	Key    string
	Scheme string // of the carrier, such as "ntfy"
	// Recipients narrows it to these keys; none means no narrowing.
	Recipients []string
}

// Defaults of a Policy.
const (
	DefaultWrapQuota     = 10_000
	DefaultWrapRetention = 32 * 24 * time.Hour
)

// MaxWork is the largest proof of work, in bits, that a Policy may ask for.
const MaxWork = 40

// DefaultKinds returns the kinds the relay is made for.
func DefaultKinds() []int {
	return []int{kindProfile, kindDeletion, kindVanish, kindWrap, kindRelayList, kindInboxList, kindCard}
}

// openRetention is how long events other than wraps are kept: as long as a
// card may live, and a day. What a deletion forbids is a card that has expired
// by itself when the deletion goes.
const openRetention = card.MaxLifetime + 24*time.Hour

// Check reports the first thing that is wrong with the policy, wrapped in
// ErrPolicy. New and Reconfigure check by themselves.
func (p Policy) Check() error {
	_, err := p.clone().check()
	return err
}

// check reports the first thing that is wrong, wrapped in ErrPolicy, or fills
// the fields that are zero.
func (p Policy) check() (Policy, error) {
	p.WrapQuota = cmp.Or(p.WrapQuota, DefaultWrapQuota)
	p.WrapRetention = cmp.Or(p.WrapRetention, DefaultWrapRetention)
	if p.Kinds == nil {
		p.Kinds = DefaultKinds()
	}
	p.Kinds = slices.Compact(slices.Sorted(slices.Values(p.Kinds)))
	err := cmp.Or(p.checkTexts(), p.checkKinds(), p.checkKeys(), p.checkWork(), p.checkBridges())
	if err == nil && (p.WrapQuota < 0 || p.WrapRetention < 0) {
		err = errors.New("a quota or a time is negative")
	}
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	return p, nil
}

func (p Policy) checkTexts() error {
	if p.PostingPolicy != "" && !isWebAddress(p.PostingPolicy) {
		return errors.New("the posting policy is not an https or http URL")
	}
	if !utf8.ValidString(p.Name + p.Description + p.Contact) {
		return errors.New("a text is not valid UTF-8")
	}
	return nil
}

func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

func (p Policy) checkKinds() error {
	for _, kind := range p.Kinds {
		if err := checkKind(kind); err != nil {
			return err
		}
	}
	for _, kind := range []int{kindDeletion, kindVanish} {
		if !slices.Contains(p.Kinds, kind) {
			return fmt.Errorf("kind %d cannot be left out", kind)
		}
	}
	return nil
}

// checkKind reports why a kind cannot be taken at all.
func checkKind(kind int) error {
	switch {
	case kind < 0 || kind > maxKind:
		return fmt.Errorf("kind %d is not between 0 and 65535", kind)
	case nostr.IsEphemeralKind(kind):
		return fmt.Errorf("kind %d is ephemeral: nothing is passed on that is not stored", kind)
	}
	return nil
}

func (p Policy) checkKeys() error {
	lists := [][]string{p.Authors, p.Denied, p.Recipients, p.Admins}
	if p.PubKey != "" {
		lists = append(lists, []string{p.PubKey})
	}
	for _, b := range p.Bridges {
		lists = append(lists, []string{b.Key}, b.Recipients)
	}
	for _, key := range slices.Concat(lists...) {
		if !canonical.IsHex(key, 32) {
			return errors.New("a public key is not 64 lowercase hex digits")
		}
	}
	for _, key := range p.Denied {
		if slices.Contains(p.Authors, key) || slices.Contains(p.Admins, key) {
			return fmt.Errorf("key %s is denied and listed", key)
		}
	}
	return nil
}

func (p Policy) checkWork() error {
	if p.Work < 0 || p.Work > MaxWork {
		return fmt.Errorf("work is not between 0 and %d bits", MaxWork)
	}
	for kind, bits := range p.KindWork {
		if bits < 0 || bits > MaxWork {
			return fmt.Errorf("work of kind %d is not between 0 and %d bits", kind, MaxWork)
		}
		if !slices.Contains(p.Kinds, kind) {
			return fmt.Errorf("work of kind %d, which is not taken", kind)
		}
	}
	return nil
}

func (p Policy) checkBridges() error {
	for _, scheme := range p.Carriers {
		if !isScheme(scheme) {
			return fmt.Errorf("carrier %q is no scheme", scheme)
		}
	}
	for _, b := range p.Bridges {
		if !isScheme(b.Scheme) {
			return fmt.Errorf("the bridge of %s has no scheme of a carrier", b.Key)
		}
	}
	return nil
}

// isScheme reports whether s can be the scheme of a carrier in a card.
func isScheme(s string) bool {
	switch s {
	case card.SchemeNostr, card.SchemeNtfy, card.SchemeMQTT, card.SchemeHTTPS, card.SchemeMailto:
		return true
	}
	return false
}

// retention is how long an event of the kind is kept at most. Keys cost
// nothing, so what a stranger stores must end some time.
func (p *Policy) retention(kind int) time.Duration {
	if kind == kindWrap {
		return p.WrapRetention
	}
	return openRetention
}

// work is what an event of the kind needs.
func (p *Policy) work(kind int) int {
	if bits, single := p.KindWork[kind]; single {
		return bits
	}
	return p.Work
}

// clone shares nothing with p that the caller might change.
func (p Policy) clone() Policy {
	for _, list := range []*[]string{&p.Authors, &p.Denied, &p.Recipients, &p.Carriers, &p.Admins} {
		*list = slices.Clone(*list)
	}
	p.Kinds, p.KindWork, p.Bridges = slices.Clone(p.Kinds), maps.Clone(p.KindWork), slices.Clone(p.Bridges)
	return p
}
