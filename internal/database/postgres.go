package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// minServer is the oldest version of PostgreSQL that is supported.
const minServer = 130000

// dialTimeout bounds the making of one connection.
const dialTimeout = 10 * time.Second

// postgres is a server reached through two pools: a View within a job can
// never wait for a connection that the job itself keeps busy.
type postgres struct {
	*base
	config *pgx.ConnConfig
	writer *sql.DB
	reader *sql.DB
	// turn is held by a job that runs again because others got in its way, so
	// that not all of them try again at once.
	turn chan struct{}

	mu      sync.RWMutex // guards closed and the start of jobs and listening
	closed  bool
	running sync.WaitGroup
	bus     sync.Once
	busDone chan struct{}   // closed when the bus has ended
	busCtx  context.Context // ends with close
	stopBus context.CancelFunc
}

func openPostgres(ctx context.Context, address string, b *base) (*postgres, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, withoutPassword(address, err))
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
	if config.ValidateConnect == nil { // after a failover the old server may live on as a standby
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "parley"
	}
	p := &postgres{base: b, config: config, turn: make(chan struct{}, 1), busDone: make(chan struct{})}
	p.busCtx, p.stopBus = context.WithCancel(context.Background())
	p.writer = p.pool(b.opts.JobTimeout)
	p.writer.SetMaxOpenConns(b.opts.Writers)
	p.writer.SetMaxIdleConns(b.opts.Writers)
	p.reader = p.pool(b.opts.JobTimeout)
	p.reader.SetMaxOpenConns(b.opts.Readers)
	p.reader.SetMaxIdleConns(b.opts.Readers)
	if err := p.check(ctx); err != nil {
		p.stopBus()
		return nil, errors.Join(err, p.closePools())
	}
	b.metrics = newMetrics(b.opts.Registerer)
	return p, nil
}

// withoutPassword is the reason why an address cannot be used. The driver's
// words may repeat the address.
func withoutPassword(address string, err error) error {
	account, _, named := strings.Cut(strings.TrimPrefix(address[strings.Index(address, "://"):], "://"), "@")
	if inner := errors.Unwrap(err); inner != nil && !strings.Contains(address, "password=") && !(named && strings.Contains(account, ":")) {
		return inner
	}
	return errors.New("not a valid postgres:// address")
}

// pool makes a pool whose statements end after timeout, 0 for never.
func (p *postgres) pool(timeout time.Duration) *sql.DB {
	pool := stdlib.OpenDB(*p.config, stdlib.OptionBeforeConnect(p.authenticate),
		stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error { return p.prepare(ctx, conn, timeout) }))
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool
}

// authenticate reads the password for a new connection.
func (p *postgres) authenticate(_ context.Context, config *pgx.ConnConfig) error {
	if p.opts.PasswordFile == "" {
		return nil
	}
	file, err := os.Open(p.opts.PasswordFile)
	if err != nil {
		return fmt.Errorf("reading database password: %w", err)
	}
	defer file.Close()
	buf := make([]byte, 1025)
	n, err := file.Read(buf)
	password := strings.TrimSpace(string(buf[:n]))
	if err != nil || n == len(buf) || password == "" {
		return fmt.Errorf("reading database password: %s holds none, or more than 1 KiB", p.opts.PasswordFile)
	}
	config.Password = password
	return nil
}

// prepare sets what every connection needs, in one round trip. A server that
// acknowledges commits before they are on disk is overruled. A transaction
// whose client fell silent is ended, so that its locks do not stay.
func (p *postgres) prepare(ctx context.Context, conn *pgx.Conn, timeout time.Duration) error {
	lock := p.opts.BusyTimeout
	if timeout == 0 {
		lock = 0
	}
	_, err := conn.Exec(ctx, `SELECT
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
		set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
		set_config('idle_in_transaction_session_timeout', $2, false)`,
		milliseconds(lock), milliseconds(timeout))
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// check proves that the server can be used.
func (p *postgres) check(ctx context.Context) error {
	var version int
	var encoding, fsync string
	err := p.writer.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int,
		current_setting('server_encoding'), current_setting('fsync')`).Scan(&version, &encoding, &fsync)
	if err != nil {
		return fmt.Errorf("opening database: %w", classify(err))
	}
	if version < minServer {
		return fmt.Errorf("%w: PostgreSQL %d is too old, want 13 or later", ErrUnsupported, version/10000)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: database encoding %s, want UTF8", ErrUnsupported, encoding)
	}
	if fsync != "on" {
		p.logger.WarnContext(ctx, "the database server runs without fsync: a power cut may destroy it")
	}
	return nil
}

func (p *postgres) forUpdate() string { return " FOR UPDATE" }

func (p *postgres) notify(ctx context.Context, tx *sql.Tx, _ *outlet, n notice) error {
	_, err := tx.ExecContext(ctx, "SELECT pg_notify($1, $2)", busChannel, n.channel+" "+n.payload)
	return err
}

// migrate uses a pool of its own: building an index may take longer than any
// job. An advisory lock lets one process migrate at a time.
func (p *postgres) migrate(ctx context.Context, service string, fsys fs.FS) error {
	if p.outletOf(ctx) != nil {
		return ErrNested
	}
	if !p.enter() {
		return ErrClosed
	}
	defer p.running.Done()
	pool := p.pool(0)
	defer pool.Close()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return p.failed(fmt.Errorf("migrating %s: %w", service, err))
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext('parley migrations'))"); err != nil {
		return p.failed(fmt.Errorf("migrating %s: %w", service, err))
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()")
	if err := p.up(ctx, goose.DialectPostgres, pool, service, translated{fsys}); err != nil {
		return p.failed(err)
	}
	return nil
}

// enter counts a job in; false when the database is closed.
func (p *postgres) enter() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return false
	}
	p.running.Add(1)
	return true
}

func (p *postgres) close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.stopBus()
	p.running.Wait()
	if !first {
		return nil
	}
	p.bus.Do(func() { close(p.busDone) }) // it never began
	<-p.busDone
	return p.closePools()
}

func (p *postgres) closePools() error {
	if err := errors.Join(p.reader.Close(), p.writer.Close()); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}
