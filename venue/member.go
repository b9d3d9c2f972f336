package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
)

// member is one key that acts in a room: a participant's own or its delegate's.
type member struct {
	pubkey      string
	participant string
}

// membersOf lists the keys of a roster in its order.
func membersOf(a *agreement.Agreement) (members []member) {
	for _, p := range a.Participants {
		for _, key := range []string{p.PubKey, p.Delegate} {
			if key != "" {
				members = append(members, member{key, p.ID})
			}
		}
	}
	return members
}

// members reads the keys of a stored room.
func (store) members(ctx context.Context, tx *sql.Tx, id string) (keys []string, err error) {
	rows, err := tx.QueryContext(ctx,
		`SELECT pubkey FROM venue_members WHERE agreement = $1 ORDER BY participant, pubkey`, id)
	if err != nil {
		return nil, fmt.Errorf("reading members: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("reading members: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// participant finds which participant of a room a key acts for; empty when the
// key has no part in it or there is no such room.
func (store) participant(ctx context.Context, tx *sql.Tx, id, pubkey string) (participant string, err error) {
	row := tx.QueryRowContext(ctx,
		`SELECT participant FROM venue_members WHERE pubkey = $1 AND agreement = $2`, pubkey, id)
	if err := row.Scan(&participant); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading member: %w", err)
	}
	return participant, nil
}

// belongs tells whether a key acts in any room.
func (store) belongs(ctx context.Context, tx *sql.Tx, pubkey string) (bool, error) {
	var one int
	row := tx.QueryRowContext(ctx, `SELECT 1 FROM venue_members WHERE pubkey = $1 LIMIT 1`, pubkey)
	switch err := row.Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading member: %w", err)
	}
	return true, nil
}

// IsMember tells the delivery engine (carrier.Options.IsMember) whether m is a
// command or query of a key that acts in some room here. Such a message is
// acknowledged and answered like a contact's; whether the key has a part in
// the very room that m names is decided, and not revealed, by its handling.
func (v *Venue) IsMember(ctx context.Context, tx *sql.Tx, pubkey string, m *message.Message) bool {
	if m.Type != message.TypeAgreementCommand && m.Type != message.TypeAgreementQuery {
		return false
	}
	belongs, err := v.store.belongs(ctx, tx, pubkey)
	if err != nil {
		v.logger.ErrorContext(ctx, "membership not read", "err", err)
	}
	return belongs
}
