package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

// defaultCardLifetime is how long a card is valid when nothing else is asked.
const defaultCardLifetime = 90 * 24 * time.Hour

// Card is a checked card as the operations show it.
type Card struct {
	PubKey       string         `json:"pubkey"`
	NPub         string         `json:"npub"`
	Name         string         `json:"name"`              // d tag
	Petname      string         `json:"petname,omitempty"` // when the key is a contact
	About        string         `json:"about"`             // alt tag: its own words
	Capabilities []string       `json:"capabilities"`
	Protocols    []string       `json:"protocols"`
	Carriers     []CardCarrier  `json:"carriers"`
	CreatedAt    canonical.Time `json:"created_at"`
	ExpiresAt    canonical.Time `json:"expires_at"`
	Moved        string         `json:"moved,omitempty"`    // hex key that succeeds this one
	MoveProven   bool           `json:"move_proven"`        // the card of that key says so too
	Previous     string         `json:"previous,omitempty"` // hex key that this one claims to succeed
	Expired      bool           `json:"expired"`
	EventID      string         `json:"event_id"`
}

// CardCarrier is one way to reach the agent; a lower priority is tried first.
type CardCarrier struct {
	Scheme   string `json:"scheme"`
	Address  string `json:"address"`
	Priority int    `json:"priority"`
}

// ShowCardRequest names whose card; empty is the agent's own.
type ShowCardRequest struct {
	Who string `json:"who,omitempty"`
}

// PublishCardRequest says what the card tells. Members left out keep what the
// last published card said.
type PublishCardRequest struct {
	About          *string  `json:"about,omitempty"`           // at most 400 bytes
	Can            []string `json:"can,omitempty"`             // capability words
	ExpiresSeconds int64    `json:"expires_seconds,omitempty"` // at most 180 days
}

// PublishCardResponse is the card and what each relay said.
type PublishCardResponse struct {
	Card   Card        `json:"card"`
	Relays []Published `json:"relays"`
}

