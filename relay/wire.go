package relay

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// wire is the network connection below a WebSocket. While it is held, what is
// written gathers, and release sends it in one piece: a peer that many messages
// wait for costs one system call, not one for each.
type wire struct {
	net.Conn
	timeout time.Duration // for one write

	mu      sync.Mutex
	gather  bool
	waiting *[]byte
}

// gathered are empty buffers for what is sent.
var gathered = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// keep gives a buffer back unless it grew large.
func keep(buf *[]byte) {
	if cap(*buf) <= 256<<10 {
		*buf = (*buf)[:0]
		gathered.Put(buf)
	}
}

// Write implements net.Conn. With an error the connection is of no use any more.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gather {
		*w.waiting = append(*w.waiting, p...)
		return len(p), nil
	}
	return w.send(p)
}

func (w *wire) send(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// hold begins to gather. One goroutine holds and releases.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather, w.waiting = true, gathered.Get().(*[]byte)
}

// release sends what gathered.
func (w *wire) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	buf := w.waiting
	w.gather, w.waiting = false, nil
	_, err := w.send(*buf)
	keep(buf)
	return err
}

// wired is a response whose connection, once taken over, is a wire.
type wired struct {
	http.ResponseWriter
	timeout time.Duration
	wire    *wire
}

// Hijack implements http.Hijacker. The wire gathers by itself, so the writer
// above it needs hardly a buffer.
func (w *wired) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.wire = &wire{Conn: conn, timeout: w.timeout}
	return w.wire, bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(w.wire, 16)), nil
}
