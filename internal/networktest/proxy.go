package networktest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy passes TCP connections on to a server until it is told to break them.
type Proxy struct {
	listener net.Listener
	done     chan struct{} // closed with the proxy
	passing  sync.WaitGroup

	mu      sync.Mutex
	resume  *sync.Cond
	target  string
	pairs   []*pair
	refuse  bool
	stall   bool
	latency time.Duration
	chunk   int
	cut     []byte
	closed  bool
}

// pair is one connection of a client and the one to the server behind it.
type pair struct {
	client, server *net.TCPConn
	ended          int  // directions that are over; guarded by the proxy's mutex
	mute           bool // the next answer is not to pass; guarded by the proxy's mutex
}

func (c *pair) sides() []*net.TCPConn { return []*net.TCPConn{c.client, c.server} }

// NewProxy starts a proxy before target, host:port; it ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, done: make(chan struct{})}
	p.resume = sync.NewCond(&p.mu)
	t.Cleanup(p.close)
	p.passing.Go(p.accept)
	return p
}

// Addr is the proxy's own host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Point sends later connections to another target, host:port. It is for a
// server that has to know the proxy's address before it starts.
func (p *Proxy) Point(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Connections is the number of connections of clients that are not over.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Reset breaks every connection off with RST; new ones are taken.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

func (p *Proxy) reset() {
	for _, c := range p.pairs {
		for _, side := range c.sides() {
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

// HalfCloseServer ends the direction from the client to the server of every
// connection, while the other stays open.
func (p *Proxy) HalfCloseServer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		_ = c.server.CloseWrite()
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

// Delay holds data back for latency in each direction and passes it on in
// chunks of at most that many bytes, each of which waits anew; 0 bytes is
// whatever has come. Delay(0, 0) is no delay.
func (p *Proxy) Delay(latency time.Duration, chunk int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency, p.chunk = latency, chunk
}

// CutAfter lets the next message of a client that holds text through, and
// breaks that connection off once the server has answered, without the answer.
// An empty text takes the order back.
func (p *Proxy) CutAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = []byte(text)
}

// Heal ends every fault that lasts. What was broken off stays so.
func (p *Proxy) Heal() {
	p.Delay(0, 0)
	p.CutAfter("")
	p.Refuse(false)
	p.Stall(false)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed, p.stall = true, false
	close(p.done)
	p.resume.Broadcast()
	p.reset()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.passing.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.passing.Go(func() { p.connect(conn.(*net.TCPConn)) })
	}
}

// connect dials the server for a client and passes on what they say.
func (p *Proxy) connect(client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.refuse || p.closed {
		_ = client.SetLinger(0)
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	c := &pair{client: client, server: server.(*net.TCPConn)}
	p.pairs = append(p.pairs, c)
	p.passing.Go(func() { p.pass(c, c.client, c.server, true) })
	p.passing.Go(func() { p.pass(c, c.server, c.client, false) })
}

// pass copies one direction of a connection.
func (p *Proxy) pass(c *pair, from, to *net.TCPConn, asking bool) {
	defer p.end(c)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.forward(c, to, buf[:n], asking) {
			return
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

// end notes the end of a direction. The connection is over with the second.
func (p *Proxy) end(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.ended++; c.ended == 2 {
		p.drop(c)
	}
}

// drop closes a connection; the caller holds mu.
func (p *Proxy) drop(c *pair) {
	for _, side := range c.sides() {
		_ = side.Close()
	}
	p.pairs = slices.DeleteFunc(p.pairs, func(other *pair) bool { return other == c })
}

// forward writes data on, unless the connection is to be cut.
func (p *Proxy) forward(c *pair, to *net.TCPConn, data []byte, asking bool) bool {
	for len(data) > 0 {
		n, latency := p.hold(len(data))
		if !p.sleep(latency) || p.cuts(c, data, asking) {
			return false
		}
		if _, err := to.Write(data[:n]); err != nil {
			return false
		}
		data = data[n:]
	}
	return true
}

// hold waits while nothing passes, and says how much may pass next and after
// how long.
func (p *Proxy) hold(size int) (chunk int, latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stall {
		p.resume.Wait()
	}
	if p.chunk > 0 {
		size = min(size, p.chunk)
	}
	return size, p.latency
}

// sleep waits for d; false when the proxy ended meanwhile.
func (p *Proxy) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}

// cuts obeys CutAfter: it looks at what a client asks, and breaks the
// connection off where an answer would pass.
func (p *Proxy) cuts(c *pair, data []byte, asking bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if asking && len(p.cut) > 0 && bytes.Contains(data, p.cut) {
		p.cut, c.mute = nil, true
	}
	if asking || !c.mute {
		return false
	}
	_ = c.client.SetLinger(0)
	p.drop(c)
	return true
}
