package carrier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// Limits of a Contact, in code points.
const (
	MaxContactName = 100
	MaxContactNote = 1000
)

// Contact is an agent whose messages are acknowledged and processed.
type Contact struct {
	PubKey  string    `json:"pubkey"`   // 64 lowercase hex characters
	Name    string    `json:"name"`     // the owner's name for it, at most MaxContactName; need not be unique
	Note    string    `json:"note"`     // at most MaxContactNote
	AddedAt time.Time `json:"added_at"` // zero in AddContact means now
}

func (c *Contact) check() error {
	switch {
	case !canonical.IsHex(c.PubKey, 32):
		return errors.New("carrier: a contact needs a public key in lowercase hex")
	case !utf8.ValidString(c.Name) || utf8.RuneCountInString(c.Name) > MaxContactName:
		return fmt.Errorf("carrier: a contact's name has at most %d characters", MaxContactName)
	case !utf8.ValidString(c.Note) || utf8.RuneCountInString(c.Note) > MaxContactNote:
		return fmt.Errorf("carrier: a contact's note has at most %d characters", MaxContactNote)
	}
	return nil
}

// AddContact adds a contact, or gives a known one another name and note. What
// waits of it in the request box is acknowledged and processed.
func (e *Engine) AddContact(ctx context.Context, c Contact) error {
	return e.changeContact(ctx, func(ctx context.Context, tx *sql.Tx) ([]Change, error) { return e.addContact(ctx, tx, c) })
}

// AddContactTx is AddContact inside the caller's transaction, such as
// Handle's. Call Wake after its commit; Subscribe does not tell of it.
func (e *Engine) AddContactTx(ctx context.Context, tx *sql.Tx, c Contact) error {
	_, err := e.addContact(ctx, tx, c)
	return err
}

func (e *Engine) addContact(ctx context.Context, tx *sql.Tx, c Contact) ([]Change, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.AddedAt.IsZero() {
		c.AddedAt = e.now()
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_contacts (pubkey, name, note, added_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (pubkey) DO UPDATE SET name = excluded.name, note = excluded.note`, c.PubKey, c.Name, c.Note, c.AddedAt.Unix())
	if err != nil {
		return nil, err
	}
	changes, err := e.release(ctx, tx, c.PubKey)
	return append(changes, Change{Box: BoxContacts, Peer: c.PubKey}), err
}

// changeContact runs a change that may have released messages.
func (e *Engine) changeContact(ctx context.Context, change func(context.Context, *sql.Tx) ([]Change, error)) error {
	var changes []Change
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		changes, err = change(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	e.changes.send(changes...)
	wake(e.wakeIn)
	wake(e.wakeOut)
	return nil
}

// RemoveContact makes a stranger of a contact; its stored messages stay.
// ErrNotFound when it is none.
func (e *Engine) RemoveContact(ctx context.Context, pubkey string) error {
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM carrier_contacts WHERE pubkey = $1", pubkey)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return errors.Join(ErrNotFound, err)
		}
		return nil
	})
	if err == nil {
		e.changes.send(Change{Box: BoxContacts, Peer: pubkey})
	}
	return err
}

const contactColumns = "SELECT pubkey, name, note, added_at FROM carrier_contacts"

func scanContact(rows *sql.Rows) (c Contact, err error) {
	var added int64
	err = rows.Scan(&c.PubKey, &c.Name, &c.Note, &added)
	c.AddedAt = unixTime(added)
	return c, err
}

// Contact returns one contact, or ErrNotFound.
func (e *Engine) Contact(ctx context.Context, pubkey string) (Contact, error) {
	found, err := e.contacts(ctx, contactColumns+" WHERE pubkey = $1", pubkey)
	if err != nil {
		return Contact{}, err
	}
	if len(found) == 0 {
		return Contact{}, ErrNotFound
	}
	return found[0], nil
}

// Contacts lists all contacts by name, then by key.
func (e *Engine) Contacts(ctx context.Context) ([]Contact, error) {
	return e.contacts(ctx, contactColumns+" ORDER BY name, pubkey")
}

func (e *Engine) contacts(ctx context.Context, query string, args ...any) (found []Contact, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = scanAll(rows, scanContact)
		return err
	})
	return found, err
}

// IsContact reports, within a transaction, whether pubkey is a contact. The
// agent itself counts as one.
func (e *Engine) IsContact(ctx context.Context, tx *sql.Tx, pubkey string) (bool, error) {
	if pubkey == e.me {
		return true, nil
	}
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_contacts WHERE pubkey = $1", pubkey).Scan(&n)
	return n > 0, err
}
