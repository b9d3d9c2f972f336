package merklelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// tileHeight is 8 in C2SP tlog-tiles: 256 hashes a tile.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

type place struct {
	level int
	n     int64
}

// tiles are the tiles of a log inside one transaction, kept once they were
// read. They are a tlog.HashReader that believes the database, and a
// tlog.TileReader for a reader that does not.
type tiles struct {
	ctx     context.Context
	tx      *sql.Tx
	log     int64
	held    map[place][]byte
	changed map[place]bool
}

func (l *Log) tiles(ctx context.Context, tx *sql.Tx) *tiles {
	return &tiles{ctx: ctx, tx: tx, log: l.id, held: make(map[place][]byte), changed: make(map[place]bool)}
}

// read gives the hashes of a tile, none when it is not there.
func (t *tiles) read(at place) ([]byte, error) {
	if data, found := t.held[at]; found {
		return data, nil
	}
	var data []byte
	err := t.tx.QueryRowContext(t.ctx, `SELECT hashes FROM merklelog_tiles WHERE log = $1 AND level = $2 AND n = $3`,
		t.log, at.level, at.n).Scan(&data)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading tile: %w", err)
	}
	t.held[at] = data
	return data, nil
}

// first gives the first hashes of a tile, which must be there.
func (t *tiles) first(at place, width int) ([]byte, error) {
	data, err := t.read(at)
	if err == nil && len(data) < width*tlog.HashSize {
		err = fmt.Errorf("%w: tile %d/%d has %d bytes", ErrBroken, at.level, at.n, len(data))
	}
	if err != nil {
		return nil, err
	}
	return data[:width*tlog.HashSize], nil
}

// append adds hashes to a level that has at hashes, and to the levels above
// the tiles that become full.
func (t *tiles) append(level int, at int64, hashes []tlog.Hash) error {
	above := at >> tileHeight
	var full []tlog.Hash
	for len(hashes) > 0 {
		tile, width := place{level, at >> tileHeight}, int(at%tileWidth)
		data, err := t.read(tile)
		if err != nil {
			return err
		}
		if len(data) != width*tlog.HashSize {
			return fmt.Errorf("%w: tile %d/%d has %d bytes", ErrBroken, level, tile.n, len(data))
		}
		more := min(tileWidth-width, len(hashes))
		for _, h := range hashes[:more] {
			data = append(data, h[:]...)
		}
		t.held[tile], t.changed[tile] = data, true
		if at, hashes = at+int64(more), hashes[more:]; at%tileWidth == 0 {
			full = append(full, rootOf(data))
		}
	}
	if len(full) == 0 {
		return nil
	}
	return t.append(level+1, above, full)
}

// rootOf hashes a full tile.
func rootOf(data []byte) tlog.Hash {
	row := make([]tlog.Hash, len(data)/tlog.HashSize)
	for i := range row {
		copy(row[i][:], data[i*tlog.HashSize:])
	}
	for ; len(row) > 1; row = row[:len(row)/2] {
		for i := range len(row) / 2 {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
	}
	return row[0]
}

// save stores what append changed.
func (t *tiles) save() error {
	for at := range t.changed {
		_, err := t.tx.ExecContext(t.ctx, `INSERT INTO merklelog_tiles (log, level, n, hashes) VALUES ($1, $2, $3, $4)
			ON CONFLICT (log, level, n) DO UPDATE SET hashes = excluded.hashes`, t.log, at.level, at.n, t.held[at])
		if err != nil {
			return fmt.Errorf("storing tile: %w", err)
		}
	}
	return nil
}

// ReadHashes implements tlog.HashReader.
func (t *tiles) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		tile := tlog.TileForIndex(tileHeight, index)
		data, err := t.first(place{tile.L, tile.N}, tile.W)
		if err == nil {
			hashes[i], err = tlog.HashFromTile(tile, data, index)
		}
		if err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// Height implements tlog.TileReader.
func (t *tiles) Height() int { return tileHeight }

// ReadTiles implements tlog.TileReader.
func (t *tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(wanted))
	for i, tile := range wanted {
		var err error
		if data[i], err = t.first(place{tile.L, tile.N}, tile.W); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// SaveTiles implements tlog.TileReader.
func (t *tiles) SaveTiles([]tlog.Tile, [][]byte) {}
