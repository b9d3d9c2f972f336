package databasetest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy passes TCP connections on to a server until it is told to break them.
type Proxy struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	resume *sync.Cond
	pairs  []pair
	refuse bool
	stall  bool
	cut    []byte
	closed bool
}

type pair struct{ client, server *net.TCPConn }

// NewProxy starts a proxy before target, host:port; it ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l}
	p.resume = sync.NewCond(&p.mu)
	t.Cleanup(p.close)
	go p.accept()
	return p
}

// Addr is the proxy's own host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Reset breaks every connection off with RST; new ones are taken.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

func (p *Proxy) reset() {
	for _, c := range p.pairs {
		for _, side := range []*net.TCPConn{c.client, c.server} {
			_ = side.SetLinger(0)
			_ = side.Close()
		}
	}
	p.pairs = nil
}

// HalfClose ends the direction from the server to the client of every
// connection, while the other stays open.
func (p *Proxy) HalfClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		_ = c.client.CloseWrite()
	}
}

// Refuse resets new connections while on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Stall passes nothing on in either direction while on; what came meanwhile
// follows afterwards.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall = on
	p.resume.Broadcast()
}

// CutAfter lets the next message of a client that holds text through, and
// breaks that connection off once the server has answered, without the answer.
// An empty text takes the order back.
func (p *Proxy) CutAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = []byte(text)
}

func (p *Proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.stall = true, false
	p.resume.Broadcast()
	p.reset()
	_ = p.listener.Close()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := conn.(*net.TCPConn)
		server, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.refuse || p.closed {
			_ = client.SetLinger(0)
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
		} else {
			c := pair{client, server.(*net.TCPConn)}
			p.pairs = append(p.pairs, c)
			mute := new(muted)
			go p.pass(c, c.client, c.server, mute, true)
			go p.pass(c, c.server, c.client, mute, false)
		}
		p.mu.Unlock()
	}
}

// muted tells the direction of the answers that the next one is not to pass;
// guarded by the proxy's mutex.
type muted struct{ on bool }

// pass copies one direction of a connection.
func (p *Proxy) pass(c pair, from, to *net.TCPConn, mute *muted, asking bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.forward(c, to, buf[:n], mute, asking) {
			return
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

// forward writes data on, unless the connection is to be cut.
func (p *Proxy) forward(c pair, to *net.TCPConn, data []byte, mute *muted, asking bool) bool {
	p.mu.Lock()
	for p.stall {
		p.resume.Wait()
	}
	if asking && len(p.cut) > 0 && bytes.Contains(data, p.cut) {
		p.cut, mute.on = nil, true
	}
	if !asking && mute.on {
		_ = c.client.SetLinger(0)
		_ = c.client.Close()
		_ = c.server.Close()
		p.pairs = slices.DeleteFunc(p.pairs, func(other pair) bool { return other == c })
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	_, err := to.Write(data)
	return err == nil
}
