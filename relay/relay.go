package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/fiatjaf/khatru"
)

// Relay is one relay: its store, its connections and its subscriptions. Its
// methods may be called concurrently; Run is called once.
type Relay struct {
	opts          Options
	log           *slog.Logger
	store         Store
	frame         *khatru.Relay
	metrics       *metrics
	committer     *committer
	subscriptions *index
	addresses     *addressTable

	base   context.Context // of every connection
	cancel context.CancelFunc

	mu       sync.Mutex
	stopping bool
	admitted int // connections, those in their upgrade included
	sessions map[*session]struct{}
	running  sync.WaitGroup // of sessions
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
	r := &Relay{
		opts: o, log: o.Logger, store: store, metrics: newMetrics(o.Registerer),
		subscriptions: newIndex(), addresses: newAddressTable(o.Limits), sessions: map[*session]struct{}{},
	}
	r.base, r.cancel = context.WithCancel(context.Background())
	r.committer = newCommitter(r)
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
	var following sync.WaitGroup
	if store, shared := r.store.(SharedStore); shared {
		following.Go(func() { store.Follow(ctx, r.committer) })
	}

	r.sweepUntil(ctx)
	r.drain()
	following.Wait() // it uses the committer
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
)

// admit counts a new connection in before its upgrade, or returns the reason
// why it is refused.
func (r *Relay) admit(address netip.Addr) (reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.opts.Limits.Connections
	switch {
	case r.stopping:
		return refusedStopping
	case limit >= 0 && r.admitted >= limit:
		return refusedFull
	case !r.addresses.open(address):
		return refusedAddress
	}
	r.admitted++
	r.running.Add(1)
	r.metrics.connections.Inc()
	return ""
}

// leave undoes admit.
func (r *Relay) leave(address netip.Addr) {
	r.addresses.close(address)
	r.metrics.connections.Dec()
	r.mu.Lock()
	r.admitted--
	r.mu.Unlock()
	r.running.Done()
}

// serve runs one connection to its end.
func (r *Relay) serve(conn *websocket.Conn, address netip.Addr) {
	s := r.newSession(conn, address)
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
