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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// benchCallers is the most callers, and PostgreSQL connections of each side.
const benchCallers = 64

// writing is a way to write one row.
type writing struct {
	name   string
	single bool // by one caller
	write  func(caller, id int) error
}

// BenchmarkWrite compares 1, 8 and 64 callers of Write with other ways to
// commit one row each to the same database, in turns: "x-" and a name is how
// many times as many rows Write stores. "single" is one connection that
// commits row after row; "concurrent" has as many callers and connections as
// Write and a BEGIN, a prepared INSERT and a COMMIT for each row, as pgbench
// does; "autocommit" is the same with the INSERT alone. The test server runs
// with fsync and synchronous_commit on.
func BenchmarkWrite(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "data", "parley.db")
		raw, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()+
			"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000&_txlock=immediate")
		if err != nil {
			b.Fatal(err)
		}
		benchmarkWrite(b, "sqlite:"+path, raw)
	})
	b.Run("postgres", func(b *testing.B) {
		address := databasetest.StartPostgres(b, "max_connections=200").URL("postgres")
		raw, err := sql.Open("pgx", address)
		if err != nil {
			b.Fatal(err)
		}
		var conns []*pgx.Conn
		for range benchCallers {
			conn, err := pgx.Connect(b.Context(), address)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(context.Background())
			conns = append(conns, conn)
		}
		benchmarkWrite(b, address, raw,
			writing{name: "concurrent", write: func(caller, id int) error {
				return pgx.BeginFunc(context.Background(), conns[caller], func(tx pgx.Tx) error { return insertPgx(tx, id) })
			}},
			writing{name: "autocommit", write: func(caller, id int) error { return insertPgx(conns[caller], id) }})
	})
}

func benchmarkWrite(b *testing.B, address string, raw *sql.DB, others ...writing) {
	defer raw.Close()
	raw.SetMaxOpenConns(1)
	registry := prometheus.NewRegistry()
	db := databasetest.OpenURL(b, address, database.Options{Writers: benchCallers, Registerer: registry})
	if err := db.Migrate(b.Context(), "items", schema); err != nil {
		b.Fatal(err)
	}
	others = append([]writing{{"single", true, func(_, id int) error {
		return commitRaw(context.Background(), raw, insert(id, strconv.Itoa(id)))
	}}}, others...)
	var ids atomic.Int64
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			own := writing{write: func(_, id int) error {
				return db.Write(context.Background(), insert(id, strconv.Itoa(id)))
			}}
			perRow := make([]time.Duration, len(others)) // of all turns together
			turns := 0
			before := commits(b, registry)
			for done, turn := 0, 100*callers; done < b.N; done += turn {
				turns++
				b.StopTimer()
				for i, other := range others {
					at := callers
					if other.single {
						at = 1
					}
					perRow[i] += other.rows(b, &ids, at, 50*at) / time.Duration(50*at)
				}
				b.StartTimer()
				own.rows(b, &ids, callers, min(turn, b.N-done))
			}
			took := float64(b.Elapsed()) / float64(b.N)
			for i, other := range others {
				b.ReportMetric(float64(perRow[i])/float64(turns)/took, "x-"+other.name)
			}
			b.ReportMetric(float64(b.N)/float64(commits(b, registry)-before), "rows/commit")
		})
	}
}

// rows writes n rows from a number of callers.
func (w writing) rows(b *testing.B, ids *atomic.Int64, callers, n int) time.Duration {
	var wait sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		wait.Go(func() {
			for i := caller; i < n; i += callers {
				if err := w.write(caller, int(ids.Add(1))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
	return time.Since(began)
}

// commits is how many commits the database has made.
func commits(b *testing.B, registry *prometheus.Registry) uint64 {
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "parley_database_commit_duration_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

func insertPgx(to interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}, id int,
) error {
	_, err := to.Exec(context.Background(), "INSERT INTO items (id, name) VALUES ($1, $2)", id, strconv.Itoa(id))
	return err
}

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
