package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"
)

// store is what the little relay keeps.
type store struct {
	events       []*nostr.Event
	deleted      map[string]bool            // author and id
	deletedUntil map[string]nostr.Timestamp // by address
	vanished     map[string]nostr.Timestamp // by key
	banned       map[string]bool            // keys and ids
	tokens       map[string]bool            // that were used
}

func newStore() store {
	return store{
		deleted: map[string]bool{}, deletedUntil: map[string]nostr.Timestamp{}, vanished: map[string]nostr.Timestamp{},
		banned: map[string]bool{}, tokens: map[string]bool{},
	}
}

// bystanders are events of others, which no check may meet: a profile, a card,
// a relay list, a wrap for each of two recipients, and what somebody deleted.
func (l *little) bystanders() {
	at := nostr.Now() - 50
	recipients := []string{strings.Repeat("a", 64), strings.Repeat("b", 64)}
	for i, ev := range []*nostr.Event{
		{Kind: 0, Tags: nostr.Tags{{"t", "bystander"}, {"p", recipients[0]}}, Content: "{}"},
		{Kind: 30417, Tags: nostr.Tags{{"d", "a"}, {"t", "bystander"}}},
		{Kind: 10002, Tags: nostr.Tags{{"t", "bystander"}}},
		{Kind: 1059, Tags: nostr.Tags{{"p", recipients[0]}}, Content: "sealed"},
		{Kind: 1059, Tags: nostr.Tags{{"p", recipients[1]}}, Content: "sealed"},
	} {
		ev.CreatedAt = at + nostr.Timestamp(i)
		if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
			panic(err)
		}
		l.events = append(l.events, ev)
	}
	l.deleted[strings.Repeat("c", 128)] = true
}

var hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseEvent reads an event strictly.
func (l *little) parseEvent(data []byte) (*nostr.Event, error) {
	var w struct {
		ID, PubKey, Sig string
		CreatedAt       *int64 `json:"created_at"`
		Kind            *int
		Tags            []nostr.Tag
		Content         *string
	}
	if l.is("any JSON is an event") {
		var loose map[string]any
		if json.Unmarshal(data, &loose) != nil {
			return nil, errMessage
		}
		id, _ := loose["id"].(string)
		pub, _ := loose["pubkey"].(string)
		tags, _ := json.Marshal(loose["tags"])
		ev := &nostr.Event{ID: id, PubKey: pub, Tags: nostr.Tags{}}
		if json.Unmarshal(data, ev) == nil && json.Unmarshal(tags, &ev.Tags) == nil && ev.CheckID() {
			return ev, nil
		}
		return &nostr.Event{ID: id, PubKey: pub, Tags: nostr.Tags{}, Kind: -2}, nil
	}
	err := json.Unmarshal(data, &w)
	if err != nil || w.CreatedAt == nil || w.Kind == nil || w.Content == nil || w.Tags == nil {
		return nil, errors.New("not an event")
	}
	if !hex64.MatchString(w.ID) || !hex64.MatchString(w.PubKey) || *w.Kind < 0 || *w.Kind > 65535 {
		return nil, errors.New("not an event")
	}
	return &nostr.Event{
		ID: w.ID, PubKey: w.PubKey, CreatedAt: nostr.Timestamp(*w.CreatedAt), Kind: *w.Kind, Tags: w.Tags, Content: *w.Content, Sig: w.Sig,
	}, nil
}

func (l *little) address(ev *nostr.Event) string {
	switch {
	case nostr.IsAddressableKind(ev.Kind):
		d := ev.Tags.GetD()
		if l.is("d tags make no difference") {
			d = ""
		}
		if l.is("authors make no difference") {
			return fmt.Sprintf("%d::%s", ev.Kind, d)
		}
		return fmt.Sprintf("%d:%s:%s", ev.Kind, ev.PubKey, d)
	case nostr.IsReplaceableKind(ev.Kind) && l.is("replaceable kinds make no difference"):
		return fmt.Sprintf("0:%s:", ev.PubKey)
	case nostr.IsReplaceableKind(ev.Kind) || l.is("everything is replaced") && ev.Kind == 1:
		return fmt.Sprintf("%d:%s:", ev.Kind, ev.PubKey)
	}
	return ""
}

func tagValue(ev *nostr.Event, name string) string {
	for _, tag := range ev.Tags {
		if len(tag) > 1 && tag[0] == name {
			return tag[1]
		}
	}
	return ""
}

