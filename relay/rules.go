package relay

import (
	"net/netip"
	"slices"
)

// rules are what decides at one moment: the policy, the limits and what
// management ruled (NIP-86). They are made anew for every change and swapped as
// a whole; nobody changes them.
//
// Where the two clash the policy, which comes from the operator's file, wins:
// a key it lists is not banned, one it denies is not allowed, its kinds are
// not taken away.
type rules struct {
	Policy
	limits  Limits
	rulings rulings

	authors, denied, recipients keySet // nil is everybody's, except of denied
	admins                      keySet
	bridges                     map[string][]Bridge // by key
	kinds                       map[int]bool
}

// keySet are public keys; nil stands for all.
type keySet map[string]struct{}

func newKeySet(keys []string) keySet {
	if keys == nil {
		return nil
	}
	set := make(keySet, len(keys))
	for _, k := range keys {
		set[k] = struct{}{}
	}
	return set
}

func (s keySet) has(key string) bool {
	_, ok := s[key]
	return ok
}

// newRules compiles a policy that was checked.
func newRules(p Policy, l Limits, ruled rulings) *rules {
	r := &rules{
		Policy: p, limits: l, rulings: ruled,
		authors: newKeySet(p.Authors), denied: newKeySet(p.Denied), recipients: newKeySet(p.Recipients),
		admins: newKeySet(p.Admins), bridges: map[string][]Bridge{}, kinds: map[int]bool{},
	}
	for _, b := range p.Bridges {
		r.bridges[b.Key] = append(r.bridges[b.Key], b)
	}
	for _, kind := range p.Kinds {
		r.kinds[kind] = true
	}
	for kind := range ruled.kinds {
		r.kinds[kind] = true
	}
	return r
}

// listed reports whether the policy names the key as one it wants.
func (r *rules) listed(key string) bool {
	return r.authors.has(key) || r.recipients.has(key) || r.admins.has(key)
}

// banned reports whether management banned the key and the policy does not
// want it.
func (r *rules) banned(key string) bool {
	_, banned := r.rulings.banned[key]
	return banned && !r.listed(key)
}

// allowed reports whether management allowed the key.
func (r *rules) allowed(key string) bool {
	_, allowed := r.rulings.allowed[key]
	return allowed
}

// author reports why a key may not publish, or "".
func (r *rules) author(key string) string {
	switch {
	case r.denied.has(key) || r.banned(key):
		return "blocked: this key may not publish here"
	case r.authors != nil && !r.authors.has(key) && !r.allowed(key):
		return "restricted: only listed keys publish here"
	}
	return ""
}

// recipient reports whether wraps for the key are stored.
func (r *rules) recipient(key string) bool {
	if r.denied.has(key) || r.banned(key) {
		return false
	}
	return r.recipients == nil || r.recipients.has(key) || r.allowed(key)
}

// blocked reports whether connections of the address are refused.
func (r *rules) blocked(address netip.Addr) bool {
	_, blocked := r.rulings.addresses[network(address)]
	return blocked
}

// taken are all kinds that are taken, in ascending order.
func (r *rules) taken() []int {
	var kinds []int
	for kind := range r.kinds {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// open are the kinds served to everybody: all that are taken but wraps.
func (r *rules) open() []int {
	return slices.DeleteFunc(r.taken(), func(kind int) bool { return kind == kindWrap })
}

// works are what an event of any kind needs, and what one of the dearest kind
// does.
func (r *rules) works() (least, most int) {
	least = MaxWork
	for kind := range r.kinds {
		least, most = min(least, r.work(kind)), max(most, r.work(kind))
	}
	return least, most
}

// rules are the ones that hold now.
func (r *Relay) rules() *rules { return r.current.Load() }

// limits are the ones that hold now.
func (r *Relay) limits() Limits { return r.rules().limits }

// Reconfigure swaps the policy and the limits for new ones, as a whole or, with
// an error that wraps ErrPolicy or ErrOptions, not at all. What is stored stays.
// An event on its way is decided by one or the other. Limits on rates hold for
// connections that are opened afterwards, the others at once.
func (r *Relay) Reconfigure(p Policy, l Limits) error {
	p, l, err := checkRules(p, l)
	if err != nil {
		return err
	}
	r.ruling.Lock()
	defer r.ruling.Unlock()
	r.addresses.limit(l)
	r.authors.limit(l)
	r.current.Store(newRules(p, l, r.rules().rulings))
	return nil
}

// checkRules checks a policy and limits and fills their defaults.
func checkRules(p Policy, l Limits) (Policy, Limits, error) {
	p, err := p.clone().check()
	if err != nil {
		return p, l, err
	}
	l, err = l.withDefaults()
	return p, l, err
}
