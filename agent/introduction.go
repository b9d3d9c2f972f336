package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/message"
)

// introductionLifetime is how long word of the own addresses may travel, and
// after how long it is given again: a contact may have been away all the time,
// or have lost its home.
const introductionLifetime = message.MaxLifetime

// introduction is what a contact was told last.
type introduction struct {
	digest string
	toldAt time.Time
}

// introduce tells every contact where this agent is reached (contact.carriers),
// unless it was told that already, and listens there. It says nothing while
// there is nothing to say that the card does not.
func (a *Agent) introduce(ctx context.Context) error {
	l, err := a.current()
	if err != nil {
		return err
	}
	if err := a.listenToTopics(ctx, l); err != nil {
		return err
	}
	known, err := a.introductions(ctx)
	if err != nil {
		return err
	}
	if !l.tellsMore() && len(known) == 0 {
		return nil
	}
	contacts, err := l.engine.Contacts(ctx)
	if err != nil {
		return fmt.Errorf("reading contacts: %w", err)
	}
	told := false
	for _, c := range contacts {
		if l.isVenue(c.PubKey) {
			continue // a venue is no person and answers where it was asked
		}
		done, err := a.introduceTo(ctx, l, c, known[c.PubKey], contacts)
		if err != nil {
			return err
		}
		told = told || done
	}
	if told && a.isWorking() {
		l.engine.Wake()
	}
	return nil
}

// tellsMore reports whether there is an address that the card does not name.
func (l *link) tellsMore() bool {
	return slices.ContainsFunc(l.own, func(c OwnCarrier) bool { return !c.OnCard || c.Scheme == ntfybridge.Scheme })
}

// introduceTo tells one contact, if there is news for it.
func (a *Agent) introduceTo(ctx context.Context, l *link, c carrier.Contact, last introduction, all []carrier.Contact) (bool, error) {
	body := message.ContactCarriers{Carriers: []message.Carrier{}}
	var err error
	if l.tellsMore() {
		isListened := slices.ContainsFunc(l.withTopics(all), func(one carrier.Contact) bool { return one.PubKey == c.PubKey })
		if body.Carriers, err = a.addressesFor(ctx, l.own, c.PubKey, isListened); err != nil {
			return false, err
		}
	}
	data, err := canonical.Marshal(body)
	if err != nil {
		return false, fmt.Errorf("encoding the own addresses: %w", err)
	}
	digest := canonical.Digest(append([]byte(a.key.PublicKey()+"\n"), data...))
	nothing := len(body.Carriers) == 0
	switch {
	case nothing && last.digest == "":
		return false, nil
	case digest == last.digest && (nothing || a.now().Before(last.toldAt.Add(introductionLifetime))):
		return false, nil
	}
	m, err := message.New(message.TypeContactCarriers, a.key.PublicKey(), c.PubKey, body, a.now(), introductionLifetime)
	if err != nil {
		return false, fmt.Errorf("telling the own addresses: %w", err)
	}
	err = a.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO agent_introductions (pubkey, digest, told_at) VALUES ($1, $2, $3)
			ON CONFLICT (pubkey) DO UPDATE SET digest = excluded.digest, told_at = excluded.told_at`, c.PubKey, digest, a.now().Unix())
		if err != nil {
			return err
		}
		return a.sendTx(ctx, tx, m)
	})
	if err != nil {
		return false, fmt.Errorf("telling the own addresses: %w", err)
	}
	return true, nil
}

// addressesFor are the own addresses for one contact, the best first, with a
// topic of its own at each ntfy server.
func (a *Agent) addressesFor(ctx context.Context, own []OwnCarrier, pubkey string, isListened bool) ([]message.Carrier, error) {
	list := []message.Carrier{}
	for _, c := range own {
		address := c.Address
		if c.Scheme == ntfybridge.Scheme {
			if !isListened {
				continue
			}
			secret, err := a.topicSecret(ctx)
			if err != nil {
				return nil, err
			}
			address = topicAt(secret, c.Address, pubkey, ntfybridge.Epoch(a.now()))
		}
		list = append(list, message.Carrier{Scheme: c.Scheme, Address: address, Priority: len(list)})
	}
	return list[:min(len(list), message.MaxCarriers)], nil
}

func (a *Agent) introductions(ctx context.Context) (map[string]introduction, error) {
	known := make(map[string]introduction)
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT pubkey, digest, told_at FROM agent_introductions`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var pubkey string
			var one introduction
			var at int64
			if err := rows.Scan(&pubkey, &one.digest, &at); err != nil {
				return err
			}
			one.toldAt = time.Unix(at, 0)
			known[pubkey] = one
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("reading what contacts were told: %w", err)
	}
	return known, nil
}

