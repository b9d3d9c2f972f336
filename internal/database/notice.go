package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Errors of Notify and Listen.
var (
	// ErrNotice means a channel or payload that cannot be sent.
	ErrNotice = errors.New("database: bad notice")
	// ErrNoJob means a Notify outside of a job of Write or Tx.
	ErrNoJob = errors.New("database: notify outside of a job")
)

const (
	maxPayload = 200 // bytes
	maxWaiting = 256 // notices that wait for one listener
)

var channelPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Notice is what a listener is told.
type Notice struct {
	// Payload is what Notify was given; "" when Resumed.
	Payload string
	// Resumed means that notices may have been missed before this one: the
	// listener reads the tables again. It comes once when listening begins and
	// after every gap, such as a lost connection or a listener too slow.
	Resumed bool
}

// notice is a payload on its channel.
type notice struct{ channel, payload string }

// Notify tells the listeners of channel once the job has committed; nobody
// hears of a job that is undone. It is called from within a job of Write or Tx,
// with the context and the transaction of that job. The payload is an id, not
// content: up to 200 bytes of UTF-8. channel is up to 48 of a-z0-9_ starting
// with a letter. Equal notices of one job may arrive as one.
//
// On PostgreSQL the listeners of every process hear it; jobs that notify
// commit one after another there. On SQLite those of this DB hear it.
func (db *DB) Notify(ctx context.Context, tx *sql.Tx, channel, payload string) error {
	if !channelPattern.MatchString(channel) {
		return fmt.Errorf("%w: channel %.60q", ErrNotice, channel)
	}
	if len(payload) > maxPayload || !utf8.ValidString(payload) || strings.ContainsRune(payload, 0) {
		return fmt.Errorf("%w: payload of %d bytes", ErrNotice, len(payload))
	}
	o := db.outletOf(ctx)
	if o == nil {
		return ErrNoJob
	}
	return db.backend.notify(ctx, tx, o, notice{channel, payload})
}

// Listen calls fn for every notice on channel until ctx ends or the DB is
// closed, from one goroutine. It returns at once. The first call, as soon as
// nothing is missed any more, has Resumed set. A listener that falls 256
// notices behind loses them and is told by Resumed.
func (db *DB) Listen(ctx context.Context, channel string, fn func(Notice)) error {
	if !channelPattern.MatchString(channel) {
		return fmt.Errorf("%w: channel %.60q", ErrNotice, channel)
	}
	if err := db.backend.listening(); err != nil {
		return err
	}
	l := &listener{channel: channel, wake: make(chan struct{}, 1)}
	if !db.hub.add(l, db.Path() != "") {
		return ErrClosed
	}
	go func() {
		defer db.hub.remove(l)
		for {
			select {
			case <-ctx.Done():
				return
			case <-db.hub.done:
				return
			case <-l.wake:
			}
			for _, n := range l.take() {
				if ctx.Err() != nil {
					return
				}
				fn(n)
			}
		}
	}()
	return nil
}

// listener is one call of Listen.
type listener struct {
	channel string
	wake    chan struct{}

	mu      sync.Mutex
	waiting []Notice
}

func (l *listener) put(n Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Resumed || len(l.waiting) >= maxWaiting {
		l.waiting = []Notice{{Resumed: true}} // reading again covers what waits
	} else {
		l.waiting = append(l.waiting, n)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() []Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.waiting
	l.waiting = nil
	return taken
}

// hub hands notices to the listeners of this process.
type hub struct {
	done chan struct{}

	mu        sync.Mutex
	closed    bool
	connected bool // notices of others arrive (PostgreSQL)
	listeners []*listener
}

func newHub() *hub { return &hub{done: make(chan struct{})} }

// add takes a listener in; false when the hub is closed. At once says that
// nothing is missed from now on.
func (h *hub) add(l *listener, atOnce bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.listeners = append(h.listeners, l)
	if atOnce || h.connected {
		l.put(Notice{Resumed: true})
	}
	return true
}

func (h *hub) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = slices.DeleteFunc(h.listeners, func(other *listener) bool { return other == l })
}

func (h *hub) publish(notices ...notice) {
	if len(notices) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range notices {
		for _, l := range h.listeners {
			if l.channel == n.channel {
				l.put(Notice{Payload: n.payload})
			}
		}
	}
}

// connect notes that notices of others arrive, or no longer do.
func (h *hub) connect(connected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connected = connected; !connected {
		return
	}
	for _, l := range h.listeners {
		l.put(Notice{Resumed: true})
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// outlet holds what one run of a job wants to tell after its commit.
type outlet struct {
	mu      sync.Mutex
	notices []notice
}

func (o *outlet) add(n notice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notices = append(o.notices, n)
}

func (o *outlet) take() []notice {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.notices
}

type outletKey struct{ b *base }

// marked is the context a job runs with: it remembers which DB is writing.
func (b *base) marked(ctx context.Context, o *outlet) context.Context {
	return context.WithValue(ctx, outletKey{b}, o)
}

// outletOf is the outlet of the job that runs with ctx, or nil.
func (b *base) outletOf(ctx context.Context) *outlet {
	o, _ := ctx.Value(outletKey{b}).(*outlet)
	return o
}
