package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/ntfybridge"
)

// settingTopics is the secret that topics of ntfy are made from, in base64url.
//
// It is made once, at random, and lies in the database like the texts that come
// by these topics: whoever reads one reads the other. It is not made from the
// agent's key, which is for signatures and changes, while the topics stay.
// Nothing shows or exports it. What is made from it about a contact is
// recognised by nobody once the contact is gone.
const settingTopics = "topics"

// maxTopicContacts bounds the contacts with topics of their own at ntfy
// servers, those added first: two topics each must fit one URL.
const maxTopicContacts = 100

// topicSecret reads the secret, or makes it.
func (a *Agent) topicSecret(ctx context.Context) ([]byte, error) {
	text, err := a.setting(ctx, settingTopics)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of topics: %w", err)
	}
	if text == "" {
		fresh := make([]byte, 32)
		rand.Read(fresh)
		// Of two that make it at once the first one's stays.
		err := exec(ctx, a.db, `INSERT INTO agent_settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`,
			settingTopics, base64.RawURLEncoding.EncodeToString(fresh))
		if err != nil {
			return nil, fmt.Errorf("storing the secret of topics: %w", err)
		}
		if text, err = a.setting(ctx, settingTopics); err != nil {
			return nil, fmt.Errorf("reading the secret of topics: %w", err)
		}
	}
	secret, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of topics: %w", err)
	}
	return secret, nil
}

// topicAt is where one contact writes to at an ntfy server in one epoch.
func topicAt(secret []byte, server, pubkey string, epoch int) string {
	return server + "/" + ntfybridge.Topic(secret, server+" "+pubkey, epoch)
}

// wakeUpAt is the topic for wake-ups at an ntfy server. It stands on the card
// and stays the same.
func wakeUpAt(secret []byte, server string) string { return topicAt(secret, server, "wake-up", 0) }

// withTopics are the contacts that get topics of their own: no venues, the
// first ones added.
func (l *link) withTopics(contacts []carrier.Contact) []carrier.Contact {
	people := slices.DeleteFunc(slices.Clone(contacts), func(c carrier.Contact) bool { return l.isVenue(c.PubKey) })
	slices.SortStableFunc(people, func(x, y carrier.Contact) int {
		return cmp.Or(x.AddedAt.Compare(y.AddedAt), cmp.Compare(x.PubKey, y.PubKey))
	})
	return people[:min(len(people), maxTopicContacts)]
}

// listenToTopics makes the link listen to the topics of all contacts: those of
// this epoch, and of the last, which who was away still uses.
func (a *Agent) listenToTopics(ctx context.Context, l *link) error {
	if l.ntfy == nil {
		return nil
	}
	contacts, err := l.engine.Contacts(ctx)
	if err != nil {
		return fmt.Errorf("reading contacts: %w", err)
	}
	secret, err := a.topicSecret(ctx)
	if err != nil {
		return err
	}
	var topics []string
	epoch := ntfybridge.Epoch(a.now())
	for _, c := range l.own {
		if c.Scheme != ntfybridge.Scheme {
			continue
		}
		topics = append(topics, topicAt(secret, c.Address, a.key.PublicKey(), epoch)) // for a look at oneself
		if c.OnCard {
			topics = append(topics, wakeUpAt(secret, c.Address))
		}
		for _, contact := range l.withTopics(contacts) {
			topics = append(topics, topicAt(secret, c.Address, contact.PubKey, epoch), topicAt(secret, c.Address, contact.PubKey, epoch-1))
		}
	}
	if err := l.ntfy.SetTopics(topics); err != nil {
		return fmt.Errorf("listening to topics: %w", err)
	}
	return nil
}
