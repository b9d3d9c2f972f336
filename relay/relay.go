package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/fiatjaf/khatru"

	"github.com/parleykit/parley/protocol/httpauth"
)

// Relay is one relay: its store, its connections and its subscriptions. Its
// methods may be called concurrently; Run is called once.
type Relay struct {
	opts          Options
	log           *slog.Logger
	store         *cardStore
	frame         *khatru.Relay
	metrics       *metrics
	memory        *memory // of the connections
	committer     *committer
	verifier      *verifier
	subscriptions *index
	addresses     *addressTable
	authors       *keyTable
	plugin        *plugin // nil when there is none
	tokens        *httpauth.Verifier

	ruling  sync.Mutex // held by who changes the rules
	current atomic.Pointer[rules]

	pace pace // of the stored events, for the page

	base   context.Context // of every connection
	cancel context.CancelFunc

	mu       sync.Mutex
	stopping bool
	admitted int // connections, those in their upgrade included
	sessions map[*session]struct{}
	running  sync.WaitGroup // of sessions

	reconciliations atomic.Int64 // open ones
}

// New opens the store and prepares a relay. It answers nothing until Run is
// called. The error wraps ErrOptions when an option is missing or wrong. One
// goroutine of the frame lives as long as the process, so a process makes few
// relays.
func New(o Options) (*Relay, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	store := o.Store
	if store == nil {
		if store, err = OpenPebble(o.Dir, o.Logger); err != nil {
			return nil, err
		}
	}
	m := newMetrics(o.Registerer)
	r := &Relay{
		opts: o, log: o.Logger, metrics: m, memory: newMemory(o.Registerer),
		store:         holdCards(context.Background(), store, o.Limits.CardBytes, o.Now(), o.Logger, m),
		subscriptions: newIndex(), addresses: newAddressTable(o.Limits), authors: &keyTable{limits: o.Limits},
		tokens: httpauth.NewVerifier(o.Now), sessions: map[*session]struct{}{},
	}
	r.current.Store(newRules(o.Policy, o.Limits, rulings{}))
	if err := r.readRulings(context.Background()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	r.plugin = newPlugin(r)
	r.base, r.cancel = context.WithCancel(context.Background())
	r.committer, r.verifier = newCommitter(r), newVerifier()
	r.frame = r.newFrame()
	return r, nil
}

// Run serves until ctx ends. Then it takes no more connections, answers the
// events that were taken, closes the connections with a close frame, waits
// for the commits and closes the store. It returns what closing the store
// returned.
func (r *Relay) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	workers.Go(r.committer.commit)
	workers.Go(r.committer.fanOut)
	pluginCtx, endPlugin := context.WithCancel(context.Background())
	workers.Go(func() { r.plugin.run(pluginCtx) })
	var following sync.WaitGroup
	if r.store.shared {
		following.Go(func() { r.store.follow(ctx, r.committer) })
		following.Go(func() { r.followRulings(ctx) })
	}

	r.sweepUntil(ctx)
	r.drain()
	following.Wait() // it uses the committer
	endPlugin()      // no connection is left to ask it
	close(r.committer.stop)
	workers.Wait()
	if err := r.store.Close(); err != nil {
		return fmt.Errorf("ending relay: %w", err)
	}
	return nil
}

// sweepUntil removes expired events at the start and then now and then.
func (r *Relay) sweepUntil(ctx context.Context) {
	ticker := time.NewTicker(r.opts.SweepInterval)
	defer ticker.Stop()
	for {
		r.sweep(ctx)
		r.pace.mark(r.opts.Now(), r.storedEvents())
		r.removeBanned(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// drain ends all connections, in order within DrainTimeout, the rest at once.
func (r *Relay) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.DrainTimeout)
	defer cancel()
	r.mu.Lock()
	r.stopping = true
	r.log.InfoContext(ctx, "relay stopping", "connections", len(r.sessions))
	for s := range r.sessions {
		go s.drain(ctx)
	}
	r.mu.Unlock()
	stop := context.AfterFunc(ctx, r.cancel)
	r.running.Wait()
	stop()
	r.cancel()
}

// Reasons of a refused connection, the closed label set of
// parley_relay_refused_connections_total.
const (
	refusedOrigin   = "origin"
	refusedFull     = "full"
	refusedAddress  = "address"
	refusedStopping = "stopping"
	refusedBlocked  = "blocked"
	refusedMemory   = "memory"
)

// admit counts a new connection in before its upgrade, or returns the reason
// why it is refused.
func (r *Relay) admit(address netip.Addr) (reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.limits().Connections
	switch {
	case r.stopping:
		return refusedStopping
	case r.rules().blocked(address):
		return refusedBlocked
	case limit >= 0 && r.admitted >= limit:
		return refusedFull
	case !r.addresses.open(address):
		return refusedAddress
	}
	if !r.memory.take(connectionBytes, r.limits().ConnectionBytes, shortConnection) {
		r.addresses.close(address)
		return refusedMemory
	}
	r.admitted++
	r.running.Add(1)
	r.metrics.connections.Inc()
	return ""
}

// leave undoes admit.
func (r *Relay) leave(address netip.Addr) {
	r.addresses.close(address)
	r.memory.held.Add(-connectionBytes)
	r.metrics.connections.Dec()
	r.mu.Lock()
	r.admitted--
	r.mu.Unlock()
	r.running.Done()
}

// serve runs one connection to its end.
func (r *Relay) serve(conn *websocket.Conn, wire *wire, address netip.Addr) {
	s := r.newSession(conn, address)
	s.wire = wire
	r.mu.Lock()
	r.sessions[s] = struct{}{}
	stopping := r.stopping
	r.mu.Unlock()
	if stopping {
		go s.drain(r.base)
	}
	s.run()
	r.mu.Lock()
	delete(r.sessions, s)
	r.mu.Unlock()
}
