package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/card"
)

// SucceedKeyRequest asks for a new key.
type SucceedKeyRequest struct {
	// Force goes on although agreements are open or messages are queued: the
	// new key takes no part in the agreements, and what is queued is still sent
	// by the old key but not acknowledged to the new one.
	Force bool `json:"force,omitempty"`
}

// SucceedKeyResponse tells which key took the place of which.
type SucceedKeyResponse struct {
	Old    string      `json:"old"` // npub
	New    string      `json:"new"` // npub
	Relays []Published `json:"relays"`
}

// RevokeKeyResponse is what each relay said to the deletion request.
type RevokeKeyResponse struct {
	NPub   string      `json:"npub"`
	Relays []Published `json:"relays"`
}

// move is one succession of this home: New took the place of Old.
type move struct {
	Old  string `json:"old"`
	New  string `json:"new"`
	Done bool   `json:"done"` // the new key is in use
}

type moves []move

// place is where a key stands between others, in hex; empty is none.
type place struct{ previous, moved string }

// Keys of agent_settings.
const (
	settingMoves   = "moves"
	settingRevoked = "revoked" // the hex key whose card is not published again unasked
)

// of is the place of a key, which its card tells from then on.
func (m moves) of(pubkey string) (p place) {
	for _, one := range m {
		switch pubkey {
		case one.New:
			p.previous = one.Old
		case one.Old:
			p.moved = one.New
		}
	}
	return p
}

func (a *Agent) moves(ctx context.Context) (list moves, err error) {
	text, err := a.setting(ctx, settingMoves)
	if err != nil || text == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("reading the successions: %w", err)
	}
	return list, nil
}

func (a *Agent) setMoves(ctx context.Context, list moves) error {
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding the successions: %w", err)
	}
	return a.setSetting(ctx, settingMoves, string(text))
}

// SucceedKey makes a new key take the place of the agent's. The steps, each of
// which is durable before the next one begins: the new key is stored as next;
// its card, which names the old key, is published; so is the last card of the
// old key, which names the new one; the succession is recorded; the keys
// change places. Calling it again after a stop completes them.
//
// This Agent goes on with the old key: close it and open the home anew.
func (a *Agent) SucceedKey(ctx context.Context, q SucceedKeyRequest) (*SucceedKeyResponse, error) {
	if a.isWorking() {
		return nil, unavailable("the daemon uses the key").hint("stop `parley run`, then try again")
	}
	list, err := a.moves(ctx)
	if err != nil {
		return nil, err
	}
	me := a.key.PublicKey()
	for _, m := range list {
		if !m.Done && (m.New == me || m.Old == me) {
			return a.completeMove(ctx, list, m, nil)
		}
	}
	if !q.Force {
		if err := a.nothingOpen(ctx); err != nil {
			return nil, err
		}
	}
	next, err := a.keyDir.NextNostr(keys.Agent)
	if err != nil {
		return nil, keyProblem(err)
	}
	relays, err := a.publishMove(ctx, next, list.of(me).previous)
	if err != nil {
		return nil, err
	}
	m := move{Old: me, New: next.PublicKey()}
	list = append(list, m)
	if err := a.setMoves(ctx, list); err != nil {
		return nil, err
	}
	return a.completeMove(ctx, list, m, relays)
}

// publishMove publishes both cards of a succession, the new one first: whoever
// follows the old one finds it.
func (a *Agent) publishMove(ctx context.Context, next *keys.Nostr, previous string) ([]Published, error) {
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	p, err := a.profile(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := a.publishAs(ctx, next, p, servers, place{previous: a.key.PublicKey()})
	if err != nil {
		return nil, err
	}
	p.LifetimeSeconds = int64(card.MaxLifetime / time.Second) // it is not published again
	last, err := a.publishAs(ctx, a.key, p, servers, place{previous: previous, moved: next.PublicKey()})
	if err != nil {
		return nil, err
	}
	return append(fresh.Relays, last.Relays...), nil
}

// completeMove puts the new key into use. It may have been already.
func (a *Agent) completeMove(ctx context.Context, list moves, m move, relays []Published) (*SucceedKeyResponse, error) {
	if _, err := a.keyDir.Next(keys.Agent); err == nil {
		if _, err := a.keyDir.Rotate(keys.Agent); err != nil {
			return nil, keyProblem(err)
		}
	}
	list[slices.Index(list, m)].Done = true
	if err := a.setMoves(ctx, list); err != nil {
		return nil, err
	}
	return &SucceedKeyResponse{Old: npub(m.Old), New: npub(m.New), Relays: append([]Published{}, relays...)}, nil
}

// nothingOpen refuses while something needs the old key.
func (a *Agent) nothingOpen(ctx context.Context) error {
	status, err := a.Status(ctx, Empty{})
	if err != nil {
		return err
	}
	link, err := a.current()
	if err != nil {
		return err
	}
	waiting, err := link.engine.Outbox(ctx, carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued}})
	if err != nil {
		return fmt.Errorf("reading the outbox: %w", err)
	}
	if status.Open == 0 && len(waiting) == 0 {
		return nil
	}
	return refused("the old key is still needed: open agreements %d, queued messages %d", status.Open, len(waiting)).
		hint("wait for them, or go on without them: parley key succeed --force")
}

