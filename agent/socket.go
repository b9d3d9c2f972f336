package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Limits of the socket.
const (
	maxRequest     = 4 << 20 // bytes of one request body
	maxConnections = 64
	headerTimeout  = 5 * time.Second
	drainTimeout   = 5 * time.Second
)

// maxSocketPath is what Linux's sockaddr_un holds, with its final zero.
const maxSocketPath = 107

const newSocketSuffix = ".new"

// listenSocket binds <home>/agent.sock for its owner alone. The caller holds
// the lock, so a file already there is a leftover.
func listenSocket(home string) (*net.UnixListener, error) {
	path := SocketPath(home)
	if len(path+newSocketSuffix) > maxSocketPath {
		return nil, unavailable("the path %s is longer than a socket's name may be (%d bytes)", path, maxSocketPath).
			hint("use a shorter home: PARLEY_HOME=/short/path")
	}
	// Bound under another name and renamed once it is closed to others, so that
	// whoever sees it under its own name sees it so.
	fresh := path + newSocketSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on the socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		listener.Close()
		return nil, fmt.Errorf("closing the socket to others: %w", err)
	}
	return listener, nil
}

// ownerListener accepts connections of one user and counts the others away.
type ownerListener struct {
	*net.UnixListener
	uid      int
	peer     func(*net.UnixConn) (int, error)
	slots    chan struct{}
	rejected func(reason string)
}

func newOwnerListener(l *net.UnixListener, rejected func(string)) *ownerListener {
	return &ownerListener{
		UnixListener: l, uid: os.Getuid(), peer: peerUID,
		slots: make(chan struct{}, maxConnections), rejected: rejected,
	}
}

// Accept returns the next connection whose peer is the owner. Others are closed
// without a byte.
func (l *ownerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := l.peer(conn); err != nil || uid != l.uid {
			l.rejected("peer")
			conn.Close()
			continue
		}
		select {
		case l.slots <- struct{}{}:
			return &slotConn{Conn: conn, slots: l.slots}, nil
		default:
			l.rejected("full")
			conn.Close()
		}
	}
}

// slotConn gives its slot back once.
type slotConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *slotConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}

// serve answers the API on listener until ctx ends, then lets running requests
// finish for a few seconds.
func (a *Agent) serve(ctx context.Context, listener *net.UnixListener) error {
	requests, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    8 << 10,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(newOwnerListener(listener, a.metrics.rejected)) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the socket: %w", err)
	case <-ctx.Done():
	}
	a.feed.close() // ends the live streams and the waits, so that Shutdown can finish
	drain, cancel := context.WithTimeout(requests, drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.log.WarnContext(drain, "requests cut short at shutdown", "err", err)
		server.Close()
	}
	return nil
}

// handler is the JSON API: POST /v1/<operation>, GET /v1/events and the
// document that describes them. Whoever reaches it acts as the agent; it
// belongs on the socket only.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	for _, op := range operations {
		handler := a.operationHandler(op)
		if op.stream != nil {
			handler = a.streamHandler(op)
		}
		mux.Handle("POST /v1/"+op.Name, handler)
	}
	mux.HandleFunc("GET /v1/events", a.serveEvents)
	mux.HandleFunc("GET /openapi.json", serveOpenAPI)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, notFound("no operation %s %s", r.Method, strings.TrimPrefix(r.URL.Path, "/v1/")))
	})
	return mux
}

func (a *Agent) operationHandler(op Operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readRequest(w, r)
		if err != nil {
			a.metrics.request(op.Name, CodeInvalid)
			writeProblem(w, err)
			return
		}
		response, err := op.call(r.Context(), a, body)
		if err != nil {
			writeProblem(w, a.failed(r.Context(), op, err))
			return
		}
		a.metrics.request(op.Name, "ok")
		writeJSON(w, http.StatusOK, "application/json", response)
	})
}

// failed counts and logs the failure of an operation.
func (a *Agent) failed(ctx context.Context, op Operation, err error) *Error {
	e := asError(err)
	a.metrics.request(op.Name, e.Code)
	if e.Code == CodeInternal && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "operation failed", "operation", op.Name, "err", err)
	}
	return e
}

// streamHandler answers with lines of JSON. What fails before the first line is
// a problem document; later the connection is cut, so that no part passes for
// the whole.
func (a *Agent) streamHandler(op Operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readRequest(w, r)
		if err != nil {
			a.metrics.request(op.Name, CodeInvalid)
			writeProblem(w, err)
			return
		}
		begun := false
		begin := func() {
			if !begun {
				w.Header().Set("Content-Type", "application/x-ndjson")
				w.Header().Set("Cache-Control", "no-store")
				begun = true
			}
		}
		err = op.stream(r.Context(), a, body, func(line []byte) error {
			begin()
			_, err := w.Write(append(line, '\n'))
			return err
		})
		switch {
		case err == nil:
			begin() // an answer without a line
			a.metrics.request(op.Name, "ok")
		case begun:
			a.failed(r.Context(), op, err)
			panic(http.ErrAbortHandler)
		default:
			writeProblem(w, a.failed(r.Context(), op, err))
		}
	})
}

// readRequest takes one bounded application/json body; an empty one means {}.
func readRequest(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, invalid("the Content-Type must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, invalid("the request is longer than %d bytes or broken off", maxRequest)
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	return body, nil
}

// problemDocument is the RFC 9457 form of Error.
type problemDocument struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   Code   `json:"code"`
	Hint   string `json:"hint,omitempty"`
}

func writeProblem(w http.ResponseWriter, err error) {
	e := asError(err)
	status := e.Code.status()
	writeJSON(w, status, "application/problem+json", problemDocument{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: e.Detail, Code: e.Code, Hint: e.Hint,
	})
}

func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = encodeJSON(w, v) // the reader is gone; nothing is left to tell
}

// encodeJSON writes one document and a line end. A list that is not there is
// an empty one: programs need not look for null.
func encodeJSON(w io.Writer, v any) error {
	enc := jsontext.NewEncoder(w, jsontext.EscapeForHTML(false))
	return json.MarshalEncode(enc, v, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), json.FormatNilSliceAsNull(false))
}
