package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/wellknown"
)

// Bounds of one examination.
const (
	stepTimeout   = 15 * time.Second
	clockWarning  = 10 * time.Second
	clockWindow   = 60 * time.Second // of signed requests (NIP-98)
	certificateOK = 14 * 24 * time.Hour
	metricsPort   = "9417"
)

// ErrOrigin means text that is not the origin of a server.
var ErrOrigin = errors.New("doctor: not an origin such as https://parley.example")

// Options of Server.
type Options struct {
	Now  func() time.Time // nil is time.Now
	TLS  *tls.Config      // nil trusts what the system trusts
	Done func(Check)      // told of each check as it ends; nil is nobody
}

// examination is one run.
type examination struct {
	opts     Options
	origin   *url.URL
	address  string // host:port
	dialer   *egress.Dialer
	client   *http.Client
	document *wellknown.Document // nil until it was read
	checks   []Check
	dead     bool // nothing answers: what follows is skipped
}

// Server looks at the server of an origin and returns what was found, in the
// order of looking. ErrOrigin when the text is none; what is wrong with the
// server is in the checks.
func Server(ctx context.Context, origin string, opts Options) ([]Check, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: %.100q", ErrOrigin, origin)
	}
	u.Path = ""
	x := &examination{opts: opts, origin: u, address: hostPort(u), dialer: egress.New(egress.Options{AllowPrivate: true, AllowLoopback: true})}
	x.client = x.httpClient()
	defer x.client.CloseIdleConnections()
	for _, step := range []func(context.Context){
		x.lookAtName, x.lookAtPorts, x.lookAtCertificate, x.lookAtClock, x.lookAtDocument,
		x.lookAtRelay, x.lookAtCarriers, x.lookAtMetrics,
	} {
		stepCtx, cancel := context.WithTimeout(ctx, stepTimeout)
		step(stepCtx)
		cancel()
		if ctx.Err() != nil {
			return x.checks, context.Cause(ctx)
		}
	}
	return x.checks, nil
}

func (x *examination) found(c Check) {
	x.checks = append(x.checks, c)
	if x.opts.Done != nil {
		x.opts.Done(c)
	}
}

func (x *examination) httpClient() *http.Client {
	if x.opts.TLS == nil {
		return x.dialer.HTTPClient()
	}
	return &http.Client{Timeout: stepTimeout, Transport: &http.Transport{DialContext: x.dialer.DialContext, TLSClientConfig: x.opts.TLS}}
}

// hostPort is where an origin is reached.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "mqtt": "1883", "mqtts": "8883"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// lookAtName resolves the host.
func (x *examination) lookAtName(ctx context.Context) {
	host := x.origin.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		x.found(skipped("name", "the origin is an address, no name"))
		return
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addresses) == 0 {
		x.dead = true
		x.found(bad("name", "set an A or AAAA record for it, and wait until it has spread", "the name %s is not known here", host))
		return
	}
	var texts, private []string
	for _, a := range addresses {
		texts = append(texts, a.Unmap().String())
		if a.IsPrivate() || a.IsLinkLocalUnicast() {
			private = append(private, a.Unmap().String())
		}
	}
	if len(private) > 0 && x.origin.Scheme == "https" {
		x.found(warning("name", "agents elsewhere refuse names that lead to private addresses", "%s is private", strings.Join(private, ", ")))
		return
	}
	x.found(good("name", "%s is %s", host, strings.Join(texts, ", ")))
}

// lookAtPorts connects to every address of the name: a client may take any.
func (x *examination) lookAtPorts(ctx context.Context) {
	if x.dead {
		x.found(skipped("port", "the name is not known"))
		return
	}
	host, port, _ := net.SplitHostPort(x.address)
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		addresses = []string{host}
	}
	var silent []string
	for _, address := range addresses {
		conn, err := x.dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err != nil {
			silent = append(silent, address)
			continue
		}
		_ = conn.Close()
	}
	switch {
	case len(silent) == len(addresses):
		x.dead = true
		x.found(bad("port", "is parleyd, or the proxy in front of it, up, and does a firewall let port "+port+" through?", "nothing answers at port %s of %s", port, strings.Join(silent, ", ")))
	case len(silent) > 0:
		x.found(bad("port", "take the address out of DNS, or let the server listen there", "nothing answers at port %s of %s, which DNS names as well", port, strings.Join(silent, ", ")))
	default:
		x.found(good("port", "port %s answers at %s", port, strings.Join(addresses, ", ")))
	}
}

