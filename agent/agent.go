package agent

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options of New.
type Options struct {
	Home       string                // folder of this agent; empty is DefaultHome
	Create     bool                  // make home, key and database when they are missing
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	// PassphraseFile holds the passphrase of the agent's key (NIP-49); empty for
	// a key stored in clear. A key that is made is stored with it.
	PassphraseFile string

	// AllowPrivate lets private addresses be dialed, for servers of one closed
	// network. The addresses of pinned servers are always allowed.
	AllowPrivate bool
}

// Agent is one key with its contacts, messages and agreements.
type Agent struct {
	home    string
	opts    Options
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	lock    *lock
	db      *database.DB
	keyDir  *keys.Dir
	key     *keys.Nostr
	feed    *feed

	mu      sync.Mutex
	link    *link         // never nil after New
	relinks chan struct{} // closed and replaced when link is

	work    sync.Mutex // guards working
	working *worker    // the engine at work; nil in a process that only syncs
	writing sync.Mutex // one writer of files
}

// New opens a home and takes its lock. Close gives it back.
func New(ctx context.Context, opts Options) (*Agent, error) {
	if opts.Home == "" {
		home, err := DefaultHome()
		if err != nil {
			return nil, err
		}
		opts.Home = home
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if !opts.Create && !exists(filepath.Join(opts.Home, databaseName)) {
		return nil, unavailable("there is no agent in %s", opts.Home).hint("parley init --server URL")
	}
	a := &Agent{
		home: opts.Home, opts: opts, log: opts.Logger.With("component", "agent"), now: opts.Now,
		feed: newFeed(), relinks: make(chan struct{}),
	}
	if err := a.open(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *Agent) open(ctx context.Context) (err error) {
	if err := makeHome(a.home); err != nil {
		return err
	}
	if a.lock, err = acquire(a.home); err != nil {
		return err
	}
	a.metrics = newMetrics(a.opts.Registerer) // with the lock held, so that who waits for it may try again
	if a.keyDir, err = openKeyFolder(a.home, a.opts.PassphraseFile); err != nil {
		return err
	}
	// A database without its key is a home half restored: a new key would be
	// another agent. Only Create, on an empty home, makes one.
	a.key, err = a.keyDir.Nostr(keys.Agent)
	if errors.Is(err, keys.ErrNoKey) && a.opts.Create && !exists(filepath.Join(a.home, databaseName)) {
		a.key, err = a.keyDir.EnsureNostr(keys.Agent)
	}
	if errors.Is(err, keys.ErrNoKey) {
		return unavailable("the home %s has a database but no key", a.home).hint("restore %s from your backup", a.keyDir.Path())
	}
	if err != nil {
		return keyProblem(err)
	}
	a.db, err = database.Open(ctx, "sqlite:"+filepath.Join(a.home, databaseName),
		database.Options{Logger: a.opts.Logger, Registerer: a.opts.Registerer})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if err := Migrate(ctx, a.db); err != nil {
		return fmt.Errorf("preparing the database: %w", err)
	}
	if err := a.endErasure(ctx); err != nil {
		a.log.ErrorContext(ctx, "an erasure that was cut off is not completed", "err", err)
	}
	if err := a.relink(ctx); err != nil {
		return err
	}
	return errors.Join(a.forgetCards(ctx), a.forgetKeys(ctx))
}

// Close stops what works in the background and gives the home back.
func (a *Agent) Close() error {
	a.stopWorking()
	a.feed.close()
	var errs []error
	if a.link != nil {
		a.link.close()
	}
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.release())
	}
	return errors.Join(errs...)
}

// PublicKey is the agent's key, 64 lowercase hex characters.
func (a *Agent) PublicKey() string { return a.key.PublicKey() }

// Home is the agent's folder.
func (a *Agent) Home() string { return a.home }

// Run is the daemon: it delivers and receives, keeps the own card fresh and
// answers the API on the socket until ctx ends; then it lets running requests
// finish and returns nil.
func (a *Agent) Run(ctx context.Context) error {
	servers, err := a.servers(ctx)
	if err != nil {
		return fmt.Errorf("reading the servers: %w", err)
	}
	if len(servers) == 0 {
		return errNoServer()
	}
	listener, err := listenSocket(a.home)
	if err != nil {
		return err
	}
	defer os.Remove(SocketPath(a.home))
	a.startWorking()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.serve(ctx, listener) })
	group.Go(func() error { return a.tendCards(ctx) })
	a.log.InfoContext(ctx, "agent is up", "npub", a.key.NPub(), "socket", SocketPath(a.home))
	err = group.Wait()
	a.stopWorking()
	a.log.InfoContext(context.WithoutCancel(ctx), "agent has stopped")
	return err
}

func errNoServer() *Error {
	return unavailable("this agent uses no server yet").hint("parley init --server URL")
}

// dial makes the dialer for a set of addresses the owner chose.
func (a *Agent) dial(own []string) (*egress.Dialer, error) {
	opts := egress.Options{AllowPrivate: a.opts.AllowPrivate, AllowLoopback: len(own) > 0}
	for _, address := range own {
		if hp := hostPort(address); hp != "" {
			address = hp
		}
		allow, err := egress.ParseAllow(address)
		if err != nil {
			return nil, invalid("the address of the server is of no use: %w", err)
		}
		opts.Allow = append(opts.Allow, allow)
		opts.AllowLoopback = opts.AllowLoopback && loopbackAddress(address)
	}
	return egress.New(opts), nil
}
