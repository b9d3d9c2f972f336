package nostr

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// Bounds of one connection.
const (
	maxFrame      = 256 << 10 // bytes of one message of the relay
	maxNonsense   = 16        // malformed frames before the connection is dropped
	queueLength   = 64        // events of a subscription that wait to be read
	writeTimeout  = 10 * time.Second
	pingPeriod    = 30 * time.Second
	pingTimeout   = 15 * time.Second
	challengeWait = 3 * time.Second  // for a relay that authenticates clients
	answerWait    = 30 * time.Second // for the next frame of an answer that is not complete
)

var (
	errClosed      = errors.New("nostr: connection closed")
	errNonsense    = errors.New("nostr: relay sends malformed frames")
	errSilent      = errors.New("nostr: relay does not answer")
	errNoChallenge = errors.New("nostr: relay sent no challenge")
)

// connection is one WebSocket to a relay.
type connection struct {
	url     string
	ws      *websocket.Conn
	client  *Client
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	stalled atomic.Bool // the reader waits for a subscription's reader

	mu         sync.Mutex
	serial     int
	requests   map[string]*request
	replies    map[string]chan frame // OKs by event id
	challenge  string
	challenged chan struct{} // closed when there is a challenge
	authMu     sync.Mutex
	authed     bool // guarded by authMu
}

// connect dials a relay and starts reading. The connection lives until it is
// closed, the relay ends it or the client is closed.
func (c *Client) connect(ctx context.Context, url string) (*connection, error) {
	if c.ctx.Err() != nil {
		return nil, errClosed
	}
	dialCtx, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
	defer cancel()
	ws, _, err := websocket.Dial(dialCtx, url, &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		c.metrics.dials.WithLabelValues("failed").Inc()
		return nil, dialError(err)
	}
	c.metrics.dials.WithLabelValues("ok").Inc()
	ws.SetReadLimit(maxFrame)
	conn := &connection{
		url: url, ws: ws, client: c, requests: make(map[string]*request),
		replies: make(map[string]chan frame), challenged: make(chan struct{}),
	}
	conn.ctx, conn.cancel = context.WithCancelCause(c.ctx)
	c.metrics.connections.Inc()
	c.group.Go(conn.read)
	c.group.Go(conn.keepAlive)
	return conn, nil
}

// close ends the connection; the first cause stays.
func (c *connection) close(cause error) {
	c.cancel(cause)
	_ = c.ws.CloseNow()
}

// read dispatches what the relay sends until the connection ends.
func (c *connection) read() {
	defer c.client.metrics.connections.Dec()
	defer c.ws.CloseNow() //nolint:errcheck // nothing is left to be said
	nonsense := 0
	for {
		_, data, err := c.ws.Read(c.ctx)
		if err != nil {
			c.cancel(fmt.Errorf("%w: %w", errClosed, err))
			return
		}
		f, err := parseFrame(data)
		if err != nil {
			if nonsense++; nonsense > maxNonsense {
				c.cancel(errNonsense)
				return
			}
			continue
		}
		c.dispatch(f)
	}
}

func (c *connection) dispatch(f frame) {
	switch f.label {
	case labelEvent, labelEOSE, labelClosed, labelNegMsg, labelNegErr:
		c.mu.Lock()
		r := c.requests[f.id]
		c.mu.Unlock()
		if r != nil {
			c.hand(r, f)
		}
	case labelOK:
		c.mu.Lock()
		reply := c.replies[f.id]
		delete(c.replies, f.id)
		c.mu.Unlock()
		if reply != nil {
			reply <- f // has room for one
		}
	case labelAuth:
		c.mu.Lock()
		if c.challenge == "" && f.text != "" {
			close(c.challenged)
		}
		if f.text != "" {
			c.challenge = f.text // the newest one counts
		}
		c.mu.Unlock()
	case labelNotice:
		c.client.logger.DebugContext(c.ctx, "notice of a relay", "text", clip(f.text))
	}
}

// hand gives a frame to a request and waits while its queue is full: the relay
// is slowed down by TCP, nothing is dropped.
func (c *connection) hand(r *request, f frame) {
	select {
	case r.frames <- f:
		return
	default:
	}
	c.stalled.Store(true)
	defer c.stalled.Store(false)
	select {
	case r.frames <- f:
	case <-r.done:
	case <-c.ctx.Done():
	}
}

