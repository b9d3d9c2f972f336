package merklelog

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/internal/httpserver"
)

// maxPathLength bounds the path of a tile below the log's prefix.
const maxPathLength = 64

// forever is for answers that cannot change.
const forever = "public, max-age=31536000, immutable"

// entriesLevel is the level that tlog gives to the tiles of entries.
const entriesLevel = -1

// ServeCheckpoint answers GET <prefix>/checkpoint of C2SP tlog-tiles.
func (l *Log) ServeCheckpoint(w http.ResponseWriter, r *http.Request) {
	signed, err := l.Checkpoint(r.Context())
	if err != nil {
		l.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write([]byte(signed))
}

// ServeTile answers GET <prefix>/tile/… of C2SP tlog-tiles: hashes, and below
// tile/entries/ entries. path is what follows the prefix and a slash, such as
// "tile/0/x001/234.p/5".
func (l *Log) ServeTile(w http.ResponseWriter, r *http.Request, path string) {
	tile, err := parseTile(path)
	if err != nil {
		httpserver.Problem(w, r, http.StatusNotFound, "not_found", "This is no path of a tile.")
		return
	}
	data, err := l.Tile(r.Context(), tile)
	if err != nil {
		l.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", forever)
	_, _ = w.Write(data)
}

func (l *Log) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrUnknown) {
		httpserver.Problem(w, r, http.StatusNotFound, "not_found", "The log does not have this.")
		return
	}
	l.opts.Logger.ErrorContext(r.Context(), "log not served", "err", err)
	httpserver.Problem(w, r, http.StatusServiceUnavailable, "unavailable", "The log cannot be read now.")
}

// parseTile reads a path of C2SP tlog-tiles, which is that of the Go checksum
// database without the height and with another word for entries.
func parseTile(path string) (tlog.Tile, error) {
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok || len(path) > maxPathLength {
		return tlog.Tile{}, fmt.Errorf("%w: tile path", ErrInvalid)
	}
	if entries, ok := strings.CutPrefix(rest, "entries/"); ok {
		rest = "data/" + entries
	} else if strings.HasPrefix(rest, "data/") {
		return tlog.Tile{}, fmt.Errorf("%w: tile path", ErrInvalid)
	}
	tile, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", tileHeight, rest))
	if err != nil {
		return tlog.Tile{}, fmt.Errorf("%w: tile path", ErrInvalid)
	}
	return tile, nil
}

// Tile gives W hashes of the tile N on level L or, on level -1, entries with
// their length before each. ErrUnknown when the newest checkpoint does not
// cover them all.
func (l *Log) Tile(ctx context.Context, tile tlog.Tile) (data []byte, err error) {
	err = l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		c, err := l.newest(ctx, tx)
		if err != nil {
			return err
		}
		first := tile.N << tileHeight
		if first < 0 || first>>tileHeight != tile.N || first+int64(tile.W) > c.Size>>(tileHeight*max(tile.L, 0)) {
			return fmt.Errorf("%w: tile", ErrUnknown)
		}
		if tile.L == entriesLevel {
			data, err = l.entries(ctx, tx, first, tile.W)
		} else {
			data, err = l.tiles(ctx, tx).first(place{tile.L, tile.N}, tile.W)
		}
		return err
	})
	return data, err
}

// entries gives n entries, each after its length in two bytes.
func (l *Log) entries(ctx context.Context, tx *sql.Tx, first int64, n int) ([]byte, error) {
	rows, err := tx.QueryContext(ctx, `SELECT leaf FROM merklelog_leaves
		WHERE log = $1 AND idx >= $2 AND idx < $3 ORDER BY idx`, l.id, first, first+int64(n))
	if err != nil {
		return nil, fmt.Errorf("reading log entries: %w", err)
	}
	defer rows.Close()
	var data []byte
	for rows.Next() {
		var leaf []byte
		if err := rows.Scan(&leaf); err != nil {
			return nil, fmt.Errorf("reading log entries: %w", err)
		}
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(leaf))), leaf...)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading log entries: %w", err)
	}
	if len(data) != n*(2+LeafSize) {
		return nil, fmt.Errorf("%w: %d entries from %d on", ErrBroken, len(data)/(2+LeafSize), first)
	}
	return data, nil
}
