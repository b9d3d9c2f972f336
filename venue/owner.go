package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/parleykit/parley/internal/database"
)

// ErrOtherVenue means that the database belongs to a venue with another key.
// Every agreement names its venue, so that this one could not go on with the
// rooms that are there.
var ErrOtherVenue = errors.New("the database belongs to another venue")

// claim makes the venue of a key the owner of a database, for good, unless one
// owns it already.
func claim(ctx context.Context, db *database.DB, pubkey string) error {
	var owner string
	err := db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO venue_key (one, pubkey) VALUES (1, $1) ON CONFLICT (one) DO NOTHING`, pubkey)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT pubkey FROM venue_key`).Scan(&owner)
	})
	switch {
	case err != nil:
		return fmt.Errorf("reading the owner of the database: %w", err)
	case owner != pubkey:
		return fmt.Errorf("%w, %s; the key here is %s: give this server the keys of that venue, or a database of its own",
			ErrOtherVenue, npub(owner), npub(pubkey))
	}
	return nil
}

// npub is how people see a key.
func npub(pubkey string) string {
	text, err := nip19.EncodePublicKey(pubkey)
	if err != nil {
		return pubkey
	}
	return text
}
