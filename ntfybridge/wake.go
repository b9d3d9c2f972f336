package ntfybridge

import (
	"sync"
	"time"
)

// wokenPause is the shortest time between two calls of Options.Woken.
const wokenPause = 10 * time.Second

// waker calls a function for wake-ups, at once or as soon as the pause since
// the last call is over, and once for all that come meanwhile.
type waker struct {
	call func()
	now  func() time.Time

	mu     sync.Mutex
	last   time.Time
	timer  *time.Timer // set while a call is due
	closed bool
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call == nil || w.timer != nil || w.closed {
		return
	}
	var wait time.Duration
	if !w.last.IsZero() {
		// A clock that was set back makes nobody wait longer than the pause.
		wait = min(wokenPause, max(0, w.last.Add(wokenPause).Sub(w.now())))
	}
	w.timer = time.AfterFunc(wait, w.fire)
}

func (w *waker) fire() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.timer, w.last = nil, w.now()
	w.mu.Unlock()
	w.call()
}

func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
