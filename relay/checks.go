package relay

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

// Results of an EVENT, the closed label set of parley_relay_events_total.
const (
	resultStored       = "stored"
	resultDuplicate    = "duplicate"
	resultStale        = "stale"
	resultDeleted      = "deleted"
	resultInvalid      = "invalid"
	resultBlocked      = "blocked"
	resultRestricted   = "restricted"
	resultAuthRequired = "auth_required"
	resultRateLimited  = "rate_limited"
	resultWork         = "work"
	resultShadowed     = "shadowed" // answered as stored; the plugin said so
	resultError        = "error"
)

// refusal turns the text of a refusal into an answer; the result follows from
// its prefix (NIP-01).
func refusal(text string) *answer {
	result := resultError
	switch prefix, _, _ := strings.Cut(text, ":"); prefix {
	case "invalid":
		result = resultInvalid
	case "blocked":
		result = resultBlocked
	case "restricted":
		result = resultRestricted
	case "auth-required":
		result = resultAuthRequired
	case "rate-limited":
		result = resultRateLimited
	case "pow":
		result = resultWork
	}
	return &answer{text: text, result: result}
}

// answerOf is the answer to what the store decided. A stale version is
// answered like a duplicate, true: it is settled, sending it again changes
// nothing. It is neither stored nor sent to subscriptions.
func answerOf(o Outcome) *answer {
	switch o {
	case Stored:
		return &answer{ok: true, result: resultStored}
	case Duplicate:
		return &answer{ok: true, text: "duplicate: the event is already stored", result: resultDuplicate}
	case Stale:
		return &answer{ok: true, text: "duplicate: a newer version is stored", result: resultStale}
	case Deleted:
		return &answer{text: "blocked: the event was deleted by its author", result: resultDeleted}
	case OverQuota:
		// Not "restricted": room comes back as wraps expire, so trying again helps.
		return &answer{text: "rate-limited: the recipient's box is full", result: resultRateLimited}
	}
	return &answer{text: "error: the event was not stored", result: resultError}
}

// rejectEmptyTag refuses a d tag without a value before anything else looks
// at the event.
func rejectEmptyTag(_ context.Context, ev *nostr.Event) (bool, string) {
	for _, tag := range ev.Tags {
		if len(tag) == 0 || (tag[0] == "d" && len(tag) < 2) {
			return true, "invalid: a tag has no value"
		}
	}
	return false, ""
}

func (r *Relay) rejectKind(_ context.Context, ev *nostr.Event) (bool, string) {
	if r.rules().kinds[ev.Kind] {
		return false, ""
	}
	return true, fmt.Sprintf("blocked: kind %d is not stored here", ev.Kind)
}

// rejectPolicy applies the rules that need no signature: times, authors, work,
// protection and what the kind asks for.
func (r *Relay) rejectPolicy(ctx context.Context, ev *nostr.Event) (bool, string) {
	now, rules := r.opts.Now(), r.rules()
	text := ""
	switch created := time.Unix(int64(ev.CreatedAt), 0); {
	case len(ev.Tags) > rules.limits.EventTags:
		text = fmt.Sprintf("invalid: more than %d tags", rules.limits.EventTags)
	case created.After(now.Add(rules.limits.CreatedAhead)):
		text = "invalid: created_at is " + apart(created, now)
	default:
		text = checkExpiration(ctx, ev, rules, now)
	}
	for _, check := range []func() string{
		func() string { return rules.checkAuthor(ev) },
		func() string { return checkWork(ev, rules.work(ev.Kind)) },
		func() string { return checkProtection(ctx, ev) },
		func() string { return r.checkContent(ctx, ev, rules, now) },
	} {
		if text == "" {
			text = check()
		}
	}
	return text != "", text
}

// checkAuthor refuses events of keys that may not publish, and events that
// management banned. Wraps are signed by throwaway keys; requests to delete
// and to vanish are everybody's right (NIP-62).
func (r *rules) checkAuthor(ev *nostr.Event) string {
	if _, banned := r.rulings.events[ev.ID]; banned {
		return "blocked: this event was removed here"
	}
	switch ev.Kind {
	case kindWrap, kindDeletion, kindVanish:
		return ""
	}
	return r.author(ev.PubKey)
}

// checkExpiration refuses expired events (NIP-40) and notes until when the
// event is kept, never longer than its kind's retention.
func checkExpiration(ctx context.Context, ev *nostr.Event, rules *rules, now time.Time) string {
	at, ok, err := expiration(ev)
	if err != nil {
		return "invalid: the expiration tag is not a Unix time"
	}
	if ok && at <= now.Unix() {
		return "invalid: the event is expired, its expiration is " + apart(time.Unix(at, 0), now)
	}
	if last := now.Add(rules.retention(ev.Kind)).Unix(); !ok || at > last {
		at = last
	}
	if sub := submissionOf(ctx); sub != nil {
		sub.rec.Expires = at
	}
	return ""
}

