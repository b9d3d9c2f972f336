package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// loris sends a request piece by piece, for ever, and reports how the server
// ended it: what it had answered before it closed the connection.
func loris(t *testing.T, address, begin, piece string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, begin); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for piece != "" {
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // the pace of the attack
			}
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(conn)
	close(stop)
	<-stopped
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Errorf("after %.40q the server keeps the connection", begin)
	}
	return string(answer)
}

func TestSlowClientsAreCutAndOthersServed(t *testing.T) {
	s := newServer(t, Options{DrainTimeout: time.Second})
	if (s.times != times{readHeaderTimeout, readTimeout, writeTimeout, idleTimeout}) {
		t.Errorf("times %v", s.times)
	}
	s.times = times{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond}
	read, written := make(chan error, 10), make(chan error, 10)
	for _, route := range []Route{
		{Pattern: "/take", Method: http.MethodPost, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		})},
		{Pattern: "/give", Method: http.MethodGet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			block := strings.Repeat("x", 1<<20)
			for range 64 { // more than the kernel buffers
				if _, err := io.WriteString(w, block); err != nil {
					written <- err
					return
				}
			}
			written <- nil
		})},
		{Pattern: "/word", Method: http.MethodGet, Handler: says("word")},
	} {
		route.Owner, route.Summary = "venue", "a test"
		if err := s.Handle(route); err != nil {
			t.Fatal(err)
		}
	}
	stop := run(t, s)
	address, host := s.Addr().String(), "Host: "+s.Origin().Host()+"\r\n"
	upgrade := "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for name, c := range map[string][2]string{
		"silence":              {"", ""},
		"a stalled line":       {"GET /wo", ""},
		"trickled headers":     {"GET /word HTTP/1.1\r\n" + host, "X-A: b\r\n"},
		"a stalled handshake":  {upgrade, ""},
		"a trickled handshake": {upgrade + "Sec-WebSocket-Key: ", "A"},
		"after an answer":      {"GET /word HTTP/1.1\r\n" + host + "\r\n", ""},
		"a stalled body":       {"POST /take HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\nx", ""},
		"a trickled body":      {"POST /take HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\n", "x"},
	} {
		answer := loris(t, address, c[0], c[1])
		if got := strings.Contains(answer, "200 OK"); got != (name == "after an answer") && !strings.HasSuffix(name, "body") {
			t.Errorf("%s: answered %.100q", name, answer)
		}
		if strings.HasSuffix(name, "body") {
			if err := <-read; err == nil {
				t.Errorf("%s: the handler read a whole body", name)
			}
		}
		if code, body := fetch(t, http.DefaultClient, s.Origin().String()+"/word"); code != 200 || body != "word" {
			t.Errorf("%s: others are answered %d", name, code)
		}
	}
	conn, err := net.Dial("tcp", address) // it asks and never reads
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /give HTTP/1.1\r\n%s\r\n", host)
	if err := <-written; err == nil {
		t.Error("an answer that nobody reads was written to the end")
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}