func expired(ev *nostr.Event) bool {
	at, err := strconv.ParseInt(tagValue(ev, "expiration"), 10, 64)
	return err == nil && at <= int64(nostr.Now())
}

// die ends the relay.
func (l *little) die() {
	l.dead = true
	for s := range l.sessions {
		s.cancel()
	}
}

// submit decides about an event: "" is stored, anything with a colon is the
// text of the answer.
func (l *little) submit(ev *nostr.Event, s *session) string {
	if text := l.checkForm(ev); text != "" {
		if l.is("refused events are sent") {
			l.broadcast(ev, s)
		}
		return text
	}
	if text := l.checkPolicy(ev, s); text != "" {
		return text
	}
	if ev.Kind == 62 {
		if text := l.vanish(ev); text != "" {
			return text
		}
	}
	if nostr.IsEphemeralKind(ev.Kind) {
		if l.is("ephemeral events are stored") {
			l.events = append(l.events, ev)
		}
		l.broadcast(ev, s)
		return ""
	}
	text := l.put(ev)
	if text == "" || text == "duplicate: newer" && l.is("older versions are sent") || text == "duplicate: known" && l.is("duplicates are sent") {
		l.broadcast(ev, s)
	}
	return text
}

// checkForm checks what NIP-01 and NIP-13 ask of every event.
func (l *little) checkForm(ev *nostr.Event) string {
	if l.is("nothing is checked") || ev.Kind == -2 {
		return ""
	}
	valid, err := ev.CheckSignature()
	if l.is("signatures are not checked") {
		valid, err = true, nil
	}
	least := littleWork
	if l.is("work is not checked") {
		least = 0
	}
	committed := 0
	if nonce := ev.Tags.Find("nonce"); len(nonce) > 2 {
		committed, _ = strconv.Atoi(nonce[2])
	}
	if l.is("luck counts") {
		committed = 255
	}
	switch {
	case !ev.CheckID() && !l.is("ids are not checked"):
		return "invalid: id"
	case (err != nil || !valid) && !l.is("ids are not checked"):
		return "invalid: signature"
	case nip13.Difficulty(ev.ID) < least || committed < least:
		if l.is("work has no prefix") {
			return "invalid: work"
		}
		return "pow: more"
	case len(ev.Tags) >= littleTags && !l.is("no limit of tags"):
		return "invalid: too many tags"
	case ev.CreatedAt > nostr.Now()+littleAhead && !l.is("the future is welcome"):
		return "invalid: future"
	}
	return ""
}

// checkPolicy checks the rest, in the order of the NIPs.
func (l *little) checkPolicy(ev *nostr.Event, s *session) string {
	switch {
	case l.is("takes nothing"):
		return "blocked: closed"
	case l.is("takes no wraps") && ev.Kind == 1059:
		return "invalid: from yesterday"
	case l.is("dies of empty d tags") && ev.Tags.Find("d") == nil && tagged(ev, "d"), l.is("dies of odd expirations") && tagValue(ev, "expiration") == "tomorrow":
		l.die()
	}
	if expired(ev) && !l.is("expired events are taken") && !l.is("expired events are taken and served") {
		return "invalid: expired"
	}
	if slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) == 1 && t[0] == "-" }) && !slices.Contains(s.keys, ev.PubKey) {
		switch {
		case l.is("protected events are taken from anybody"):
		case l.is("protected events are taken from any key") && len(s.keys) > 0:
		case l.is("protection has no prefix"):
			return "invalid: protected"
		default:
			return "auth-required: protected"
		}
	}
	if l.is("protected events are refused from their author") && tagged(ev, "-") && slices.Contains(s.keys, ev.PubKey) {
		return "blocked: protected"
	}
	if l.banned[ev.PubKey] || l.banned[ev.ID] && !l.is("banned events come back") {
		return "blocked: banned"
	}
	if ev.Kind == 22242 {
		return "invalid: an AUTH event"
	}
	at, gone := l.vanished[ev.PubKey]
	if gone && (ev.CreatedAt <= at || l.is("who vanished may not begin again")) && !l.is("what vanished comes back") {
		return "blocked: vanished"
	}
	if l.forbidden(ev) && !l.is("deleted events come back") {
		return "blocked: deleted"
	}
	return ""
}

func tagged(ev *nostr.Event, name string) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == name })
}