// expiration reads the first expiration tag (NIP-40).
func expiration(ev *nostr.Event) (at int64, ok bool, err error) {
	tag := ev.Tags.Find("expiration")
	if tag == nil {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(tag[1], 10, 62)
	return int64(n), err == nil, err
}

// checkProtection lets a protected event in only from its author (NIP-70).
func checkProtection(ctx context.Context, ev *nostr.Event) string {
	for _, tag := range ev.Tags {
		if len(tag) != 1 || tag[0] != "-" {
			continue
		}
		sub := submissionOf(ctx)
		switch {
		case sub == nil || len(sub.session.keys) == 0:
			return "auth-required: a protected event is taken from its author only"
		case !sub.session.authenticated(ev.PubKey):
			return "restricted: a protected event is taken from its author only"
		}
	}
	return ""
}

// checkContent applies the rules of the kind.
func (r *Relay) checkContent(ctx context.Context, ev *nostr.Event, rules *rules, now time.Time) string {
	switch ev.Kind {
	case kindCard:
		return rules.checkCard(ev, now)
	case kindWrap:
		return rules.checkWrap(ctx, ev)
	case kindVanish:
		return checkVanish(ev, r.opts.Origin)
	case kindInboxList:
		return checkInboxList(ev)
	}
	return ""
}

// checkCard takes cards that have a carrier of those the policy asks for.
func (r *rules) checkCard(ev *nostr.Event, now time.Time) string {
	c, err := card.Parse(ev, now)
	if err != nil {
		return "invalid: card: " + strings.TrimPrefix(err.Error(), "card: ")
	}
	if len(r.Carriers) == 0 || slices.ContainsFunc(c.Carriers, func(c card.Carrier) bool { return slices.Contains(r.Carriers, c.Scheme) }) {
		return ""
	}
	return "blocked: a card names a carrier of these here: " + strings.Join(r.Carriers, ", ")
}

// checkInboxList asks for what NIP-17 asks for: relays.
func checkInboxList(ev *nostr.Event) string {
	n := 0
	for _, tag := range ev.Tags {
		if len(tag) < 2 || tag[0] != "relay" {
			continue
		}
		u, err := url.Parse(tag[1])
		if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" {
			return "invalid: a relay tag is not the URL of a relay"
		}
		n++
	}
	if n == 0 {
		return "invalid: a list of relays for wraps names none"
	}
	return ""
}

// checkWrap takes wraps from anybody, for one admitted recipient (NIP-59).
func (r *rules) checkWrap(ctx context.Context, ev *nostr.Event) string {
	recipient, n := "", 0
	for _, tag := range ev.Tags {
		if tag[0] != "p" {
			continue
		}
		n++
		if len(tag) >= 2 {
			recipient = tag[1]
		}
	}
	if n != 1 || !canonical.IsHex(recipient, 32) {
		return "invalid: a wrap has exactly one p tag with a public key"
	}
	if !r.recipient(recipient) {
		return "blocked: wraps for this recipient are not stored here"
	}
	if sub := submissionOf(ctx); sub != nil {
		sub.rec.Recipient = recipient
	}
	return ""
}

// rejectKeyRate takes a token of the author, once the signature shows that the
// event is its own. Wraps have a new author each.
func (r *Relay) rejectKeyRate(_ context.Context, ev *nostr.Event) (bool, string) {
	if ev.Kind == kindWrap || allow(r.authors.budget(ev.PubKey), r.opts.Now()) {
		return false, ""
	}
	return true, "rate-limited: too many events of this key, slow down"
}

// rejectRate takes a token of the connection and of its address, and for a
// request to vanish one more of the address.
func (r *Relay) rejectRate(ctx context.Context, ev *nostr.Event) (bool, string) {
	sub := submissionOf(ctx)
	if sub == nil {
		return false, ""
	}
	now, s := r.opts.Now(), sub.session
	switch {
	case !allow(s.own.events, now) || !allow(s.shared.events, now):
		return true, "rate-limited: too many events, slow down"
	case ev.Kind == kindVanish && !allow(s.shared.vanishing, now):
		return true, "rate-limited: too many requests to vanish, slow down"
	}
	return false, ""
}

func rejectID(_ context.Context, ev *nostr.Event) (bool, string) {
	return !ev.CheckID(), "invalid: the id is not the hash of the event"
}

// rejectKnown spares the signature check of events that would not be stored.
func (r *Relay) rejectKnown(ctx context.Context, ev *nostr.Event) (bool, string) {
	sub := submissionOf(ctx)
	if sub == nil {
		return true, errNoSubmission.Error()
	}
	outcome, err := r.store.Check(ctx, sub.rec, r.rules().WrapQuota)
	if err != nil {
		r.log.ErrorContext(ctx, "checking event", "event_id", ev.ID, "err", err)
		return true, "error: the store could not be read"
	}
	if outcome == Stored {
		return false, ""
	}
	sub.settled = answerOf(outcome)
	return true, sub.settled.text
}
