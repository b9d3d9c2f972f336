package carrier

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"slices"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/message"
)

// Migrate adds the delivery engine's tables to a database, or brings them up to
// date, as New does.
func Migrate(ctx context.Context, db *database.DB) error {
	if err := db.Migrate(ctx, "carrier", migrations); err != nil {
		return err
	}
	dialect := "sqlite"
	if db.Path() == "" {
		dialect = "postgres"
	}
	files, err := fs.Sub(triggers, "triggers/"+dialect)
	if err != nil {
		return err
	}
	return db.Migrate(ctx, "carriertriggers", files)
}

// ofRecipient finds the rows that belong to a row of the outbox.
const ofRecipient = "outbox_seq IN (SELECT seq FROM carrier_outbox WHERE recipient = $1)"

// Retention declares what the delivery engine stores about the agents it
// writes to and hears from.
func Retention() []retention.Table {
	return []retention.Table{
		{
			Name: "carrier_contacts", Holds: "key, name and note of each contact",
			Lifetime: "until the contact is removed", Person: "pubkey = $1",
		},
		{Name: "carrier_cursors", Holds: "how far each carrier has been read", Lifetime: "for good; one row a carrier"},
		{
			Name: "carrier_wraps", Holds: "ids of received wraps with their sender, so that none is processed twice",
			Lifetime: "until three days after the message expired, 33 days at most; an erase empties the sender and lets the id stay",
			Person:   "sender = $1", Blank: "sender = '', message_id = ''",
		},
		{
			Name: "carrier_inbox", Holds: "received messages, opened",
			Lifetime: "until three days after the message expired, 33 days at most", Person: "sender = $1",
		},
		{
			Name: "carrier_parts", Holds: "parts of large messages that wait for the others, opened",
			Lifetime: "12 hours", Person: "sender = $1",
		},
		{Name: "carrier_frames", Holds: "pieces of sealed messages that wait for the others", Lifetime: "12 hours"},
		{
			Name: "carrier_nacks", Holds: "that parts of a sender's message were missing",
			Lifetime: "12 hours", Person: "sender = $1",
		},
		{
			Name: "carrier_outbox_wraps", Holds: "sent messages, sealed",
			Lifetime: "as long as the message in `carrier_outbox`", Person: ofRecipient,
		},
		{
			Name: "carrier_deliveries", Holds: "addresses at which a message was tried, and what came of it",
			Lifetime: "as long as the message in `carrier_outbox`", Person: ofRecipient,
		},
		{
			Name: "carrier_outbox", Holds: "sent messages, in clear",
			Lifetime: "30 days after the message expired, 60 days at most; acks three days after", Person: "recipient = $1",
		},
		{Name: "carrier_waiting", Holds: "how many messages wait to be sent, and how large they are", Lifetime: "for good; 64 rows at most"},
		{
			Name: "carrier_threads", Holds: "the number of the last message to a recipient in a thread",
			Lifetime: "30 days after the last message of the thread expired", Person: "recipient = $1",
		},
		{
			Name: "carrier_routes", Holds: "the address by which a recipient was last reached",
			Lifetime: "until an erase; one row a recipient", Person: "recipient = $1",
		},
	}
}

// EraseThreads deletes the stored messages of threads, whoever they are from
// or for, but for those that still wait to be delivered or processed: these
// are another's, and go when their time is over. It returns how many went.
func EraseThreads(ctx context.Context, tx *sql.Tx, threads []string) (removed int64, err error) {
	for _, thread := range threads {
		result, err := tx.ExecContext(ctx, "DELETE FROM carrier_inbox WHERE thread = $1 AND state <> 'pending'", thread)
		if err != nil {
			return 0, fmt.Errorf("erasing received messages: %w", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, fmt.Errorf("erasing received messages: %w", err)
		}
		removed += n
	}
	sent, err := sentInThreads(ctx, tx, threads)
	if err != nil {
		return 0, fmt.Errorf("erasing sent messages: %w", err)
	}
	for _, seq := range sent {
		if _, err := tx.ExecContext(ctx, "DELETE FROM carrier_outbox WHERE seq = $1", seq); err != nil {
			return 0, fmt.Errorf("erasing sent messages: %w", err)
		}
	}
	return removed + int64(len(sent)), nil
}

// sentInThreads finds the settled messages of threads in the outbox, which
// names a thread only inside the message.
func sentInThreads(ctx context.Context, tx *sql.Tx, threads []string) (found []int64, err error) {
	if len(threads) == 0 {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, "SELECT seq, message FROM carrier_outbox WHERE due_ms IS NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var data []byte
		if err := rows.Scan(&seq, &data); err != nil {
			return nil, err
		}
		if m, err := message.Parse(data); err == nil && slices.Contains(threads, m.Thread) {
			found = append(found, seq)
		}
	}
	return found, rows.Err()
}