// keepAlive notices a peer that is gone. While the reader is stalled by our
// own side no pong could be read, so none is asked for.
func (c *connection) keepAlive() {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		if c.stalled.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil && !c.stalled.Load() {
			c.close(fmt.Errorf("%w: no pong: %w", errClosed, err))
			return
		}
	}
}

// write sends one frame.
func (c *connection) write(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, data); err != nil {
		c.close(fmt.Errorf("%w: %w", errClosed, err))
		return c.failure(ctx, err)
	}
	return nil
}

// failure prefers the reason why the connection ended.
func (c *connection) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// submit sends an EVENT or AUTH with the event's exact bytes and waits for the
// OK that names it.
func (c *connection) submit(ctx context.Context, label, id string, event []byte) error {
	reply, err := c.expectReply(id)
	if err != nil {
		return err
	}
	defer c.forgetReply(id)
	if err := c.write(ctx, eventFrame(label, event)); err != nil {
		return err
	}
	f, err := c.nextReply(ctx, reply)
	if err != nil || f.ok {
		return err
	}
	return refusal(f.text)
}

// eventFrame is an EVENT or AUTH with the event's exact bytes.
func eventFrame(label string, event []byte) []byte {
	data := make([]byte, 0, len(event)+16)
	return append(append(append(data, `["`+label+`",`...), event...), ']')
}

// expectReply makes room for the OK that names an event; forgetReply undoes it.
func (c *connection) expectReply(id string) (chan frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replies[id] != nil {
		return nil, errors.New("nostr: the event is being sent already")
	}
	reply := make(chan frame, 1)
	c.replies[id] = reply
	return reply, nil
}

func (c *connection) forgetReply(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.replies, id)
}

// nextReply waits for an OK.
func (c *connection) nextReply(ctx context.Context, reply chan frame) (frame, error) {
	select {
	case f := <-reply:
		return f, nil
	default:
	}
	select {
	case f := <-reply:
		return f, nil
	case <-c.ctx.Done():
		return frame{}, context.Cause(c.ctx)
	case <-ctx.Done():
		return frame{}, context.Cause(ctx)
	}
}

// request is an open REQ.
type request struct {
	id      string
	conn    *connection
	filters nostr.Filters
	frames  chan frame
	done    chan struct{}
	once    sync.Once
	first   *frame // read ahead; only the reader of next touches it
}

// expect makes a request whose answers are awaited from now on.
func (c *connection) expect(filters nostr.Filters) *request {
	r := &request{conn: c, filters: filters, frames: make(chan frame, queueLength), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	r.id = "r" + strconv.Itoa(c.serial)
	c.requests[r.id] = r
	return r
}

// open sends a REQ.
func (c *connection) open(ctx context.Context, filters nostr.Filters) (*request, error) {
	r := c.expect(filters)
	data := append([]byte(`["REQ","`), r.id...)
	data = append(data, '"')
	for _, f := range filters {
		text, err := f.MarshalJSON()
		if err != nil {
			r.forget()
			return nil, fmt.Errorf("nostr: encoding a filter: %w", err)
		}
		data = append(append(data, ','), text...)
	}
	if err := c.write(ctx, append(data, ']')); err != nil {
		r.forget()
		return nil, err
	}
	return r, nil
}

// next waits for the next EVENT, EOSE or CLOSED of the request.
func (r *request) next(ctx context.Context) (frame, error) {
	if f := r.first; f != nil {
		r.first = nil
		return *f, nil
	}
	select {
	case f := <-r.frames:
		return f, nil
	default:
	}
	select {
	case f := <-r.frames:
		return f, nil
	case <-r.conn.ctx.Done():
		return frame{}, context.Cause(r.conn.ctx)
	case <-ctx.Done():
		return frame{}, context.Cause(ctx)
	}
}

// nextStored is next for an answer that is not complete: the relay owes a
// frame soon.
func (r *request) nextStored(ctx context.Context) (frame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait, errSilent)
	defer cancel()
	return r.next(ctx)
}

func (r *request) forget() {
	r.once.Do(func() { close(r.done) })
	r.conn.mu.Lock()
	delete(r.conn.requests, r.id)
	r.conn.mu.Unlock()
}

// stop forgets the request and tells the relay.
func (r *request) stop() {
	r.forget()
	if r.conn.ctx.Err() == nil {
		_ = r.conn.write(r.conn.ctx, []byte(`["CLOSE","`+r.id+`"]`))
	}
}
