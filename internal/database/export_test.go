package database

import (
	"context"
	"database/sql"
	"runtime"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// WaitQueued returns once n jobs wait in the queue.
func WaitQueued(db *DB, n int) {
	for len(db.backend.(*sqlite).jobs) < n {
		runtime.Gosched()
	}
}

// Counted is the number of errors counted for a reason.
func Counted(db *DB, reason string) (float64, error) {
	counter, err := db.metrics.errors.GetMetricWithLabelValues(reason)
	if err != nil {
		return 0, err
	}
	return testutil.ToFloat64(counter), nil
}

// Reruns is how many batches ran again.
func Reruns(db *DB) float64 { return testutil.ToFloat64(db.metrics.reruns) }

// Pragma reads a pragma on every connection that each pool can open at once:
// first of the writer, then of the readers.
func Pragma(ctx context.Context, db *DB, name string) ([]string, error) {
	var values []string
	for _, pool := range []*sql.DB{db.backend.(*sqlite).writer, db.backend.(*sqlite).reader} {
		for range pool.Stats().MaxOpenConnections {
			conn, err := pool.Conn(ctx)
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			var value string
			if err := conn.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value); err != nil {
				return nil, err
			}
			values = append(values, value)
		}
	}
	return values, nil
}

// MaxStatements is how many statements a connection keeps prepared.
const MaxStatements = maxStatements

// Kept is how many statements the writer connection keeps prepared.
func Kept(ctx context.Context, db *DB) (n int, err error) {
	conn, err := db.backend.(*sqlite).writer.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return n, conn.Raw(func(raw any) error { n = len(raw.(*sqliteConn).kept); return nil })
}

// Connected tells whether notices of other processes arrive.
func Connected(db *DB) bool {
	db.hub.mu.Lock()
	defer db.hub.mu.Unlock()
	return db.hub.connected
}

// WaitListeners returns once n listeners are left.
func WaitListeners(db *DB, n int) {
	for {
		db.hub.mu.Lock()
		left := len(db.hub.listeners)
		db.hub.mu.Unlock()
		if left == n {
			return
		}
		runtime.Gosched()
	}
}

// Translate is the SQL of a migration as PostgreSQL gets it.
func Translate(text string) string { return string(translate([]byte(text))) }
