package card

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// Kind is the Nostr kind of a card. The number is not in the public table of
// kinds.
const Kind = 30417

// DefaultName is the d tag of an agent with one card.
const DefaultName = "default"

// Limits of a card.
const (
	MaxSize     = 32 << 10 // bytes of the event as JSON
	MaxTags     = 200
	MaxCarriers = 16
	MaxAlt      = 400 // bytes
	MaxAddress  = 512 // bytes
	MaxWord     = 64  // bytes of a capability
	MaxProof    = 4096
	MaxLifetime = 180 * 24 * time.Hour // from created_at to expiration
	MaxSkew     = 15 * time.Minute     // created_at ahead of now
)

// Errors of Parse. Each is wrapped with the place.
var (
	ErrKind      = errors.New("card: not of kind 30417")
	ErrTooLarge  = errors.New("card: too large")
	ErrFuture    = errors.New("card: created_at is in the future")
	ErrExpired   = errors.New("card: expired")
	ErrMalformed = errors.New("card: malformed")
)

// Card is the content of a card event.
type Card struct {
	PubKey    string    // the agent's key, hex; from the event
	CreatedAt time.Time // from the event

	Name         string    // d tag, 1 to 32 bytes of [a-z0-9._-]
	Alt          string    // one line for readers that do not know the kind
	Expires      time.Time // to the second
	Carriers     []Carrier // by priority
	Protocols    []string  // name and version, such as "parley/1"
	Capabilities []string  // lower-case words
	Kinds        []int     // Nostr kinds the agent handles
	A2A          []string  // A2A endpoints
	Owner        string    // claimed owner, hex; see Owns
	Agents       []string  // keys this key owns, hex
	Moved        string    // the key that succeeds this one, hex
	Previous     string    // the key this one succeeds, hex; see Succeeds
	Proof        *Proof    // only with a public mail address
	Content      string    // empty or one A2A 1.0 Agent Card as JSON
}

// Proof shows that a public mail address belongs to the key: an attestation of
// a gateway and the salt of the address hash, both base64url without padding.
type Proof struct{ Attestation, Salt string }

// Parse checks a card event completely, but for its id and signature, and
// reads it. Unknown tag names are passed over, so that a later version can add
// some; everything this version knows must be right to the letter.
func Parse(ev *nostr.Event, now time.Time) (*Card, error) {
	if ev.Kind != Kind {
		return nil, ErrKind
	}
	if err := checkSize(ev); err != nil {
		return nil, err
	}
	created := time.Unix(int64(ev.CreatedAt), 0).UTC()
	if created.After(now.Add(MaxSkew)) {
		return nil, ErrFuture
	}
	c := &Card{PubKey: ev.PubKey, CreatedAt: created, Content: ev.Content}
	r := reading{card: c, labels: map[string][]string{}, spaces: map[string]bool{}}
	if err := r.tags(ev.Tags); err != nil {
		return nil, err
	}
	if err := r.whole(); err != nil {
		return nil, err
	}
	if !c.Expires.After(now) {
		return nil, ErrExpired
	}
	return c, checkContent(c.Content)
}

// checkSize bounds the event before anything is read from it.
func checkSize(ev *nostr.Event) error {
	if len(ev.Tags) > MaxTags {
		return fmt.Errorf("%w: %d tags, at most %d", ErrTooLarge, len(ev.Tags), MaxTags)
	}
	size := len(ev.Content) + len(ev.ID) + len(ev.PubKey) + len(ev.Sig)
	for _, tag := range ev.Tags {
		size += 2
		for _, s := range tag {
			size += len(s) + 3
		}
	}
	if size <= MaxSize {
		size = len(ev.String())
	}
	if size > MaxSize {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxSize)
	}
	return nil
}

// Event is the unsigned event of the card, created now: the tags in a fixed
// order with every index twin, the carriers by priority. It fails where Parse
// would.
func (c *Card) Event(now time.Time) (nostr.Event, error) {
	ev := nostr.Event{
		PubKey: c.PubKey, Kind: Kind, CreatedAt: nostr.Timestamp(now.Unix()),
		Tags: c.tags(), Content: c.Content,
	}
	if _, err := Parse(&ev, now); err != nil {
		return nostr.Event{}, err
	}
	return ev, nil
}

// RelayList is the unsigned event of kind 10002 (NIP-65) with the relays of
// the card's nostr carriers. It never names a relay that the card does not.
func RelayList(c *Card, now time.Time) nostr.Event {
	tags := nostr.Tags{}
	for _, url := range c.Relays() {
		tags = append(tags, nostr.Tag{"r", url})
	}
	return nostr.Event{PubKey: c.PubKey, Kind: nostr.KindRelayListMetadata, CreatedAt: nostr.Timestamp(now.Unix()), Tags: tags}
}

// Relays are the addresses of the nostr carriers by priority.
func (c *Card) Relays() []string {
	var out []string
	for _, carrier := range byPriority(c.Carriers) {
		if carrier.Scheme == SchemeNostr {
			out = append(out, carrier.Address)
		}
	}
	return out
}

// Owns tells whether both cards say that owner owns agent.
func Owns(owner, agent *Card) bool {
	return agent.Owner != "" && agent.Owner == owner.PubKey && slices.Contains(owner.Agents, agent.PubKey)
}

// Succeeds tells whether both cards say that the key of next replaces that of
// old.
func Succeeds(old, next *Card) bool {
	return old.Moved != "" && old.Moved == next.PubKey && next.Previous == old.PubKey
}

// tags are the card's tags in their fixed order.
func (c *Card) tags() nostr.Tags {
	t := nostr.Tags{
		{"d", c.Name},
		{"alt", c.Alt},
		{"expiration", strconv.FormatInt(c.Expires.Unix(), 10)},
	}
	for _, carrier := range byPriority(c.Carriers) {
		t = append(t, nostr.Tag{"carrier", carrier.Scheme, carrier.Address, strconv.Itoa(carrier.Priority)})
	}
	t = append(t, labels(spaceCarrier, schemes(c.Carriers))...)
	t = append(t, labels(spaceProtocol, c.Protocols)...)
	for _, word := range c.Capabilities {
		t = append(t, nostr.Tag{"t", word})
	}
	for _, kind := range c.Kinds {
		t = append(t, nostr.Tag{"k", strconv.Itoa(kind)})
	}
	for _, url := range c.A2A {
		t = append(t, nostr.Tag{"a2a", url})
	}
	t = append(t, c.keyTags()...)
	if c.Proof != nil {
		t = append(t, nostr.Tag{"proof", c.Proof.Attestation, c.Proof.Salt})
	}
	if relays := c.Relays(); len(relays) > 0 {
		t = append(t, append(nostr.Tag{"relays"}, relays...))
	}
	return t
}

func (c *Card) keyTags() nostr.Tags {
	var t nostr.Tags
	if c.Owner != "" {
		t = append(t, nostr.Tag{"p", c.Owner, "", "owner"})
	}
	for _, agent := range c.Agents {
		t = append(t, nostr.Tag{"p", agent, "", "agent"})
	}
	if c.Moved != "" {
		t = append(t, nostr.Tag{"moved", c.Moved})
	}
	if c.Previous != "" {
		t = append(t, nostr.Tag{"p", c.Previous, "", "previous"})
	}
	return t
}

// labels are the NIP-32 tags of one namespace, none without values.
func labels(space string, values []string) nostr.Tags {
	if len(values) == 0 {
		return nil
	}
	t := nostr.Tags{{"L", space}}
	for _, v := range values {
		t = append(t, nostr.Tag{"l", v, space})
	}
	return t
}
