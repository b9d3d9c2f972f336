package merklelog_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

var rawTable = fstest.MapFS{"00001_raw.sql": {Data: []byte(`-- +goose Up
CREATE TABLE raw (id BIGINT PRIMARY KEY, data BLOB NOT NULL);
`)}}

// eachBench runs a benchmark for each kind of database.
func eachBench(b *testing.B, bench func(b *testing.B, db *database.DB)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, databasetest.Open(b)) })
	b.Run("postgres", func(b *testing.B) {
		address := databasetest.StartPostgres(b, "max_connections=200").URL("postgres")
		bench(b, databasetest.OpenURL(b, address, database.Options{Writers: 64}))
	})
}

// BenchmarkAppend appends one entry a transaction from 1, 8 and 64 callers,
// while Run makes checkpoints, in turns with inserts of one row of 32 bytes by
// as many callers. "x-raw" is how many times as many entries as rows are
// stored in the same time. Every commit of both is synced.
func BenchmarkAppend(b *testing.B) {
	eachBench(b, func(b *testing.B, db *database.DB) {
		if err := db.Migrate(b.Context(), "raw", rawTable); err != nil {
			b.Fatal(err)
		}
		l := newLog(b, db)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		var ids atomic.Int64
		entry := func(ctx context.Context, tx *sql.Tx) error { return l.Append(ctx, tx, leaf(int(ids.Add(1)))) }
		row := func(ctx context.Context, tx *sql.Tx) error {
			id := ids.Add(1)
			_, err := tx.ExecContext(ctx, `INSERT INTO raw (id, data) VALUES ($1, $2)`, id, leaf(int(id)))
			return err
		}
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
				var raw time.Duration
				turns := 0
				for done, turn := 0, 50*callers; done < b.N; done += turn {
					turns++
					b.StopTimer()
					raw += write(b, db, row, callers, turn) / time.Duration(turn)
					b.StartTimer()
					write(b, db, entry, callers, min(turn, b.N-done))
					l.Wake()
				}
				perRow := float64(raw) / float64(turns)
				b.ReportMetric(perRow/(float64(b.Elapsed())/float64(b.N)), "x-raw")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(1e9/perRow, "rows/s")
			})
		}
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}

// write runs a job n times in transactions of its own, from many callers.
func write(b *testing.B, db *database.DB, job database.Func, callers, n int) time.Duration {
	var wait sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		wait.Go(func() {
			for i := caller; i < n; i += callers {
				if err := db.Write(context.Background(), job); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
	return time.Since(began)
}

// million is the size of the log of BenchmarkProof.
const million = 1_000_000

// BenchmarkProof proves entries of a log of a million entries, each proof read
// from the database and held against the signed root, and verifies them.
func BenchmarkProof(b *testing.B) {
	eachBench(b, func(b *testing.B, db *database.DB) {
		l := newLog(b, db)
		began := time.Now()
		fill(b, db, l)
		b.Logf("%d entries in %v", million, time.Since(began))
		policy := logproof.Policy{Log: l.Key()}
		var proof string
		b.Run("make", func(b *testing.B) {
			for i := range b.N {
				p, err := l.Proof(b.Context(), leaf(i*7919%million))
				if err != nil {
					b.Fatal(err)
				}
				proof = p.String()
			}
			b.ReportMetric(float64(len(proof)), "bytes")
		})
		b.Run("verify", func(b *testing.B) {
			p, err := l.Proof(b.Context(), leaf(7919))
			if err != nil {
				b.Fatal(err)
			}
			proof = p.String()
			for range b.N {
				if _, err := logproof.Verify(leaf(7919), proof, policy); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func fill(b *testing.B, db *database.DB, l *merklelog.Log) {
	for first := 0; first < million; first += 50_000 {
		leaves := make([][]byte, 50_000)
		for i := range leaves {
			leaves[i] = leaf(first + i)
		}
		bulk(b, db, origin, leaves)
		if err := l.CatchUp(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
