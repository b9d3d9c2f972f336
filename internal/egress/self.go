package egress

import (
	"context"
	"net"
	"net/http"
)

// Self is the own server as a destination of its own requests: they stay in
// the process, whatever the name server, a proxy or a certificate say.
type Self struct {
	// Host is the own origin's host, with its port unless that is the
	// scheme's own: what URLs of the origin write.
	Host string
	// Dial connects to the own server, without encryption.
	Dial func(ctx context.Context) (net.Conn, error)
}

// transport is the way out of this process, and the way to the own server.
type transport struct {
	out, self *http.Transport
	host      string
}

func (d *Dialer) transport() *transport {
	t := &transport{out: d.newTransport(d.DialContext)}
	if own := d.opts.Self; own != nil {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return own.Dial(ctx) }
		t.self, t.host = d.newTransport(dial), canonicalHost(own.Host)
		t.self.DialTLSContext = dial
	}
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.self != nil && canonicalHost(r.URL.Host) == t.host {
		return t.self.RoundTrip(r)
	}
	return t.out.RoundTrip(r)
}

// CloseIdleConnections serves http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() {
	t.out.CloseIdleConnections()
	if t.self != nil {
		t.self.CloseIdleConnections()
	}
}
