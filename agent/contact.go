package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
)

// Contact is someone this agent answers.
type Contact struct {
	PubKey  string         `json:"pubkey"`
	NPub    string         `json:"npub"`
	Name    string         `json:"name,omitempty"` // petname, the owner's word
	Note    string         `json:"note,omitempty"` // such as "venue of https://parley.example"
	AddedAt canonical.Time `json:"added_at"`
	About   string         `json:"about,omitempty"` // what its card says

	Moved      string `json:"moved,omitempty"`       // hex key that its card names as its successor
	MoveProven bool   `json:"move_proven,omitempty"` // the card of that key says so too
}

// ContactRequest names a key and, where one is given, its petname.
type ContactRequest struct {
	Who  string `json:"who"`
	Name string `json:"name,omitempty"`
}

// ContactsResponse lists contacts in the order they were added.
type ContactsResponse struct {
	Contacts []Contact `json:"contacts"`
}

// StrangerRequest is someone who wrote and is no contact.
type StrangerRequest struct {
	PubKey   string         `json:"pubkey"`
	NPub     string         `json:"npub"`
	Messages int            `json:"messages"`
	LastAt   canonical.Time `json:"last_at"`
	Text     string         `json:"text,omitempty"` // the newest text, at most 200 code points
}

// RequestsResponse lists the request box.
type RequestsResponse struct {
	Requests []StrangerRequest `json:"requests"`
}

// AddContact makes a key a contact: it is acknowledged, and its card decides
// how it is reached.
func (a *Agent) AddContact(ctx context.Context, q ContactRequest) (*Contact, error) {
	pubkey, err := a.newContact(ctx, q)
	if err != nil {
		return nil, err
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	name := q.Name
	if known, err := link.engine.Contact(ctx, pubkey); err == nil && name == "" {
		name = known.Name // adding again takes no name away
	}
	if err := link.engine.AddContact(ctx, carrier.Contact{PubKey: pubkey, Name: name}); err != nil {
		return nil, fmt.Errorf("adding the contact: %w", err)
	}
	a.introduceSoon(ctx)
	found, err := a.freshCard(ctx, pubkey)
	if err != nil {
		a.log.DebugContext(ctx, "no card for a new contact", "err", err)
	} else {
		a.lookUpMoves(ctx, found)
	}
	return a.contact(ctx, pubkey)
}

// newContact checks a request to add or accept.
func (a *Agent) newContact(ctx context.Context, q ContactRequest) (string, error) {
	pubkey, err := a.who(ctx, q.Who)
	if err != nil {
		return "", err
	}
	if pubkey == a.key.PublicKey() {
		return "", invalid("this is the own key")
	}
	if q.Name == "" {
		return pubkey, nil
	}
	if err := checkName(q.Name); err != nil {
		return "", err
	}
	if other, err := a.who(ctx, q.Name); err == nil && other != pubkey {
		return "", refused("another contact is called %q: %s", q.Name, npub(other)).hint("choose another petname")
	}
	return pubkey, nil
}

func (a *Agent) contact(ctx context.Context, pubkey string) (*Contact, error) {
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	c, err := link.engine.Contact(ctx, pubkey)
	if errors.Is(err, carrier.ErrNotFound) {
		return nil, notFound("%s is no contact", npub(pubkey))
	}
	if err != nil {
		return nil, fmt.Errorf("reading contacts: %w", err)
	}
	contact := a.describe(ctx, c)
	return &contact, nil
}

func (a *Agent) describe(ctx context.Context, c carrier.Contact) Contact {
	contact := Contact{
		PubKey: c.PubKey, NPub: npub(c.PubKey), Name: c.Name, Note: c.Note, AddedAt: canonical.At(c.AddedAt),
	}
	if card, err := a.knownCard(ctx, c.PubKey); err == nil && card != nil {
		contact.About, contact.Moved, contact.MoveProven = card.About, card.Moved, card.MoveProven
	}
	return contact
}

// Contacts lists the contacts.
func (a *Agent) Contacts(ctx context.Context, _ Empty) (*ContactsResponse, error) {
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	list, err := link.engine.Contacts(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading contacts: %w", err)
	}
	response := &ContactsResponse{Contacts: []Contact{}}
	for _, c := range list {
		response.Contacts = append(response.Contacts, a.describe(ctx, c))
	}
	return response, nil
}

// RemoveContact forgets a contact. What it writes from now on lands in the
// request box.
func (a *Agent) RemoveContact(ctx context.Context, q ContactRequest) (*Contact, error) {
	pubkey, err := a.who(ctx, q.Who)
	if err != nil {
		return nil, err
	}
	contact, err := a.contact(ctx, pubkey)
	if err != nil {
		return nil, err
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	if err := link.engine.RemoveContact(ctx, pubkey); err != nil {
		return nil, fmt.Errorf("removing the contact: %w", err)
	}
	if err := a.dropAddresses(ctx, pubkey); err != nil {
		return nil, err
	}
	a.introduceSoon(ctx)
	return contact, nil
}
