package bridge

import (
	"context"
	"embed"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/retention"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate adds the tables of bridges to a database, or brings them up to date.
func Migrate(ctx context.Context, db *database.DB) error {
	return db.Migrate(ctx, "bridge", migrations)
}

// Retention declares what bridges store.
func Retention() []retention.Table {
	return []retention.Table{
		{
			Name: "bridge_items", Holds: "signed events that wait for the other side of a bridge, and ids of those that were moved",
			Lifetime: "the event until it is moved, the id until three days after it expired, 35 days at most", Person: "lane = $1",
			Blank: "lane = '', event = '', state = 'dead'",
		},
		{Name: "bridge_cards", Holds: "which version of each public card was moved last", Lifetime: "180 days after the card was made", Person: "pubkey = $1"},
		{Name: "bridge_cursors", Holds: "how far each side of a bridge has been read", Lifetime: "for good; two rows a bridge"},
		{Name: "bridge_leases", Holds: "which process runs a bridge", Lifetime: "for good; one row a bridge"},
	}
}
