package database_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// BenchmarkWrite compares rows per second of 1, 8 and 64 callers of Write with
// raw commits, one row each on one connection, of the same database in the
// same run: "x-raw" is how many times as many rows get written. The test
// server runs with fsync and synchronous_commit on, all else as in Debian.
func BenchmarkWrite(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "data", "parley.db")
		raw, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()+
			"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000&_txlock=immediate")
		if err != nil {
			b.Fatal(err)
		}
		benchmarkWrite(b, databasetest.OpenAt(b, path), raw)
	})
	b.Run("postgres", func(b *testing.B) {
		address := databasetest.NewPostgres(b)
		raw, err := sql.Open("pgx", address)
		if err != nil {
			b.Fatal(err)
		}
		benchmarkWrite(b, databasetest.OpenURL(b, address, database.Options{Writers: 64}), raw)
	})
}

func benchmarkWrite(b *testing.B, db *database.DB, raw *sql.DB) {
	b.Cleanup(func() { raw.Close() })
	if err := db.Migrate(b.Context(), "items", schema); err != nil {
		b.Fatal(err)
	}
	raw.SetMaxOpenConns(1)
	var id atomic.Int64
	next := func() database.Func {
		own := int(id.Add(1))
		return insert(own, strconv.Itoa(own))
	}
	var single float64
	b.Run("raw", func(b *testing.B) {
		for range b.N {
			if err := commitRaw(b.Context(), raw, next()); err != nil {
				b.Fatal(err)
			}
		}
		single = perRow(b)
	})
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var wait sync.WaitGroup
			for worker := range callers {
				wait.Go(func() {
					for n := worker; n < b.N; n += callers {
						if err := db.Write(context.Background(), next()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wait.Wait()
			if single > 0 {
				b.ReportMetric(single/perRow(b), "x-raw")
			}
		})
	}
}

func perRow(b *testing.B) float64 { return float64(b.Elapsed().Nanoseconds()) / float64(b.N) }

func commitRaw(ctx context.Context, pool *sql.DB, job database.Func) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := job(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
