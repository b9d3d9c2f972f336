package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// inside is a listener for connections that begin in this process. Parts of one
// server speak to each other as strangers do, by HTTP and WebSocket, and need
// neither the name server nor a proxy nor a certificate to get there.
type inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInside() *inside {
	return &inside{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to this server within the process, without encryption. It
// waits until Run accepts; net.ErrClosed once the server has ended.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.inside.conns <- server:
		return client, nil
	case <-s.inside.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *inside) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, http.ErrServerClosed
	}
}

// Close implements net.Listener.
func (l *inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *inside) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

func (insideAddr) Network() string { return "inside" }
func (insideAddr) String() string  { return "inside" }
