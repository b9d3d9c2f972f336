package carrier

import (
	"context"
	"database/sql"
	"encoding/hex"
	"time"

	"github.com/parleykit/parley/internal/database"
)

// Assembler puts frames together for who has no Engine, such as a bridge: durably, by
// the same rules and within the same budgets.
type Assembler struct{ frames *Engine }

// NewAssembler makes an Assembler and its table.
func NewAssembler(ctx context.Context, db *database.DB, now func() time.Time) (*Assembler, error) {
	if err := Migrate(ctx, db); err != nil {
		return nil, err
	}
	opts := Options{Now: now}
	opts.setDefaults()
	return &Assembler{&Engine{db: db, opts: opts, now: opts.Now}}, nil
}

// Add stores one frame within the caller's transaction, in the budget of a scheme and
// of the inlet in ctx, and returns the wrap that it completes, nil for none. What is
// no frame is an ErrFrame.
func (a *Assembler) Add(ctx context.Context, tx *sql.Tx, scheme string, data []byte) (wrap []byte, err error) {
	f, err := ParseFrame(data)
	if err != nil {
		return nil, err
	}
	group := frameGroup{hex.EncodeToString(f.Wrap[:]), f.Total}
	if _, err := a.frames.keepFrame(ctx, tx, group, f, scheme, inletOf(ctx)); err != nil {
		return nil, err
	}
	pieces, err := group.pieces(ctx, tx)
	if err != nil {
		return nil, err
	}
	wrap, tried := assemble(pieces, f.Wrap, f.Total)
	if wrap != nil || tried >= maxCombinations {
		_, err = group.drop(ctx, tx)
	}
	return wrap, err
}

// Expire drops frames that waited too long.
func (a *Assembler) Expire(ctx context.Context, tx *sql.Tx) error {
	_, err := expireFrames(ctx, tx, a.frames.now())
	return err
}