// takeCarriers stores where a contact says that it is reached, in place of what
// it said before. What of it cannot be used is left out.
func (a *Agent) takeCarriers(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.ContactCarriers
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	l, err := a.current()
	if err != nil {
		return err
	}
	isContact, err := l.engine.IsContact(ctx, tx, m.From)
	if err != nil {
		return fmt.Errorf("looking up a contact: %w", err)
	}
	if !isContact || m.From == a.key.PublicKey() {
		a.log.InfoContext(ctx, "addresses of who is no contact are not kept", "sender", m.From)
		return nil
	}
	usable := []message.Carrier{}
	for _, c := range body.Carriers {
		if err := checkCarrier(c); err != nil {
			a.log.InfoContext(ctx, "an address of a contact is of no use", "sender", m.From, "scheme", c.Scheme, "err", err)
			continue
		}
		usable = append(usable, c)
	}
	text, err := json.Marshal(usable)
	if err != nil {
		return fmt.Errorf("encoding addresses: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO agent_contact_carriers (pubkey, carriers, sent_at, message_id) VALUES ($1, $2, $3, $4)
		ON CONFLICT (pubkey) DO UPDATE SET carriers = excluded.carriers, sent_at = excluded.sent_at, message_id = excluded.message_id
		WHERE (excluded.sent_at, excluded.message_id) > (agent_contact_carriers.sent_at, agent_contact_carriers.message_id)`,
		m.From, string(text), m.SentAt.Unix(), m.ID)
	if err != nil {
		return fmt.Errorf("storing addresses: %w", err)
	}
	return nil
}

// errScheme means a carrier that agents do not know.
var errScheme = errors.New("agent: unknown scheme")

// checkCarrier holds an address that a contact named to the rules of its
// scheme. It is no permission to connect: the carriers ask egress.
func checkCarrier(c message.Carrier) (err error) {
	switch c.Scheme {
	case nostr.Scheme:
		_, err = nostr.ParseAddress(c.Address)
	case https.Scheme:
		_, err = https.ParseAddress(c.Address)
	case mqttbridge.Scheme:
		_, err = mqttbridge.ParseAddress(c.Address)
	case ntfybridge.Scheme:
		_, err = ntfybridge.ParseAddress(c.Address)
	default:
		err = errScheme
	}
	return err
}

// told is where a contact said that it is reached, the best first.
func (a *Agent) told(ctx context.Context, pubkey string) ([]carrier.Address, error) {
	var text string
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT carriers FROM agent_contact_carriers WHERE pubkey = $1`, pubkey).Scan(&text)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading addresses: %w", err)
	}
	var list []carrier.Address
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("reading addresses: %w", err)
	}
	return list, nil
}

// merge puts what a contact told first and its card's addresses after them. A
// topic of ntfy on a card is for wake-ups: no envelope goes there.
func merge(told, onCard []carrier.Address) []carrier.Address {
	list := slices.Clone(told)
	for _, c := range onCard {
		same := func(known carrier.Address) bool { return known.Scheme == c.Scheme && known.Address == c.Address }
		if c.Scheme == card.SchemeNtfy || slices.ContainsFunc(list, same) {
			continue
		}
		c.Priority += message.MaxPriority + 1
		list = append(list, c)
	}
	return list
}

// dropAddresses forgets what a key told and was told.
func (a *Agent) dropAddresses(ctx context.Context, pubkey string) error {
	err := a.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM agent_contact_carriers WHERE pubkey = $1`, pubkey)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM agent_introductions WHERE pubkey = $1`, pubkey)
		return err
	})
	if err != nil {
		return fmt.Errorf("forgetting addresses: %w", err)
	}
	return nil
}
