package agent

import (
	"context"
	"errors"
	"fmt"
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
	Who   string   `json:"who,omitempty"` // npub, hex key or petname
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
	if q.Who != "" {
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
	found, refusedCards, err := a.search(ctx, filter)
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
		for _, ev := range list {
			c, err := a.rememberCard(ctx, ev)
			if err != nil {
				bad++
				a.metrics.refusals.WithLabelValues(refusedCard).Inc()
				a.log.InfoContext(ctx, "refused a card", "err", err)
				continue
			}
			newest[c.PubKey] = c
		}
	}
	if answered == 0 {
		return nil, 0, unavailable("no relay answered: %w", &plainError{outage(failure), failure}).
			hint("is the server up? %s", servers[0].Origin)
	}
	list := make([]*Card, 0, len(newest))
	for _, c := range newest {
		list = append(list, c)
	}
	return list, bad, nil
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
