package carrier_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/message"
)

// personal makes one row about $1 in each table.
var personal = []string{
	"INSERT INTO carrier_contacts (pubkey, name, note, added_at) VALUES ($1, 'name', 'note', 1)",
	"INSERT INTO carrier_wraps (wrap_id, sender, message_id, keep_until) VALUES ('wrap of ' || CAST($1 AS TEXT), $1, 'm', 9)",
	`INSERT INTO carrier_inbox (sender, message_id, type, thread, scheme, state, reason, stranger, received_at, expires_at, keep_until, due_ms, attempts, size, message)
		VALUES ($1, 'm', 'text', 'thread', 'mem', 'done', '', FALSE, 1, 2, 9, 0, 1, 3, '{}')`,
	`INSERT INTO carrier_parts (sender, digest, part, total, deflate, wrap_id, stranger, received_at, slice)
		VALUES ($1, 'd', 0, 2, FALSE, 'w', FALSE, 1, 'slice')`,
	"INSERT INTO carrier_nacks (sender, digest, times, sent_at) VALUES ($1, 'd', 1, 1)",
	`INSERT INTO carrier_outbox (recipient, message_id, type, scheme, in_reply_to, state, reason, rounds, created_at, expires_at, keep_until, sent_ms, resend_ms, acked_at, message)
		VALUES ($1, 'm', 'text', '', '', 'acked', '', 1, 1, 2, 9, 1, 1, 1, '{}')`,
	"INSERT INTO carrier_outbox_wraps (outbox_seq, part, wrap_id, wrap) SELECT seq, 0, 'w', '{}' FROM carrier_outbox WHERE recipient = $1",
	`INSERT INTO carrier_deliveries (outbox_seq, scheme, address, state, reason, attempts, wraps, retry_ms)
		SELECT seq, 'mem', 'there', 'sent', '', 1, 1, 0 FROM carrier_outbox WHERE recipient = $1`,
	"INSERT INTO carrier_threads (recipient, thread, last_seq, keep_until) VALUES ($1, 'thread', 1, 9)",
	"INSERT INTO carrier_routes (recipient, scheme, address, worked_at) VALUES ($1, 'mem', 'there', 1)",
}

func insert(t *testing.T, db *database.DB, statement string, values ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, values...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// exported is what each table holds about a person.
func exported(t *testing.T, db *database.DB, person string) map[string]int {
	t.Helper()
	tables := make(map[string]int)
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return retention.Export(ctx, tx, carrier.Retention(), person, func(line []byte) error {
			tables[strings.Split(string(line), `"`)[3]]++
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestRetention_exportsAndErasesOnePersonFromEveryTable(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		if err := carrier.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		alice, bob := strings.Repeat("a", 64), strings.Repeat("b", 64)
		for _, person := range []string{alice, bob} {
			for _, statement := range personal {
				insert(t, db, statement, person)
			}
		}
		one := make(map[string]int)
		for _, table := range carrier.Retention() {
			if table.Person != "" {
				one[table.Name] = 1
			}
		}
		if diff := cmp.Diff(one, exported(t, db, alice)); diff != "" || len(one) != len(personal) {
			t.Fatalf("exported: %s", diff)
		}
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := retention.Erase(ctx, tx, carrier.Retention(), alice)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if left := exported(t, db, alice); len(left) > 0 {
			t.Errorf("left of the erased person: %v", left)
		}
		if diff := cmp.Diff(one, exported(t, db, bob)); diff != "" {
			t.Errorf("another person's rows: %s", diff)
		}
		var wraps int
		err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_wraps").Scan(&wraps)
		})
		if err != nil || wraps != 2 {
			t.Errorf("%d ids of wraps are left (%v), want both", wraps, err)
		}
	})
}

func TestEraseThreads_leavesOtherThreadsAndWhatIsStillUnderWay(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		if err := carrier.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		alice, bob := strings.Repeat("a", 64), strings.Repeat("b", 64)
		var threads []string
		for range 2 { // the second one is not erased
			m, err := message.New(message.TypeText, alice, bob, message.Text{Text: "hello"}, time.Now(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			threads = append(threads, m.Thread)
			data, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			for state, due := range map[string]any{"acked": nil, "sent": 7} {
				insert(t, db, `INSERT INTO carrier_outbox (recipient, message_id, type, scheme, in_reply_to, state, reason, rounds, created_at,
					expires_at, keep_until, sent_ms, resend_ms, acked_at, message, due_ms) VALUES ('b', $1, 'text', '', '', $2, '', 1, 1, 2, 9, 1, 1, 1, $3, $4)`,
					m.ID+state, state, data, due)
			}
			for _, state := range []string{"done", "pending"} {
				insert(t, db, `INSERT INTO carrier_inbox (sender, message_id, type, thread, scheme, state, reason, stranger, received_at, expires_at,
					keep_until, due_ms, attempts, size, message) VALUES ('b', $1, 'text', $2, 'mem', $3, '', FALSE, 1, 2, 9, 0, 1, 3, $4)`,
					m.ID+state, m.Thread, state, data)
			}
		}
		var removed int64
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			removed, err = carrier.EraseThreads(ctx, tx, threads[:1])
			return err
		})
		if err != nil || removed != 2 {
			t.Errorf("EraseThreads removed %d (%v), want 2", removed, err)
		}
		var left int
		err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM carrier_inbox) + (SELECT count(*) FROM carrier_outbox)`).Scan(&left)
		})
		if err != nil || left != 6 {
			t.Errorf("%d messages are left (%v), want 6", left, err)
		}
	})
}
