package carrier

import (
	"context"
	"database/sql"
	"encoding/hex"
	"time"
)

// framesLifetime is how long frames wait for the others.
const framesLifetime = 12 * time.Hour

// maxInlet bounds the name of an inlet, in bytes.
const maxInlet = 128

type inletKey struct{}

// WithInlet names the topic or connection that a carrier calls its Handler
// for. Frames have a budget for each inlet, so that one flooded topic does not
// cost another its frames.
func WithInlet(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, inletKey{}, name[:min(len(name), maxInlet)])
}

func inletOf(ctx context.Context) string {
	name, _ := ctx.Value(inletKey{}).(string)
	return name
}

// receiveFrame stores a frame, and when it completes a wrap receives that. The
// frames are dropped after the wrap is stored, and the cursor is not moved past
// the last one before, so that a crash between loses nothing.
func (e *Engine) receiveFrame(ctx context.Context, scheme string, data []byte, next Cursor) (string, error) {
	f, err := ParseFrame(data)
	if err != nil {
		e.logger.DebugContext(ctx, "frame refused", "scheme", scheme, "err", err)
		return resultFrameInvalid, nil
	}
	group := frameGroup{hex.EncodeToString(f.Wrap[:]), f.Total}
	var wrap []byte
	var evicted, conflicting int64
	err = e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		wrap, conflicting = nil, 0
		if evicted, err = e.keepFrame(ctx, tx, group, f, scheme, inletOf(ctx)); err != nil {
			return err
		}
		pieces, err := group.pieces(ctx, tx)
		if err != nil {
			return err
		}
		var tried int
		if wrap, tried = assemble(pieces, f.Wrap, f.Total); wrap != nil {
			return nil
		}
		if tried >= maxCombinations {
			if conflicting, err = group.drop(ctx, tx); err != nil {
				return err
			}
		}
		return saveCursor(ctx, tx, scheme, next)
	})
	if err != nil {
		return "", err
	}
	e.metrics.framesDropped.WithLabelValues(droppedEvicted).Add(float64(evicted))
	e.metrics.framesDropped.WithLabelValues(droppedConflict).Add(float64(conflicting))
	if wrap == nil {
		return resultFrame, nil
	}
	result, err := e.receive(ctx, scheme, wrap, next)
	if err != nil {
		return "", err
	}
	return result, e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := group.drop(ctx, tx)
		return err
	})
}

// frameGroup is all frames of one wrap. A frame that lies about the size of
// the wrap is in another group.
type frameGroup struct {
	wrap  string // hex
	total int
}

// maxVariants is how many contents of one range are kept.
const maxVariants = 2

// keepFrame stores a frame. Of one range two contents are kept, a third takes
// the place of the older. The frames of one wrap have at most twice its size
// together: beyond that all are
// forgotten and this one begins anew. A full inlet loses its oldest wrap.
func (e *Engine) keepFrame(ctx context.Context, tx *sql.Tx, g frameGroup, f Frame, scheme, inlet string) (evicted int64, err error) {
	var twice int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM carrier_frames
		WHERE wrap = $1 AND total = $2 AND start = $3 AND size = $4 AND payload = $5`, g.wrap, g.total, f.Offset, len(f.Payload), f.Payload).Scan(&twice)
	if err != nil || twice > 0 {
		return 0, err
	}
	var number, size int64
	err = tx.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) + 1, coalesce(sum(size), 0) FROM carrier_frames WHERE wrap = $1 AND total = $2",
		g.wrap, g.total).Scan(&number, &size)
	if err != nil {
		return 0, err
	}
	if size+int64(len(f.Payload)) > maxVariants*int64(g.total) {
		if evicted, err = g.drop(ctx, tx); err != nil {
			return 0, err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM carrier_frames WHERE wrap = $1 AND total = $2 AND start = $3 AND size = $4 AND number NOT IN
		(SELECT number FROM carrier_frames WHERE wrap = $1 AND total = $2 AND start = $3 AND size = $4 ORDER BY number DESC LIMIT $5)`,
		g.wrap, g.total, f.Offset, len(f.Payload), maxVariants-1)
	if err != nil {
		return evicted, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO carrier_frames (wrap, total, number, start, size, scheme, inlet, received_at, payload)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		g.wrap, g.total, number, f.Offset, len(f.Payload), scheme, inlet, e.now().Unix(), f.Payload)
	if err != nil {
		return evicted, err
	}
	more, err := e.evictFrames(ctx, tx, g, scheme, inlet)
	return evicted + more, err
}

// evictFrames keeps the inlet and its carrier within their budgets: the wraps
// that have waited longest lose their frames, this one last.
func (e *Engine) evictFrames(ctx context.Context, tx *sql.Tx, keep frameGroup, scheme, inlet string) (evicted int64, err error) {
	for _, budget := range []struct {
		size   int64
		any    bool // inlet
		frames int64
	}{{e.opts.Limits.InletFrameBytes, false, maxInletFrames}, {e.opts.Limits.FrameBytes, true, 4 * maxInletFrames}} {
		for {
			var size, n int64
			err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(size), 0), count(*) FROM carrier_frames
				WHERE scheme = $1 AND (inlet = $2 OR $3)`, scheme, inlet, budget.any).Scan(&size, &n)
			if err != nil {
				return evicted, err
			}
			if size <= budget.size && n <= budget.frames {
				break
			}
			var oldest frameGroup
			err = tx.QueryRowContext(ctx, `SELECT wrap, total FROM carrier_frames WHERE scheme = $1 AND (inlet = $2 OR $3)
				GROUP BY wrap, total ORDER BY CASE WHEN wrap = $4 AND total = $5 THEN 1 ELSE 0 END, min(received_at), wrap LIMIT 1`,
				scheme, inlet, budget.any, keep.wrap, keep.total).Scan(&oldest.wrap, &oldest.total)
			if err != nil {
				return evicted, err
			}
			dropped, err := oldest.drop(ctx, tx)
			if err != nil {
				return evicted, err
			}
			evicted += dropped
		}
	}
	return evicted, nil
}

// maxInletFrames bounds the frames of an inlet; a carrier has four times that.
const maxInletFrames = 4096

// pieces reads the frames, oldest first.
func (g frameGroup) pieces(ctx context.Context, tx *sql.Tx) ([]piece, error) {
	var size int64
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(size), 0) FROM carrier_frames WHERE wrap = $1 AND total = $2", g.wrap, g.total).Scan(&size)
	if err != nil || size < int64(g.total) {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT start, payload FROM carrier_frames WHERE wrap = $1 AND total = $2 ORDER BY number", g.wrap, g.total)
	if err != nil {
		return nil, err
	}
	return scanAll(rows, func(rows *sql.Rows) (p piece, err error) {
		err = rows.Scan(&p.from, &p.payload)
		return p, err
	})
}

func (g frameGroup) drop(ctx context.Context, tx *sql.Tx) (int64, error) {
	result, err := tx.ExecContext(ctx, "DELETE FROM carrier_frames WHERE wrap = $1 AND total = $2", g.wrap, g.total)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// expireFrames drops frames that waited too long.
func expireFrames(ctx context.Context, tx *sql.Tx, now time.Time) (int64, error) {
	result, err := tx.ExecContext(ctx, "DELETE FROM carrier_frames WHERE received_at <= $1", now.Add(-framesLifetime).Unix())
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
