package load

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
)

const (
	kindProfile = 0
	kindWrap    = 1059
	topics      = 50 // words that cards are spread over
)

// signed is one event ready to be sent.
type signed struct {
	id, author string
	frame      []byte // the EVENT message
}

// seal signs ev with the key.
func seal(ev nostr.Event, secret string) (signed, error) {
	if err := ev.Sign(secret); err != nil {
		return signed{}, fmt.Errorf("signing an event: %w", err)
	}
	return signed{id: ev.ID, author: ev.PubKey, frame: []byte(`["EVENT",` + ev.String() + `]`)}, nil
}

// topic is the word of card i.
func topic(i int) string { return "load-" + strconv.Itoa(i%topics) }

// newCard makes card i of a new key, of about a kilobyte.
func newCard(i int, now time.Time) (signed, error) {
	secret := nostr.GeneratePrivateKey()
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		return signed{}, fmt.Errorf("making a key: %w", err)
	}
	return sealCard(i, card.DefaultName, public, secret, now)
}

// sealCard makes card i of a key under a name.
func sealCard(i int, name, public, secret string, now time.Time) (signed, error) {
	c := card.Card{
		PubKey: public, Name: name, Alt: "Card of a load test. " + strings.Repeat("It is as long as cards are. ", 8),
		Expires: now.Add(24 * time.Hour).Truncate(time.Second),
		Carriers: []card.Carrier{
			{Scheme: card.SchemeNostr, Address: "wss://relay.example/"},
			{Scheme: card.SchemeHTTPS, Address: "https://agent.example/" + public[:16], Priority: 10},
		},
		Protocols: []string{"parley/1"}, Capabilities: []string{topic(i), "translate", "summarize"},
	}
	ev, err := c.Event(now)
	if err != nil {
		return signed{}, fmt.Errorf("making a card: %w", err)
	}
	return seal(ev, secret)
}

// newWrap makes a gift wrap of a new key for the recipient.
func newWrap(recipient string, at, now time.Time) (signed, error) {
	return seal(nostr.Event{
		Kind: kindWrap, CreatedAt: nostr.Timestamp(at.Unix()), Content: strings.Repeat("load", 200),
		Tags: nostr.Tags{{"p", recipient}, {"expiration", strconv.FormatInt(now.Add(24*time.Hour).Unix(), 10)}},
	}, nostr.GeneratePrivateKey())
}

// many makes n events on all processors.
func many(n int, make1 func(i int) (signed, error)) ([]signed, error) {
	out, errs := make([]signed, n), make([]error, runtime.NumCPU())
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				out[i], errs[w] = make1(i)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
