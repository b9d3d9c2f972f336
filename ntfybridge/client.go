package ntfybridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// Sizes in bytes.
const (
	MaxText   = 4095 // of a message of text; 4096 are already an attachment
	MaxBinary = 4096 // of a message with up=1; what is longer is cut off silently

	maxMessage = 64 << 10  // that is handed on
	maxAnswer  = 512 << 10 // to a publication or a refusal
	maxLine    = 512 << 10 // of a stream: a message with its JSON around
)

// Client talks to the servers the owner configured, and to those that others
// named, which are dialed under the strict rule and get no credential.
type Client struct {
	own, others *http.Client
	credentials map[string]Credential // by origin
	now         func() time.Time
	timeout     time.Duration
	metrics     *metrics

	mu    sync.Mutex
	known map[string]bool // origins the owner configured
}

// newClient makes the client of a carrier, a notifier or a side.
func newClient(dialer *egress.Dialer, credentials map[string]Credential, origins []string, now func() time.Time, m *metrics) (*Client, error) {
	if dialer == nil {
		return nil, errors.New("ntfybridge: Options.Dialer is required")
	}
	if now == nil {
		now = time.Now
	}
	c := &Client{
		own: httpClient(dialer), others: httpClient(dialer.FromCard()), credentials: make(map[string]Credential),
		known: make(map[string]bool), now: now, timeout: 30 * time.Second, metrics: m,
	}
	for origin, credential := range credentials {
		parsed, err := ParseOrigin(origin)
		if err != nil {
			return nil, fmt.Errorf("ntfybridge: the origin of a credential: %w", err)
		}
		c.credentials[parsed], c.known[parsed] = credential, true
	}
	c.knows(origins)
	return c, nil
}

// knows adds origins that the owner configured.
func (c *Client) knows(origins []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, origin := range origins {
		c.known[origin] = true
	}
}

// to is the HTTP client for an origin.
func (c *Client) to(origin string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[origin] {
		return c.own
	}
	return c.others
}

// httpClient has no limit for a whole exchange, since streams stay open.
func httpClient(dialer *egress.Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 60 * time.Second,
			MaxIdleConns: 64, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close ends the connections that nothing uses.
func (c *Client) Close() {
	c.own.CloseIdleConnections()
	c.others.CloseIdleConnections()
}

// do sends a request with the credential of its origin, and turns everything
// but 200 into an error. The caller closes the body.
func (c *Client) do(origin string, r *http.Request) (*http.Response, error) {
	if err := c.credentials[origin].authorize(r); err != nil {
		return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	response, err := c.to(origin).Do(r)
	if err != nil {
		return nil, exchangeError(r.Context(), err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	return nil, statusError(response)
}

// exchangeError drops the URL, since the topic in it is what permits writing.
func exchangeError(ctx context.Context, err error) error {
	class := carrier.ErrTransient
	if errors.Is(err, egress.ErrRefusedAddress) {
		class = carrier.ErrPermanent
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return fmt.Errorf("%w: %w", class, err)
}

// answerError is a refusal of a server.
type answerError struct {
	status, code int
	after        time.Duration // of Retry-After; 0 for none
}

// Error implements error. The server's own words are not repeated.
func (e *answerError) Error() string {
	return fmt.Sprintf("ntfy answered %d, code %d", e.status, e.code)
}

// Unwrap says whether trying again can help.
func (e *answerError) Unwrap() error {
	switch e.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return carrier.ErrPermanent
	}
	return carrier.ErrTransient
}

// Codes of ntfy that mean more than their status.
const (
	codeSince      = 40008 // the position is malformed
	codeDailyLimit = 42908 // no more messages today
)

// dailyPause is how long a server is left alone that takes no more today.
const dailyPause = time.Hour

func statusError(response *http.Response) error {
	e := &answerError{status: response.StatusCode}
	var body struct {
		Code int `json:"code"`
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err == nil && json.Unmarshal(data, &body) == nil {
		e.code = body.Code
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	if e.code == codeDailyLimit {
		e.after = cmp.Or(e.after, dailyPause)
	}
	return e
}
