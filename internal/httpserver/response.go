package httpserver

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
)

// response remembers what became of a request. It offers Flush and Hijack
// itself because WebSocket libraries ask for them by type.
type response struct {
	http.ResponseWriter
	server   *Server
	owner    string // of the route that answered
	status   int    // 0 until the header is written
	hijacked bool
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Flush implements http.Flusher.
func (w *response) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker. The connection has no deadline afterwards
// and is closed at the end of the server's drain.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return w.server.upgraded.add(conn), buffer, nil
}

// upgradedConns is the set of connections that handlers took over.
type upgradedConns struct {
	mu    sync.Mutex
	conns map[*upgradedConn]struct{}
	empty chan struct{} // not nil while wait waits
}

type upgradedConn struct {
	net.Conn
	set *upgradedConns
}

// Close implements net.Conn.
func (c *upgradedConn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

func (s *upgradedConns) add(conn net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*upgradedConn]struct{}{}
	}
	tracked := &upgradedConn{conn, s}
	s.conns[tracked] = struct{}{}
	return tracked
}

func (s *upgradedConns) remove(conn *upgradedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	if len(s.conns) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// drained is closed once no connection is left. It is asked for once.
func (s *upgradedConns) drained() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := make(chan struct{})
	if len(s.conns) == 0 {
		close(empty)
	} else {
		s.empty = empty
	}
	return empty
}

// closeAll cuts what is left.
func (s *upgradedConns) closeAll() error {
	s.mu.Lock()
	left := make([]*upgradedConn, 0, len(s.conns))
	for conn := range s.conns {
		left = append(left, conn)
	}
	s.mu.Unlock()
	var errs []error
	for _, conn := range left {
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
