package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// ErrNoDaemon says that nothing answers on the home's socket.
var ErrNoDaemon = errors.New("agent: no daemon runs in this home")

// Client speaks to the daemon of a home over its socket.
type Client struct {
	http *http.Client
}

// Dial finds the daemon of a home. ErrNoDaemon when there is none.
func Dial(ctx context.Context, home string) (*Client, error) {
	path := SocketPath(home)
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED) || len(path) > maxSocketPath {
			return nil, ErrNoDaemon
		}
		return nil, unavailable("reaching the daemon: %w", err)
	}
	conn.Close()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
		MaxIdleConns: 1,
	}
	return &Client{http: &http.Client{Transport: transport}}, nil
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Call runs one operation on the daemon. response is a pointer or nil. Failures
// of the operation are *Error.
func (c *Client) Call(ctx context.Context, operation string, request, response any) error {
	answer, err := c.post(ctx, operation, request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return unavailable("reading the daemon's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return readProblem(data, answer.StatusCode)
	}
	if response == nil {
		return nil
	}
	return json.Unmarshal(data, response)
}

// post sends the request of one operation.
func (c *Client) post(ctx context.Context, operation string, request any) (*http.Response, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/"+operation, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, unavailable("speaking to the daemon: %w", err)
	}
	return answer, nil
}

// Stream runs an operation that answers line by line, and hands each line,
// without its end, to emit, which must not keep it.
func (c *Client) Stream(ctx context.Context, operation string, request any, emit func(line []byte) error) error {
	answer, err := c.post(ctx, operation, request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return readProblem(data, answer.StatusCode)
	}
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil:
			return unavailable("reading the daemon's answer: %w", err)
		}
		if err := emit(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
	}
}

func readProblem(data []byte, status int) error {
	var p problemDocument
	if err := json.Unmarshal(data, &p); err != nil || p.Code == "" {
		return unavailable("the daemon answered with status %d", status)
	}
	return &Error{Code: p.Code, Detail: p.Detail, Hint: p.Hint}
}

// Events hands each notice after the given number to fn until ctx ends, the
// daemon stops or fn returns an error.
func (c *Client) Events(ctx context.Context, after int64, fn func(Notice) error) error {
	url := fmt.Sprintf("http://agent/v1/events?after=%d", after)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("building the request: %w", err)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return unavailable("speaking to the daemon: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return readProblem(data, answer.StatusCode)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var n Notice
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return fmt.Errorf("reading a notice: %w", err)
		}
		if err := fn(n); err != nil {
			return err
		}
	}
	return lines.Err()
}