// Published is the answer of one relay to one event.
type Published struct {
	Relay  string `json:"relay"`
	Kind   int    `json:"kind"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// profile is what the own card says; it is kept for the next publication.
type profile struct {
	About           string   `json:"about"`
	Can             []string `json:"can"`
	LifetimeSeconds int64    `json:"lifetime_seconds"`
}

// ShowCard shows a card from the relays, or the newest known one.
func (a *Agent) ShowCard(ctx context.Context, q ShowCardRequest) (*Card, error) {
	pubkey := a.key.PublicKey()
	if q.Who != "" {
		var err error
		if pubkey, err = a.who(ctx, q.Who); err != nil {
			return nil, err
		}
	}
	found, err := a.freshCard(ctx, pubkey)
	if err != nil && !errors.Is(err, errNoCard) {
		a.log.InfoContext(ctx, "showing a known card", "err", err)
		if found, err = a.knownCard(ctx, pubkey); err != nil {
			return nil, err
		}
	}
	switch {
	case found != nil:
		a.lookUpMoves(ctx, found)
		return found, nil
	case pubkey == a.key.PublicKey():
		return nil, notFound("this agent has published no card").hint("parley card publish --about TEXT --can WORD,WORD")
	default:
		return nil, notFound("%s has no card here", npub(pubkey)).hint("its owner publishes one with `parley card publish`")
	}
}

// PublishCard signs the own card and its relay list and waits for the OK of
// every pinned server's relay. It fails when none took the card.
func (a *Agent) PublishCard(ctx context.Context, q PublishCardRequest) (*PublishCardResponse, error) {
	p, err := a.profile(ctx)
	if err != nil {
		return nil, err
	}
	if q.About != nil {
		p.About = *q.About
	}
	if q.Can != nil {
		p.Can = q.Can
	}
	if q.ExpiresSeconds != 0 {
		p.LifetimeSeconds = q.ExpiresSeconds
	}
	return a.publish(ctx, p)
}

func (a *Agent) profile(ctx context.Context) (profile, error) {
	p := profile{LifetimeSeconds: int64(defaultCardLifetime / time.Second)}
	text, err := a.setting(ctx, settingCard)
	if err != nil || text == "" {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("reading the card's profile: %w", err)
	}
	return p, nil
}

func (a *Agent) publish(ctx context.Context, p profile) (*PublishCardResponse, error) {
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	moved, err := a.moves(ctx)
	if err != nil {
		return nil, err
	}
	response, err := a.publishAs(ctx, a.key, p, servers, moved.of(a.key.PublicKey()))
	if err != nil {
		return nil, err
	}
	if err := a.setSetting(ctx, settingRevoked, ""); err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the card's profile: %w", err)
	}
	return response, a.setSetting(ctx, settingCard, string(text))
}

// publishAs signs and publishes the card of a key and remembers it.
func (a *Agent) publishAs(ctx context.Context, key *keys.Nostr, p profile, servers []Server, place place) (*PublishCardResponse, error) {
	c, list, err := a.signCard(ctx, key, p, servers, place)
	if err != nil {
		return nil, err
	}
	response := &PublishCardResponse{}
	if response.Relays, err = a.publishAll(ctx, servers, c, list); err != nil {
		return nil, err
	}
	a.metrics.cards.Inc()
	shown, err := a.rememberCard(ctx, c)
	if err != nil {
		return nil, err
	}
	response.Card = *shown
	return response, nil
}

// publishAll gives events to every own relay. It fails when none took the first.
func (a *Agent) publishAll(ctx context.Context, servers []Server, events ...*gonostr.Event) ([]Published, error) {
	var results []Published
	accepted, said := false, false // said: a relay answered that it does not want the event
	for _, relay := range relaysOf(servers) {
		for i, ev := range events {
			result := Published{Relay: relay, Kind: ev.Kind, OK: true}
			if err := a.publishEvent(ctx, relay, ev); err != nil {
				result.OK, result.Reason = false, outage(err)
				said = said || errors.Is(err, carrier.ErrPermanent)
			}
			accepted = accepted || result.OK && i == 0
			results = append(results, result)
		}
	}
	if len(results) == 0 {
		return nil, errNoServer()
	}
	if !accepted {
		what := "card"
		if events[0].Kind != card.Kind {
			what = "event"
		}
		failure := unavailable("no relay took the %s: %s: %s", what, results[0].Relay, results[0].Reason).
			hint("is the server up? `parley status` names it; then publish again")
		if said {
			failure.Code, failure.Hint = CodeRefused, ""
		}
		return nil, failure
	}
	return results, nil
}

// signCard makes the card and the relay list generated from it. Their
// created_at is later than that of the card before, so that it is replaced.
func (a *Agent) signCard(ctx context.Context, key *keys.Nostr, p profile, servers []Server, place place) (*gonostr.Event, *gonostr.Event, error) {
	if len(relaysOf(servers)) == 0 {
		return nil, nil, errNoServer()
	}
	own, err := a.ownCarriers(ctx, servers, key.PublicKey())
	if err != nil {
		return nil, nil, err
	}
	now := a.now()
	if last, err := a.knownCard(ctx, key.PublicKey()); err == nil && last != nil && !last.CreatedAt.Before(now.Truncate(time.Second)) {
		now = last.CreatedAt.Add(time.Second)
	}
	c := &card.Card{
		Name: card.DefaultName, Alt: a.about(ctx, p), Protocols: []string{"parley/1"}, Capabilities: p.Can,
		Expires: now.Add(time.Duration(p.LifetimeSeconds) * time.Second),
		Moved:   place.moved, Previous: place.previous,
	}
	if c.Carriers, err = a.cardCarriers(ctx, own); err != nil {
		return nil, nil, err
	}
	ev, err := c.Event(now)
	if err != nil {
		return nil, nil, invalid("the card is not valid: %w", err)
	}
	list := card.RelayList(c, now)
	for _, e := range []*gonostr.Event{&ev, &list} {
		if err := key.Sign(e); err != nil {
			return nil, nil, fmt.Errorf("signing the card: %w", err)
		}
	}
	return &ev, &list, nil
}

// about is the alt text of the own card, never empty (NIP-31).
func (a *Agent) about(ctx context.Context, p profile) string {
	if p.About != "" {
		return p.About
	}
	if name, err := a.setting(ctx, settingName); err == nil && name != "" {
		return "Contact card of " + name
	}
	return "Contact card of a Parley agent"
}

func relaysOf(servers []Server) []string {
	var list []string
	for _, s := range servers {
		if s.Relay != "" {
			list = append(list, s.Relay)
		}
	}
	return list[:min(len(list), nostr.MaxRelays)]
}

// rememberCard checks an event completely and keeps it unless a newer card of
// the same key and name is known (NIP-01: later created_at, then lower id).
func (a *Agent) rememberCard(ctx context.Context, ev *gonostr.Event) (*Card, error) {
	c, err := card.Parse(ev, a.now())
	if err != nil {
		return nil, err
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok || !ev.CheckID() {
		return nil, errors.New("the card's signature does not verify")
	}
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		return nil, err
	}
	err = exec(ctx, a.db, `INSERT INTO agent_cards (pubkey, d, created_at, event_id, expires_at, event)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (pubkey, d) DO UPDATE SET created_at = excluded.created_at, event_id = excluded.event_id,
			expires_at = excluded.expires_at, event = excluded.event
		WHERE excluded.created_at > agent_cards.created_at
			OR excluded.created_at = agent_cards.created_at AND excluded.event_id < agent_cards.event_id`,
		ev.PubKey, c.Name, int64(ev.CreatedAt), ev.ID, c.Expires.Unix(), data)
	if err != nil {
		return nil, fmt.Errorf("keeping a card: %w", err)
	}
	return a.knownCard(ctx, ev.PubKey)
}

// knownCard is the newest card seen of a key, expired or not; nil when there
// is none.
func (a *Agent) knownCard(ctx context.Context, pubkey string) (*Card, error) {
	ev, c, err := a.storedCard(ctx, pubkey)
	if err != nil || c == nil {
		return nil, err
	}
	return a.showCard(ctx, ev, c), nil
}

func (a *Agent) storedCard(ctx context.Context, pubkey string) (*gonostr.Event, *card.Card, error) {
	var data []byte
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT event FROM agent_cards WHERE pubkey = $1
			ORDER BY d = $2 DESC, created_at DESC LIMIT 1`, pubkey, card.DefaultName).Scan(&data)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a card: %w", err)
	}
	// It was valid when it came; read it as of then, so that an expired one
	// can still be shown.
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a card: %w", err)
	}
	c, err := card.Parse(ev, ev.CreatedAt.Time())
	if err != nil {
		return nil, nil, fmt.Errorf("reading a card: %w", err)
	}
	return ev, c, nil
}

func (a *Agent) showCard(ctx context.Context, ev *gonostr.Event, c *card.Card) *Card {
	shown := &Card{
		PubKey: c.PubKey, NPub: npub(c.PubKey), Name: c.Name, Petname: a.petname(ctx, c.PubKey), About: c.Alt,
		Capabilities: append([]string{}, c.Capabilities...), Protocols: append([]string{}, c.Protocols...),
		Carriers: []CardCarrier{}, CreatedAt: canonical.At(c.CreatedAt), ExpiresAt: canonical.At(c.Expires),
		Moved: c.Moved, MoveProven: a.moveProven(ctx, c), Previous: c.Previous, Expired: !a.now().Before(c.Expires), EventID: ev.ID,
	}
	for _, carrier := range c.Carriers {
		shown.Carriers = append(shown.Carriers, CardCarrier(carrier))
	}
	return shown
}

// petname is what the owner calls a key, "" for nobody.
func (a *Agent) petname(ctx context.Context, pubkey string) string {
	link, err := a.current()
	if err != nil {
		return ""
	}
	c, err := link.engine.Contact(ctx, pubkey)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(c.Name)
}
