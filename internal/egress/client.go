package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	maxRedirects = 3
	maxHeader    = 64 << 10
)

// HTTPClient makes a client whose every connection goes through the dialer.
// It takes no proxy from the environment, follows at most three redirects and
// none from https to http, ends after 30 s and cuts answers over
// Options.MaxBody with ErrTooLarge. It asks for no compression, so the limit is
// the limit on the wire as well. It can open WebSockets: an upgraded connection
// has neither limit.
func (d *Dialer) HTTPClient() *http.Client {
	return &http.Client{
		Transport:     limited{d.transport(), d.opts.MaxBody},
		CheckRedirect: checkRedirect,
		Timeout:       exchangeTimeout,
	}
}

func (d *Dialer) newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  exchangeTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	case r.URL.Scheme != "https" && r.URL.Scheme != "http":
		return fmt.Errorf("%w: neither https nor http", ErrRedirect)
	case r.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return fmt.Errorf("%w: from https to http", ErrRedirect)
	}
	return nil
}

// limited bounds the bodies of a transport's answers.
type limited struct {
	*transport
	max int64
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.transport.RoundTrip(r)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	if response.ContentLength > l.max && r.Method != http.MethodHead {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: %d bytes announced", ErrTooLarge, response.ContentLength)
	}
	response.Body = &limitedBody{response.Body, l.max}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64 // -1 once it was overrun
}

// Read implements io.Reader. It reads one byte past the limit to tell an
// answer of exactly the limit from a longer one.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = -1
		return n, ErrTooLarge
	}
	b.left -= int64(n)
	return n, err
}
