package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/canonical"
)

// Lengths of the daemon's own rhythm.
const (
	refreshPause = time.Hour        // between two looks at the cards
	refreshAhead = 5                // a card is published anew in the last fifth of its life
	writePause   = 2 * time.Second  // between two looks for files to write, without a poke
	flushTimeout = 20 * time.Second // of one pass of a process that does not stay
)

// worker is the engine at work in the background.
type worker struct {
	stop context.CancelFunc
	done chan struct{}
}

// startWorking lets the engine run until stopWorking. A second call changes
// nothing.
func (a *Agent) startWorking() {
	a.work.Lock()
	defer a.work.Unlock()
	if a.working != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{stop: stop, done: make(chan struct{})}
	a.working = w
	go func() {
		defer close(w.done)
		a.keepWorking(ctx)
	}()
}

func (a *Agent) stopWorking() {
	a.work.Lock()
	w := a.working
	a.working = nil
	a.work.Unlock()
	if w == nil {
		return
	}
	w.stop()
	<-w.done
}

func (a *Agent) isWorking() bool {
	a.work.Lock()
	defer a.work.Unlock()
	return a.working != nil
}

// keepWorking runs the engine of the link in use, changing over when there is
// a new one, and brings bundles to disk.
func (a *Agent) keepWorking(ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.writeLoop(ctx) })
	group.Go(func() error {
		for ctx.Err() == nil {
			if err := a.runLink(ctx); err != nil && ctx.Err() == nil {
				a.log.ErrorContext(ctx, "delivery stopped", "err", err)
				pause(ctx, time.Second)
			}
		}
		return nil
	})
	_ = group.Wait() // neither returns an error
}

// errReplaced ends the work on a link that another one replaces.
var errReplaced = errors.New("agent: another link took its place")

// runLink runs one engine until ctx ends or another link takes its place.
func (a *Agent) runLink(ctx context.Context) error {
	a.mu.Lock()
	l, replaced := a.link, a.relinks
	a.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.engine.Run(ctx) })
	group.Go(func() error {
		for ctx.Err() == nil { // a reader that fell behind is dropped and begins anew
			a.follow(ctx, l.engine.Subscribe(ctx))
		}
		return nil
	})
	group.Go(func() error {
		select {
		case <-replaced:
			return errReplaced // ends the other two
		case <-ctx.Done():
			return nil
		}
	})
	if err := group.Wait(); !errors.Is(err, errReplaced) {
		return err
	}
	return nil
}

// follow wakes readers after each stored change and notes strangers.
func (a *Agent) follow(ctx context.Context, changes <-chan carrier.Change) {
	for change := range changes {
		if change.Box == carrier.BoxInbox && change.State == carrier.StateRequest {
			a.noteRequest(ctx, change)
		}
		a.feed.poke()
	}
}

// writeLoop does what follows from stored changes: files, and questions about
// rooms with gaps.
func (a *Agent) writeLoop(ctx context.Context) error {
	for {
		changed := a.feed.wait()
		if err := a.writeArtifacts(ctx); err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "writing an agreement's files", "err", err)
			pause(ctx, writePause)
		}
		asked, err := a.catchUp(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "catching up with a room", "err", err)
		}
		if asked {
			a.flush(ctx)
		}
		timer := time.NewTimer(writePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// flush sends what waits: a daemon is woken, a process that does not stay makes
// one pass.
func (a *Agent) flush(ctx context.Context) {
	if !a.isWorking() {
		if err := a.Sync(ctx); err != nil {
			a.log.InfoContext(ctx, "sending and receiving once", "err", err)
		}
		return
	}
	if l, err := a.current(); err == nil {
		l.engine.Wake()
	}
}

// Sync makes one pass: it receives what waits at the relays, processes it and
// sends what is queued. It does nothing before a server is pinned.
func (a *Agent) Sync(ctx context.Context) error {
	l, err := a.online()
	if err != nil {
		return nil //nolint:nilerr // without a server there is nothing to do
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	a.introduceSoon(ctx)
	failed := l.engine.Sync(ctx)
	if failed != nil && relaysWereRead(failed) {
		a.log.InfoContext(ctx, "a carrier beside the relays was not read", "err", failed)
		failed = nil
	}
	if failed == nil {
		failed = a.setSetting(ctx, settingAsked, canonical.At(a.now()).String())
	}
	asked, err := a.catchUp(ctx)
	if asked {
		if failed := l.engine.Sync(ctx); failed != nil && !relaysWereRead(failed) {
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(failed, err, a.writeArtifacts(ctx))
}

// relaysWereRead reports whether nothing failed but reading carriers beside the
// relays, for which the relays stand in.
func relaysWereRead(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	return ok && !slices.ContainsFunc(joined.Unwrap(), func(err error) bool {
		failure, ok := errors.AsType[*carrier.ReceiveFailure](err)
		return !ok || failure.Scheme == nostr.Scheme
	})
}

// tendCards publishes the own card again before it expires and forgets the old
// ones of strangers.
func (a *Agent) tendCards(ctx context.Context) error {
	for {
		if err := a.refreshOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "publishing the card again", "err", err)
		}
		a.introduceSoon(ctx) // topics change with the month
		if err := a.forgetCards(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "forgetting old cards", "err", err)
		}
		if err := a.forgetKeys(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "forgetting old keys of requests", "err", err)
		}
		pause(ctx, refreshPause)
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (a *Agent) refreshOnce(ctx context.Context) error {
	own, err := a.knownCard(ctx, a.key.PublicKey())
	if err != nil || own == nil {
		return err // a card never published is not published unasked
	}
	// A relay that did not honour the deletion may have brought it back.
	if revoked, err := a.setting(ctx, settingRevoked); err != nil || revoked == own.PubKey {
		return err
	}
	changed, err := a.cardNamesOthers(ctx, own)
	if err != nil {
		return err
	}
	life := own.ExpiresAt.Sub(own.CreatedAt.Time)
	if own.ExpiresAt.Sub(a.now()) > life/refreshAhead && !changed {
		return nil
	}
	p, err := a.profile(ctx)
	if err != nil {
		return err
	}
	_, err = a.publish(ctx, p)
	return err
}
