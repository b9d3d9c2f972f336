package merklelog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

const origin = "parley.example/receipts/log"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

// secret is a key that a word makes.
func secret(word string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(word))
	return ed25519.NewKeyFromSeed(seed[:])
}

func leaf(i int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return sum[:]
}

func newLog(t testing.TB, db *database.DB, change ...func(*merklelog.Options)) *merklelog.Log {
	t.Helper()
	o := merklelog.Options{DB: db, Origin: origin, Key: secret("log"), Now: at(noon)}
	for _, c := range change {
		c(&o)
	}
	l, err := merklelog.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// add appends entries in one transaction.
func add(t testing.TB, db *database.DB, l *merklelog.Log, leaves ...[]byte) {
	t.Helper()
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for _, leaf := range leaves {
			if err := l.Append(ctx, tx, leaf); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bulk appends many entries in one statement.
func bulk(t testing.TB, db *database.DB, name string, leaves [][]byte) {
	t.Helper()
	for part := range slices.Chunk(leaves, 1000) {
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			var query strings.Builder
			query.WriteString(`INSERT INTO merklelog_waiting (log, leaf) VALUES `)
			args := []any{name}
			for i, leaf := range part {
				if i > 0 {
					query.WriteByte(',')
				}
				fmt.Fprintf(&query, "((SELECT log FROM merklelog_logs WHERE origin = $1), $%d)", i+2)
				args = append(args, leaf)
			}
			_, err := tx.ExecContext(ctx, query.String(), args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// integrate makes one checkpoint of all that waits.
func integrate(t testing.TB, l *merklelog.Log) logproof.Checkpoint {
	t.Helper()
	c, _, err := l.Integrate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openCheckpoint(t testing.TB, l *merklelog.Log, witnesses ...logproof.Key) *logproof.Signed {
	t.Helper()
	note, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := logproof.Open(note, logproof.Policy{Log: l.Key(), Witnesses: witnesses})
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func index(t testing.TB, db *database.DB, l *merklelog.Log, leaf []byte) (i int64, err error) {
	t.Helper()
	err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		i, err = l.Index(ctx, tx, leaf)
		return err
	})
	return i, err
}

func exec(t testing.TB, db *database.DB, query string) {
	t.Helper()
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plain is the tree of golang.org/x/mod in memory.
type plain struct {
	hashes []tlog.Hash
	size   int64
}

func (m *plain) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, n := range indexes {
		out[i] = m.hashes[n]
	}
	return out, nil
}

func (m *plain) add(t testing.TB, leaf []byte) {
	t.Helper()
	more, err := tlog.StoredHashes(m.size, leaf, m)
	if err != nil {
		t.Fatal(err)
	}
	m.hashes = append(m.hashes, more...)
	m.size++
}

func (m *plain) checkpoint(t testing.TB) logproof.Checkpoint {
	t.Helper()
	root, err := tlog.TreeHash(m.size, m)
	if err != nil {
		t.Fatal(err)
	}
	return logproof.Checkpoint{Origin: origin, Size: m.size, Root: root}
}

// eachTwice runs a test for each kind of database with two processes' handles.
func eachTwice(t *testing.T, test func(t *testing.T, one, two *database.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "data", "parley.db")
		one := databasetest.OpenAt(t, path)
		test(t, one, databasetest.OpenAt(t, path))
	})
	t.Run("postgres", func(t *testing.T) {
		address := databasetest.NewPostgres(t)
		one := databasetest.OpenURL(t, address, database.Options{})
		test(t, one, databasetest.OpenURL(t, address, database.Options{}))
	})
}
