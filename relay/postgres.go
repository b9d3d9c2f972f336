package relay

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jackc/puddle/v2"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	postgresConns   = 16               // unless the address has pool_max_conns
	postgresDial    = 10 * time.Second // for one connection
	postgresTimeout = 30 * time.Second // of one transaction
	postgresRetries = 3                // of a transaction that lost against another one
)

//go:embed migrations/*.sql
var migrations embed.FS

// PostgresOptions configures OpenPostgres; the zero value is usable.
type PostgresOptions struct {
	// PasswordFile holds the password of the user in the address, read again
	// for each connection. Empty means the address, PGPASSFILE or none.
	PasswordFile string
	Logger       *slog.Logger // nil discards
}

// postgresStore is the Store in a PostgreSQL database. Several processes may
// share it.
type postgresStore struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	opts   PostgresOptions
	known  *knownIDs // written or followed by this process
	closed atomic.Bool

	horizon string // transaction; touched by Follow only once the store is open
}

// OpenPostgres opens, and migrates, the relay's tables in the PostgreSQL
// database of the address (postgres://user@host/database, version 13 or
// later). Any number of processes may hold it open; each sees the events of
// the others (SharedStore). The tables are found by the search_path. The
// address needs sessions of its own: a pooler that shares them between
// transactions loses LISTEN.
//
// Commits wait for the server's disk, also where the server's setting is
// synchronous_commit = off; whether that disk keeps its word is its setting
// fsync. While the server is away
// the methods return errors; they work again when it is back.
func OpenPostgres(ctx context.Context, address string, o PostgresOptions) (SharedStore, error) {
	s, err := openPostgres(ctx, address, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openPostgres(ctx context.Context, address string, o PostgresOptions) (*postgresStore, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("opening event store: the PostgreSQL address is not valid") // err may quote a password
	}
	if !strings.Contains(address, "pool_max_conns") {
		cfg.MaxConns = postgresConns
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "parley relay"
	cfg.ConnConfig.ConnectTimeout = postgresDial
	if cfg.ConnConfig.ValidateConnect == nil { // after a failover the old server may live on as a standby
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cfg.BeforeConnect, cfg.AfterConnect = o.authenticate, prepare
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening event store: %w", err)
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening event store: %w", err)
	}
	s := &postgresStore{pool: pool, log: o.Logger, opts: o, known: newKnownIDs(maxKnown)}
	if err := pool.QueryRow(ctx, horizonSQL).Scan(&s.horizon); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening event store: %w", err)
	}
	return s, nil
}

// authenticate reads the password for a new connection.
func (o PostgresOptions) authenticate(_ context.Context, cfg *pgx.ConnConfig) error {
	if o.PasswordFile == "" {
		return nil
	}
	password, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return fmt.Errorf("reading database password: %w", err)
	}
	cfg.Password = strings.TrimSpace(string(password))
	return nil
}

// prepare overrules a server that acknowledges commits before they are on its
// disk, and ends transactions whose client fell silent.
func prepare(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', '60s', false),
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
			ELSE current_setting('synchronous_commit') END, false)`)
	return err
}

// migrate brings the tables up to date; of several processes one at a time.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	fsys, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, fsys,
		goose.WithTableName("relay_migrations"), goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// Commit implements Store.
func (s *postgresStore) Commit(ctx context.Context, batch []*Record, quota int) (outcomes []Outcome, err error) {
	var own []string
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		s.known.forget(own)
		outcomes, err = commitTo(ctx, tx, batch, quota, func(ids []string) { own = s.known.add(ids) })
		return err
	})
	if err != nil {
		s.known.forget(own) // it may be stored: then it comes by Follow
		return nil, fmt.Errorf("committing events: %w", err)
	}
	return outcomes, nil
}

// transact runs fn in a transaction, again when another one was in its way.
func (s *postgresStore) transact(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, postgresTimeout)
	defer cancel()
	for attempt := 0; ; attempt++ {
		err := s.failure(pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return fn(ctx, tx)
		}))
		if attempt >= postgresRetries || !retryable(err) {
			return err
		}
	}
}

// retryable reports whether the server certainly rolled back for a reason
// that passes.
func retryable(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "40001", "40P01", "23505": // serialization, deadlock, unique
		return true
	}
	return false
}

// failure names the errors of a closed store.
func (s *postgresStore) failure(err error) error {
	if err != nil && (s.closed.Load() || errors.Is(err, puddle.ErrClosedPool)) {
		return fmt.Errorf("%w: %w", ErrStoreClosed, err)
	}
	return err
}

// Check implements Store.
func (s *postgresStore) Check(ctx context.Context, rec *Record, quota int) (Outcome, error) {
	world := newPostgresState([]*Record{rec})
	batch := &pgx.Batch{}
	world.read(batch)
	if err := s.failure(s.pool.SendBatch(ctx, batch).Close()); err != nil {
		return 0, fmt.Errorf("reading event store: %w", err)
	}
	return world.decide(rec, quota), nil
}

// Sweep implements Store.
func (s *postgresStore) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	removed := 0
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		removed, err = sweepFrom(ctx, tx, now, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("removing expired events: %w", err)
	}
	return removed, nil
}

// Close implements Store.
func (s *postgresStore) Close() error {
	s.closed.Store(true)
	s.pool.Close()
	return nil
}
