package httpserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// run serves until the returned function is called, which answers Run's error.
func run(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-ended }
}

func fetch(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestNew_bindsBothListenersOrNeither(t *testing.T) {
	taken := newServer(t, Options{MetricsListen: "127.0.0.1:0"})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	for name, opts := range map[string]Options{
		"public port taken":  {Listen: taken.Addr().String(), MetricsListen: address},
		"metrics port taken": {Listen: address, MetricsListen: taken.MetricsAddr().String()},
		"bad origin":         {Listen: address, Origin: "nonsense"},
		"no key file":        {Listen: address, TLSCert: "cert.pem"},
		"missing files":      {Listen: address, TLSCert: "missing.pem", TLSKey: "missing.pem"},
	} {
		if s, err := New(opts); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
		again, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("%s: the free port is still bound: %v", name, err)
		}
		_ = again.Close()
	}
}

func TestNew_refusesMetricsOutsideOfLoopback(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0"} {
		if s, err := New(Options{Listen: "127.0.0.1:0", MetricsListen: listen}); err == nil {
			s.Close()
			t.Errorf("%s: accepted", listen)
		}
	}
	newServer(t, Options{MetricsListen: "0.0.0.0:0", AllowRemoteMetrics: true})
}

func TestOrigin_isDerivedOnLoopbackOnly(t *testing.T) {
	s := newServer(t, Options{})
	if want := "http://" + s.Addr().String(); s.Origin().String() != want {
		t.Errorf("origin %s, want %s", s.Origin(), want)
	}
	everywhere := newServer(t, Options{Listen: "0.0.0.0:0"})
	if o := everywhere.Origin(); !o.Loopback() || !strings.HasPrefix(o.String(), "http://127.0.0.1:") {
		t.Errorf("origin of all addresses is %s", o)
	}
}