// forbidden reports whether the author, or whoever is broken, deleted it.
func (l *little) forbidden(ev *nostr.Event) bool {
	if ev.Kind == nostr.KindDeletion || ev.Kind == 62 {
		return false
	}
	a := l.address(ev)
	until, ok := l.deletedUntil[a]
	if a != "" && ok && l.is("a deleted address is closed for good") {
		return true
	}
	return l.deleted[ev.PubKey+ev.ID] || l.deleted[ev.ID] || a != "" && ok && ev.CreatedAt <= until && !l.is("deleted addresses come back")
}

// put stores the event and does what it asks for.
func (l *little) put(ev *nostr.Event) string {
	a := l.address(ev)
	for i, old := range l.events {
		if old.ID == ev.ID {
			return "duplicate: known"
		}
		if a == "" || l.address(old) != a || l.is("nothing is replaced") {
			continue
		}
		older := ev.CreatedAt < old.CreatedAt || ev.CreatedAt == old.CreatedAt && ev.ID > old.ID
		if l.is("a tie goes to the highest id") {
			older = ev.CreatedAt < old.CreatedAt || ev.CreatedAt == old.CreatedAt && ev.ID < old.ID
		}
		if l.is("a tie goes to the last") {
			older = ev.CreatedAt < old.CreatedAt
		}
		if older && !l.is("older versions replace") {
			return "duplicate: newer"
		}
		l.events = slices.Delete(l.events, i, i+1)
		break
	}
	l.events = append(l.events, ev)
	if ev.Kind == nostr.KindDeletion {
		l.delete(ev)
		if l.is("deletion requests are not kept") {
			l.events = l.events[:len(l.events)-1]
		}
	}
	return ""
}

// delete does what a deletion request asks for (NIP-09).
func (l *little) delete(request *nostr.Event) {
	mine := func(ev *nostr.Event) bool { return ev.PubKey == request.PubKey || l.is("anybody deletes") }
	for n, tag := range request.Tags {
		if len(tag) < 2 || n > 3 && l.is("only a few are deleted") {
			continue
		}
		switch {
		case tag[0] == "e" && !l.is("nothing is deleted"):
			l.remove(func(ev *nostr.Event) bool {
				return ev.ID == tag[1] && mine(ev) && (ev.Kind != nostr.KindDeletion || l.is("deletions are deleted"))
			})
			if l.is("anybody forbids") {
				l.deleted[tag[1]] = true
			}
			if !l.is("deletions are forgotten") {
				l.deleted[request.PubKey+tag[1]] = true
			}
		case tag[0] == "a" && !l.is("addresses are not deleted"):
			l.remove(func(ev *nostr.Event) bool {
				return l.address(ev) == tag[1] && mine(ev) && (ev.CreatedAt <= request.CreatedAt || l.is("deletion takes later versions"))
			})
			if strings.Contains(tag[1], request.PubKey) && !l.is("deletions are forgotten") {
				l.deletedUntil[tag[1]] = max(l.deletedUntil[tag[1]], request.CreatedAt)
			}
		}
	}
	if l.is("deletions are deleted") {
		for _, tag := range request.Tags {
			if tag[0] == "e" {
				clear(l.deleted)
			}
		}
	}
}

func (l *little) remove(which func(ev *nostr.Event) bool) {
	l.events = slices.DeleteFunc(l.events, which)
}

// vanish does what a request to vanish asks for (NIP-62).
func (l *little) vanish(request *nostr.Event) string {
	relays := 0
	for _, tag := range request.Tags {
		if len(tag) < 2 || tag[0] != "relay" {
			continue
		}
		relays++
		mine := strings.TrimSuffix(tag[1], "/") == l.url() || tag[1] == "ALL_RELAYS" && !l.is("ALL_RELAYS is another relay")
		if !mine && !l.is("vanishing is for every relay") || l.is("nobody vanishes") {
			continue
		}
		l.vanished[request.PubKey] = request.CreatedAt
		l.remove(func(ev *nostr.Event) bool {
			before := ev.CreatedAt <= request.CreatedAt || l.is("vanishing takes newer events")
			own := ev.PubKey == request.PubKey && before || l.is("all vanish together")
			if ev.Kind == nostr.KindDeletion && l.is("deletion requests do not vanish") {
				return false
			}
			return own || ev.Kind == 1059 && tagValue(ev, "p") == request.PubKey && !l.is("wraps do not vanish")
		})
	}
	if relays == 0 && !l.is("vanishing needs no relay") {
		return "invalid: no relay"
	}
	return ""
}