// RevokeKey asks the relays to delete the own card and relay list (NIP-09) and
// forgets the card here, so that it is not published again unasked.
func (a *Agent) RevokeKey(ctx context.Context, _ Empty) (*RevokeKeyResponse, error) {
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	at := a.now()
	if last, err := a.knownCard(ctx, a.key.PublicKey()); err == nil && last != nil && last.CreatedAt.After(at) {
		at = last.CreatedAt.Time
	}
	me := a.key.PublicKey()
	ev := gonostr.Event{
		Kind: gonostr.KindDeletion, CreatedAt: gonostr.Timestamp(at.Unix()),
		Tags: gonostr.Tags{
			{"a", fmt.Sprintf("%d:%s:%s", card.Kind, me, card.DefaultName)},
			{"a", fmt.Sprintf("%d:%s:", gonostr.KindRelayListMetadata, me)},
			{"k", fmt.Sprint(card.Kind)},
			{"k", fmt.Sprint(gonostr.KindRelayListMetadata)},
		},
	}
	if err := a.key.Sign(&ev); err != nil {
		return nil, fmt.Errorf("signing the deletion request: %w", err)
	}
	relays, err := a.publishAll(ctx, servers, &ev)
	if err != nil {
		return nil, err
	}
	if err := a.setSetting(ctx, settingRevoked, me); err != nil {
		return nil, fmt.Errorf("noting the deletion: %w", err)
	}
	if err := exec(ctx, a.db, `DELETE FROM agent_cards WHERE pubkey = $1`, me); err != nil {
		return nil, fmt.Errorf("forgetting the own card: %w", err)
	}
	return &RevokeKeyResponse{NPub: npub(me), Relays: relays}, nil
}

// moveProven tells whether the known card of the key that c names as its
// successor names c's key too.
func (a *Agent) moveProven(ctx context.Context, c *card.Card) bool {
	if c.Moved == "" {
		return false
	}
	_, next, err := a.storedCard(ctx, c.Moved)
	return err == nil && next != nil && card.Succeeds(c, next)
}

// lookUpMoves asks the relays for the cards of the successors that cards name,
// where they are not known, and marks the moves that are proven by them.
func (a *Agent) lookUpMoves(ctx context.Context, cards ...*Card) {
	var authors []string
	for _, c := range cards {
		if c.Moved != "" && !c.MoveProven && !slices.Contains(authors, c.Moved) {
			authors = append(authors, c.Moved)
		}
	}
	if len(authors) == 0 {
		return
	}
	filter := gonostr.Filter{Kinds: []int{card.Kind}, Authors: authors[:min(len(authors), maxFound)], Limit: maxFound}
	if _, _, err := a.search(ctx, filter); err != nil {
		a.log.InfoContext(ctx, "looking up successors", "err", err)
		return
	}
	for _, c := range cards {
		if c.Moved != "" {
			c.MoveProven = a.moveProven(ctx, &card.Card{PubKey: c.PubKey, Moved: c.Moved})
		}
	}
}

// predecessor is the contact whose place a key takes by the cards of both, nil
// when there is none.
func (a *Agent) predecessor(ctx context.Context, pubkey string) (*Contact, error) {
	if c, err := a.freshCard(ctx, pubkey); err == nil && c.Previous != "" {
		_, _ = a.freshCard(ctx, c.Previous) // its last card tells of the move
	}
	next, err := a.knownCard(ctx, pubkey)
	if err != nil || next == nil || next.Previous == "" {
		return nil, err
	}
	list, err := a.Contacts(ctx, Empty{})
	if err != nil {
		return nil, err
	}
	for i, c := range list.Contacts {
		if c.PubKey == next.Previous && c.MoveProven && c.Moved == pubkey {
			return &list.Contacts[i], nil
		}
	}
	return nil, nil
}

// takePlace makes a key a contact under the petname of the one it succeeds,
// unless another is given. The old contact stays, without a petname, so that
// what is on its way from it still arrives.
func (a *Agent) takePlace(ctx context.Context, old *Contact, pubkey, name string) error {
	link, err := a.current()
	if err != nil {
		return err
	}
	if name == "" {
		name = old.Name
	}
	if err := link.engine.AddContact(ctx, carrier.Contact{PubKey: old.PubKey, Note: movedTo(pubkey)}); err != nil {
		return fmt.Errorf("marking the old contact: %w", err)
	}
	if err := link.engine.AddContact(ctx, carrier.Contact{PubKey: pubkey, Name: name}); err != nil {
		return fmt.Errorf("naming the contact: %w", err)
	}
	return nil
}

// movedTo is the note of a contact whose place another key took.
func movedTo(pubkey string) string { return "moved to " + npub(pubkey) }