func TestRun_answersOnTheMetricsListener(t *testing.T) {
	broken := errors.New("database is away")
	var away atomic.Bool
	s := newServer(t, Options{MetricsListen: "127.0.0.1:0", Ready: func() error {
		if away.Load() {
			return broken
		}
		return nil
	}})
	stop := run(t, s)
	base := "http://" + s.MetricsAddr().String()
	if code, body := fetch(t, http.DefaultClient, base+"/metrics"); code != 200 || !strings.Contains(body, "parley_build_info{") || !strings.Contains(body, `parley_http_requests_total{code="2xx",owner="none"} 0`) {
		t.Errorf("/metrics: %d", code)
	}
	if code, _ := fetch(t, http.DefaultClient, base+"/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	if code, body := fetch(t, http.DefaultClient, base+"/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	away.Store(true)
	if code, body := fetch(t, http.DefaultClient, base+"/readyz"); code != 503 || !strings.Contains(body, broken.Error()) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	r, _ := http.NewRequest(http.MethodGet, base+"/metrics", nil)
	r.Host = "rebound.example"
	if response, err := http.DefaultClient.Do(r); err != nil || response.StatusCode != 421 {
		t.Errorf("foreign Host: %v, %v", response.StatusCode, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestRun_finishesOpenRequestsAndRefusesNewOnes(t *testing.T) {
	s := newServer(t, Options{MetricsListen: "127.0.0.1:0"})
	entered, release := make(chan struct{}), make(chan struct{})
	if err := s.Handle(Route{Pattern: "/slow", Owner: "venue", Summary: "slow", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		if r.Context().Err() != nil {
			t.Error("the request's context ended before its answer")
		}
		fmt.Fprint(w, "done")
	})}); err != nil {
		t.Fatal(err)
	}
	stop := run(t, s)
	answers := make(chan string, 1)
	go func() {
		response, err := http.Get(s.Origin().String() + "/slow")
		if err != nil {
			answers <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answers <- string(body)
	}()
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	if code, body := fetch(t, http.DefaultClient, "http://"+s.MetricsAddr().String()+"/readyz"); code != 503 || body != "draining\n" {
		t.Errorf("/readyz while draining: %d %s", code, body)
	}
	close(release)
	if got := <-answers; got != "done" {
		t.Errorf("open request: %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("ran twice")
	}
	if err := s.Handle(Route{Pattern: "/x", Owner: "venue", Summary: "x", Handler: says("x")}); !errors.Is(err, ErrRoute) {
		t.Errorf("route after Run: %v", err)
	}
}

func TestRun_endsUpgradedConnections(t *testing.T) {
	s := newServer(t, Options{DrainTimeout: 200 * time.Millisecond})
	accept := func(then func(ctx context.Context, conn *websocket.Conn)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := w.(http.Hijacker); !ok {
				t.Error("libraries that ask for http.Hijacker are not served")
			}
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			then(r.Context(), conn)
		})
	}
	if err := s.Handle(
		Route{Pattern: "/polite", Owner: "relay", Summary: "ends with its context", Handler: accept(func(ctx context.Context, conn *websocket.Conn) {
			<-ctx.Done()
			_ = conn.Close(websocket.StatusGoingAway, "bye")
		})},
		Route{Pattern: "/stubborn", Owner: "relay", Summary: "never ends", Handler: accept(func(_ context.Context, conn *websocket.Conn) {
			for {
				if _, _, err := conn.Read(context.Background()); err != nil {
					return
				}
			}
		})},
	); err != nil {
		t.Fatal(err)
	}
	stop := run(t, s)
	closed := map[string]chan error{"/polite": make(chan error, 1), "/stubborn": make(chan error, 1)}
	for path, end := range closed {
		conn, _, err := websocket.Dial(t.Context(), s.Origin().WebSocket()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _, err := conn.Read(context.Background()); end <- err }()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-closed["/polite"]; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the polite handler had no time for its farewell: %v", err)
	}
	if err := <-closed["/stubborn"]; err == nil {
		t.Error("the stubborn handler's connection is still open")
	}
}

func TestRun_liftsTheDeadlinesOfUpgradedConnections(t *testing.T) {
	s := newServer(t, Options{})
	if err := s.Handle(Route{Pattern: "/", Owner: "relay", Summary: "raw", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	})}); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n", s.Origin().Host())
	buffer := make([]byte, 1024)
	if n, err := conn.Read(buffer); err != nil || !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 101")) {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
	fmt.Fprint(conn, "ping")
	if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "ping" {
		t.Errorf("%q, %v", buffer[:n], err)
	}
}

// writePair writes a new self-signed certificate and returns its serial number.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLS_picksUpARenewedCertificateAndKeepsTheOldOneFromABrokenFile(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, certFile, keyFile, 1)
	now := time.Unix(1_800_000_000, 0)
	c := &certificate{certFile: certFile, keyFile: keyFile, now: func() time.Time { return now }, logger: slog.New(slog.DiscardHandler)}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		pair, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.SerialNumber.Int64()
	}
	writePair(t, certFile, keyFile, 2)
	touch := func(second int64) {
		if err := os.Chtimes(certFile, time.Time{}, time.Unix(second, 0)); err != nil {
			t.Fatal(err)
		}
	}
	touch(1000)
	if got := serial(); got != 1 {
		t.Errorf("looked at the file too early: certificate %d", got)
	}
	now = now.Add(certificateAge)
	if got := serial(); got != 2 {
		t.Errorf("certificate %d after the renewal", got)
	}
	if err := os.WriteFile(certFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(2000)
	now = now.Add(certificateAge)
	if got := serial(); got != 2 {
		t.Errorf("certificate %d after a broken file", got)
	}
}

func TestTLS_servesTheFiles(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, certFile, keyFile, 7)
	s := newServer(t, Options{TLSCert: certFile, TLSKey: keyFile})
	if !s.Origin().Secure() {
		t.Errorf("origin %s", s.Origin())
	}
	if err := s.Handle(Route{Pattern: "/", Owner: "venue", Summary: "x", Handler: says("secure")}); err != nil {
		t.Fatal(err)
	}
	stop := run(t, s)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(certFile)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if code, body := fetch(t, client, s.Origin().String()); code != 200 || body != "secure" {
		t.Errorf("%d %s", code, body)
	}
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}