// lookAtCertificate makes a TLS connection of its own.
func (x *examination) lookAtCertificate(ctx context.Context) {
	switch {
	case x.dead:
		x.found(skipped("tls", "nothing answers"))
		return
	case x.origin.Scheme == "http":
		x.found(skipped("tls", "the origin is plain http, which is for one machine"))
		return
	}
	state, err := x.handshake(ctx, x.address, x.origin.Hostname())
	if err != nil {
		x.found(bad("tls", "renew the certificate, with the whole chain in tls.cert_file", "%v", err))
		return
	}
	leaf := state.PeerCertificates[0]
	left := leaf.NotAfter.Sub(x.opts.Now())
	version := tls.VersionName(state.Version)
	if left < certificateOK {
		x.found(warning("tls", "renew it; a new file is picked up within a minute", "%s, the certificate ends on %s", version, leaf.NotAfter.UTC().Format(time.DateOnly)))
		return
	}
	x.found(good("tls", "%s, the certificate holds until %s", version, leaf.NotAfter.UTC().Format(time.DateOnly)))
}

func (x *examination) handshake(ctx context.Context, address, name string) (tls.ConnectionState, error) {
	raw, err := x.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer raw.Close()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if x.opts.TLS != nil {
		config = x.opts.TLS.Clone()
	}
	config.ServerName = name
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return tls.ConnectionState{}, err
	}
	return conn.ConnectionState(), nil
}

// lookAtClock compares the Date of an answer with the own clock.
func (x *examination) lookAtClock(ctx context.Context) {
	if x.dead {
		x.found(skipped("clock", "nothing answers"))
		return
	}
	before := x.opts.Now()
	answer, err := x.get(ctx, x.origin.String()+wellknown.Path)
	if err != nil {
		x.found(skipped("clock", "no answer: "+cause(err).Error()))
		return
	}
	_ = answer.Body.Close()
	after := x.opts.Now()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		x.found(skipped("clock", "the answer has no date"))
		return
	}
	middle := before.Add(after.Sub(before) / 2)
	off := date.Add(500 * time.Millisecond).Sub(middle) // a date has whole seconds
	hint := "let the system set both clocks (NTP)"
	switch {
	case off.Abs() > clockWindow:
		x.found(bad("clock", hint, "the server's clock is %s from this machine's; signed requests hold for a minute", off.Abs().Round(time.Second)))
	case off.Abs() > clockWarning:
		x.found(warning("clock", hint, "the server's clock is %s from this machine's", off.Abs().Round(time.Second)))
	default:
		x.found(good("clock", "within %s of this machine's", (off.Abs() + after.Sub(before)/2 + 500*time.Millisecond).Round(100*time.Millisecond)))
	}
}

func (x *examination) get(ctx context.Context, address string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return x.client.Do(r)
}

// lookAtDocument reads and checks the signed document.
func (x *examination) lookAtDocument(ctx context.Context) {
	if x.dead {
		x.found(skipped("document", "nothing answers"))
		return
	}
	const look = "is this a Parley server, and does the proxy pass /.well-known/ on with the Host header unchanged?"
	answer, err := x.get(ctx, x.origin.String()+wellknown.Path)
	if err != nil {
		x.found(bad("document", look, "%v", cause(err)))
		return
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, wellknown.MaxSize+1))
	if err != nil || answer.StatusCode != http.StatusOK {
		x.found(bad("document", look, "%s is answered with status %d", wellknown.Path, answer.StatusCode))
		return
	}
	document, err := wellknown.Open(data)
	if err != nil {
		x.found(bad("document", look, "%v", err))
		return
	}
	x.document = document
	if document.Origin != strings.TrimSuffix(x.origin.String(), "/") {
		x.found(bad("document", "agents must use the origin that the server names, or the server be given the other one", "the server calls itself %s", document.Origin))
		return
	}
	x.found(good("document", "signed with the key of fingerprint %s", document.Fingerprint()))
}

// lookAtMetrics tries the port that only the operator should reach.
func (x *examination) lookAtMetrics(ctx context.Context) {
	host := x.origin.Hostname()
	if address, err := netip.ParseAddr(host); host == "localhost" || err == nil && address.IsLoopback() {
		x.found(skipped("metrics", "the server is on this machine"))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := x.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, metricsPort))
	if err != nil {
		x.found(good("metrics", "port %s is closed to this machine", metricsPort))
		return
	}
	_ = conn.Close()
	x.found(warning("metrics", "metrics have no password: let metrics.listen stay on loopback, or put a firewall in front", "port %s answers to this machine", metricsPort))
}
