package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/idempotency"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/card"
)

// Migrate adds the agent's tables to a SQLite database, or brings them up to
// date, as New does.
func Migrate(ctx context.Context, db *database.DB) error {
	return errors.Join(idempotency.Migrate(ctx, db), db.Migrate(ctx, "agent", migrations))
}

// withPerson selects the rows of the rooms that a key is the venue, a
// participant or a delegate of.
const withPerson = `agreement_id IN (SELECT r.agreement_id FROM agent_rooms r
	WHERE r.venue = $1 OR EXISTS (SELECT 1 FROM json_each(CAST(r.revision AS TEXT), '$.participants') p
		WHERE $1 IN (p.value ->> 'pubkey', p.value ->> 'delegate')))`

const asRoom = "as long as the row in `agent_rooms`"

// Retention declares what an agent stores beside the delivery tables.
func Retention() []retention.Table {
	own := []retention.Table{
		{Name: "agent_settings", Holds: "the agent's own name, what its card says, the successions of its key, when it last asked its servers, the secret that ntfy topics are made from", Lifetime: "until the owner removes the home"},
		{Name: "agent_erasing", Holds: "ids of erased agreements whose files are still there", Lifetime: "until they are gone, the next start at the latest"},
		{Name: "agent_servers", Holds: "pinned servers and their keys", Lifetime: "until the owner removes the home"},
		{Name: "agent_carriers", Holds: "brokers and ntfy servers that the owner added, with the names of files that hold secrets", Lifetime: "until the owner removes them"},
	}
	return append(append(own, ofPersons()...), ofRooms()...)
}

// ofPersons are the tables about one other key each row.
func ofPersons() []retention.Table {
	return []retention.Table{
		{
			Name: "agent_cards", Holds: "the newest contact card seen of each key",
			Lifetime: "a contact's until an erase; others until 180 days after they were signed, when no older card is valid either", Person: "pubkey = $1",
		},
		{
			Name: "agent_contact_carriers", Holds: "where a contact said that it is reached",
			Lifetime: "as long as it is a contact", Person: "pubkey = $1",
		},
		{
			Name: "agent_introductions", Holds: "a hash of what a contact was told about the own addresses, and when",
			Lifetime: "as long as it is a contact", Person: "pubkey = $1",
		},
		{
			Name: "agent_texts", Holds: "received texts, in clear",
			Lifetime: "until an erase, or the owner removes the home", Person: "peer = $1",
		},
		{
			Name: "agent_refusals", Holds: "what failed a check, with its sender",
			Lifetime: "the newest thousand", Person: "sender = $1",
		},
		{
			Name: "agent_notices", Holds: "the live stream: what happened, by whom",
			Lifetime: "the newest thousand", Person: "peer = $1",
		},
	}
}

// ofRooms are the tables about agreements, that by which the others are found
// last.
func ofRooms() []retention.Table {
	return []retention.Table{
		{Name: "agent_events", Holds: "what each participant did and said, signed", Lifetime: asRoom, Person: withPerson},
		{Name: "agent_held", Holds: "events that came before the ones they follow", Lifetime: asRoom, Person: withPerson},
		{Name: "agent_commands", Holds: "what this agent asked of a venue", Lifetime: asRoom, Person: withPerson},
		{Name: "agent_artifacts", Holds: "the bundle of a closed agreement", Lifetime: asRoom, Person: withPerson},
		{
			Name: "agent_rooms", Holds: "agreements with the keys and labels of their participants",
			Lifetime: "until an erase with `--agreements`, or the owner removes the home", Person: withPerson,
		},
	}
}

// keysOfRequests is the table of idempotency keys as far as it is about texts to
// a person. It is found by the outbox.
var keysOfRequests = retention.Table{
	Name: "idempotency", Person: "response IN (SELECT message_id FROM carrier_outbox WHERE recipient = $1 AND type = 'text')",
}

// tracesOfRooms are the rows of other tables that are about a room; they go
// with it, whoever they name. What this agent still repeats to the venue is
// found by its commands.
func tracesOfRooms() []retention.Table {
	return []retention.Table{
		{Name: "agent_refusals", Person: withPerson},
		{Name: "agent_notices", Person: withPerson},
		{Name: "idempotency", Person: "response IN (SELECT message_id FROM agent_commands WHERE " + withPerson + ")"},
		{Name: "carrier_outbox", Person: "message_id IN (SELECT message_id FROM agent_commands WHERE " + withPerson + ")"},
	}
}

// forgetCards deletes the cards of strangers whose longest possible life is
// over. A card that is older than one of these has expired too, so that no
// server can bring it back.
func (a *Agent) forgetCards(ctx context.Context) error {
	keep, err := a.keptCards(ctx)
	if err != nil {
		return err
	}
	before := a.now().Add(-card.MaxLifetime).Unix()
	old, err := a.cardsBefore(ctx, before)
	if err != nil {
		return fmt.Errorf("looking for old cards: %w", err)
	}
	for _, pubkey := range old {
		if keep[pubkey] {
			continue
		}
		if err := exec(ctx, a.db, `DELETE FROM agent_cards WHERE pubkey = $1 AND created_at < $2`, pubkey, before); err != nil {
			return fmt.Errorf("forgetting a card: %w", err)
		}
	}
	return nil
}

// keptCards are the keys whose cards stay: the own ones, those of contacts, and
// those that contacts name as their successors.
func (a *Agent) keptCards(ctx context.Context) (map[string]bool, error) {
	keep, err := a.ownKeys(ctx)
	if err != nil {
		return nil, err
	}
	contacts, err := a.Contacts(ctx, Empty{})
	if err != nil {
		return nil, err
	}
	for _, c := range contacts.Contacts {
		keep[c.PubKey], keep[c.Moved] = true, true
	}
	return keep, nil
}

// ownKeys are the agent's key and those it had or will have.
func (a *Agent) ownKeys(ctx context.Context) (map[string]bool, error) {
	list, err := a.moves(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the own keys: %w", err)
	}
	own := map[string]bool{a.key.PublicKey(): true}
	for _, m := range list {
		own[m.Old], own[m.New] = true, true
	}
	return own, nil
}

// cardsBefore lists the keys with a card signed before a unix time.
func (a *Agent) cardsBefore(ctx context.Context, at int64) (list []string, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT DISTINCT pubkey FROM agent_cards WHERE created_at < $1`, at)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var pubkey string
			if err := rows.Scan(&pubkey); err != nil {
				return err
			}
			list = append(list, pubkey)
		}
		return rows.Err()
	})
	return list, err
}
