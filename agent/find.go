package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
)

// maxFound bounds the cards one search shows.
const maxFound = 200

// FindRequest says which cards to look for: of one key, or with every one of
// some capability words. Without either it lists what the relays show first.
type FindRequest struct {
	Who   string   `json:"who,omitempty"` // npub, hex key, petname or name@host (NIP-05)
	Words []string `json:"words,omitempty"`
}

// FindResponse lists verified cards, the newest first.
type FindResponse struct {
	Cards   []Card `json:"cards"`
	Refused int    `json:"refused"` // events that were no valid card
}

// errNoCard says that no relay has a valid card of a key.
var errNoCard = errors.New("agent: no card")

// FindCards asks the relays of the pinned servers. Whatever they answer is
// checked: signature, form, expiry and the words asked for.
func (a *Agent) FindCards(ctx context.Context, q FindRequest) (*FindResponse, error) {
	filter := nostr.Filter{Kinds: []int{card.Kind}, Limit: maxFound}
	var byName *named
	switch {
	case strings.Contains(q.Who, "@"):
		var err error
		if byName, err = a.lookUpName(ctx, q.Who); err != nil {
			return nil, err
		}
		filter.Authors = []string{byName.pubkey}
	case q.Who != "":
		pubkey, err := a.who(ctx, q.Who)
		if err != nil {
			return nil, err
		}
		filter.Authors = []string{pubkey}
	}
	words := make([]string, 0, len(q.Words))
	for _, w := range q.Words {
		words = append(words, strings.ToLower(w))
	}
	if len(words) > 0 {
		filter.Tags = nostr.TagMap{"t": words[:1]} // a relay reads several as "any of"
	}
	found, refusedCards, err := a.searchFor(ctx, byName, filter)
	if err != nil {
		return nil, err
	}
	response := &FindResponse{Cards: []Card{}, Refused: refusedCards}
	for _, c := range found {
		if !c.Expired && subset(words, c.Capabilities) && (len(filter.Authors) == 0 || c.PubKey == filter.Authors[0]) {
			response.Cards = append(response.Cards, *c)
		}
	}
	moved := make([]*Card, len(response.Cards))
	for i := range response.Cards {
		moved[i] = &response.Cards[i]
	}
	a.lookUpMoves(ctx, moved...)
	slices.SortStableFunc(response.Cards, func(x, y Card) int { return y.CreatedAt.Compare(x.CreatedAt.Time) })
	return response, nil
}

func subset(words, of []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(of, w) })
}

// searchFor is search, after asking the relays that belong to a name, if one
// was given. Then the own relays may be silent.
func (a *Agent) searchFor(ctx context.Context, byName *named, filter nostr.Filter) ([]*Card, int, error) {
	if byName == nil {
		return a.search(ctx, filter)
	}
	newest := make(map[string]*Card)
	bad := a.rememberCards(ctx, a.askNamed(ctx, byName, filter), newest)
	found, others, err := a.search(ctx, filter)
	if err != nil && len(newest) == 0 {
		return nil, 0, err
	}
	for _, c := range found {
		newest[c.PubKey] = c // the newest of all that were ever seen
	}
	return slices.Collect(maps.Values(newest)), bad + others, nil
}

// rememberCards keeps the cards among events, notes the newest of each key, and
// counts those that are none.
func (a *Agent) rememberCards(ctx context.Context, events []*nostr.Event, newest map[string]*Card) (bad int) {
	for _, ev := range events {
		c, err := a.rememberCard(ctx, ev)
		if err != nil {
			bad++
			a.metrics.refusals.WithLabelValues(refusedCard).Inc()
			a.log.InfoContext(ctx, "refused a card", "err", err)
			continue
		}
		newest[c.PubKey] = c
	}
	return bad
}

// search asks every own relay and returns the newest card of each key. It fails
// when no relay answered.
func (a *Agent) search(ctx context.Context, filter nostr.Filter) ([]*Card, int, error) {
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the servers: %w", err)
	}
	relays := relaysOf(servers)
	if len(relays) == 0 {
		return nil, 0, errNoServer()
	}
	var failure error
	answered, bad := 0, 0
	newest := make(map[string]*Card)
	for _, relay := range relays {
		list, err := a.queryEvents(ctx, relay, filter)
		if err != nil {
			failure = err
			continue
		}
		answered++
		bad += a.rememberCards(ctx, list, newest)
	}
	if answered == 0 {
		return nil, 0, unavailable("no relay answered: %w", &plainError{outage(failure), failure}).
			hint("is the server up? %s", servers[0].Origin)
	}
	return slices.Collect(maps.Values(newest)), bad, nil
}

// freshCard asks the relays for one key's card.
func (a *Agent) freshCard(ctx context.Context, pubkey string) (*Card, error) {
	list, _, err := a.search(ctx, nostr.Filter{Kinds: []int{card.Kind}, Authors: []string{pubkey}, Limit: 10})
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.PubKey == pubkey {
			return c, nil
		}
	}
	return nil, errNoCard
}
