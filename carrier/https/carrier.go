package https

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/httpauth"
)

// MaxInboxes is the most mailboxes one carrier reads.
const MaxInboxes = 8

// Signer is the agent's key.
type Signer interface {
	// PublicKey is the key in 64 lowercase hex characters.
	PublicKey() string
	// Sign sets pubkey, id and sig of ev.
	Sign(ev *nostr.Event) error
}

// Options of New. Signer, Dialer and DB are required.
type Options struct {
	// Inboxes are the origins of the mailboxes that are read, such as
	// https://parley.example, at most MaxInboxes.
	Inboxes []string
	Signer  Signer
	Dialer  *egress.Dialer // addresses of others go through its FromCard
	DB      *database.DB   // remembers which addresses answered

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	Handlers  int             // envelopes of one mailbox handled at a time; 0 is 16
	Reconnect carrier.Backoff // after a failure to read; zero fields are 1 s and 2 min
}

// Carrier posts envelopes to mailboxes and reads its own.
type Carrier struct {
	opts    Options
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics
	inboxes []string
	own     *http.Client // to mailboxes the owner chose
	others  *http.Client // to addresses that others named

	mu     sync.Mutex
	asking map[string]chan struct{} // by host, while a question is under way
}

var (
	_ carrier.Carrier = (*Carrier)(nil)
	_ carrier.Poller  = (*Carrier)(nil)
)

// New makes a carrier and its table; it connects to nothing.
func New(ctx context.Context, opts Options) (*Carrier, error) {
	if opts.Signer == nil || opts.Dialer == nil || opts.DB == nil {
		return nil, errors.New("https: Options.Signer, Options.Dialer and Options.DB are required")
	}
	if len(opts.Inboxes) > MaxInboxes {
		return nil, fmt.Errorf("https: %d inboxes, at most %d", len(opts.Inboxes), MaxInboxes)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Handlers = cmp.Or(max(0, opts.Handlers), 16)
	opts.Reconnect.Base = cmp.Or(opts.Reconnect.Base, time.Second)
	opts.Reconnect.Cap = cmp.Or(opts.Reconnect.Cap, 2*time.Minute)
	c := &Carrier{
		opts: opts, now: opts.Now, logger: opts.Logger.With("component", Scheme), metrics: newMetrics(opts.Registerer),
		own: newClient(opts.Dialer), others: newClient(opts.Dialer.FromCard()), asking: map[string]chan struct{}{},
	}
	for _, origin := range opts.Inboxes {
		if _, err := ParseAddress(origin + EnvelopesPath); err != nil {
			return nil, fmt.Errorf("https: inbox %.100q: %w", origin, err)
		}
		c.inboxes = append(c.inboxes, origin)
	}
	return c, Migrate(ctx, opts.DB)
}

// newClient follows no redirects: who is asked must answer. A long poll is longer
// than a usual exchange.
func newClient(dialer *egress.Dialer) *http.Client {
	client := dialer.HTTPClient()
	client.Timeout = maxWait + 30*time.Second
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Close ends idle connections.
func (c *Carrier) Close() {
	c.own.CloseIdleConnections()
	c.others.CloseIdleConnections()
}

// Scheme implements carrier.Carrier.
func (c *Carrier) Scheme() string { return Scheme }

// MaxFrame implements carrier.Carrier: a mailbox takes a whole envelope.
func (c *Carrier) MaxFrame(carrier.Address) int { return 0 }

// client is the one for an address.
func (c *Carrier) client(address string) *http.Client {
	if c.isOwn(address) {
		return c.own
	}
	return c.others
}

func (c *Carrier) isOwn(address string) bool {
	return slices.ContainsFunc(c.inboxes, func(origin string) bool { return address == origin+EnvelopesPath })
}

// Send implements carrier.Carrier. An address of others gets an envelope once it has
// answered a challenge.
func (c *Carrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	address, err := ParseAddress(to.Address)
	if err != nil {
		return err
	}
	recipient, err := recipientOf(wrap)
	if err != nil {
		return err
	}
	if !c.isOwn(address) {
		if err := c.asked(ctx, address, recipient); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(wrap))
	if err != nil {
		return badAddress("not a URL")
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.client(address).Do(r)
	if err != nil {
		return exchangeError(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return verdict(response, body)
}

// recipientOf reads whom a wrap is for. What Send gets was sealed here.
func recipientOf(wrap []byte) (string, error) {
	ev, err := canonical.DecodeEvent(wrap)
	if err == nil {
		for _, tag := range ev.Tags {
			if len(tag) > 1 && tag[0] == "p" {
				return tag[1], nil
			}
		}
	}
	return "", fmt.Errorf("%w: https: not an envelope", carrier.ErrPermanent)
}

// verdict turns an answer into an error, nil for 202.
func verdict(response *http.Response, body []byte) error {
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &problem) // a status says enough
	status := response.StatusCode
	switch {
	case status == http.StatusAccepted:
		return nil
	case status == http.StatusTooManyRequests && problem.Code == refusedFull.code:
		return fmt.Errorf("%w: %w: https: the recipient's box is full", carrier.ErrTransient, carrier.ErrRecipient)
	case status == http.StatusTooManyRequests:
		return &carrier.RateLimited{After: retryAfter(response)}
	case status == http.StatusRequestTimeout || status >= 500:
		return fmt.Errorf("%w: https: status %d", carrier.ErrTransient, status)
	}
	return fmt.Errorf("%w: https: status %d", carrier.ErrPermanent, status)
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// exchangeError sorts why there was no answer.
func exchangeError(err error) error {
	if errors.Is(err, egress.ErrRefusedAddress) || errors.Is(err, egress.ErrAddress) {
		return fmt.Errorf("%w: https: %w", carrier.ErrPermanent, err)
	}
	return fmt.Errorf("%w: https: %w", carrier.ErrTransient, err)
}

// Receive implements carrier.Carrier. There is no cursor: what was handled is deleted.
func (c *Carrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	var group sync.WaitGroup
	for _, origin := range c.inboxes {
		group.Go(func() { c.listen(ctx, origin, from, handle) })
	}
	group.Wait()
	<-ctx.Done() // without inboxes too: there is nothing to restart for
	return context.Cause(ctx)
}

// listen reads one mailbox until ctx ends.
func (c *Carrier) listen(ctx context.Context, origin string, cursor carrier.Cursor, handle carrier.Handler) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := c.read(ctx, origin, cursor, handle, maxWait)
		if err == nil {
			failures = -1
			continue
		}
		if ctx.Err() != nil {
			return
		}
		pause := c.opts.Reconnect.Delay(max(0, failures))
		c.logger.WarnContext(ctx, "a mailbox does not deliver", "origin", origin, "retry_after", pause, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Poll implements carrier.Poller. The error joins those of the mailboxes that could not
// be read to the end.
func (c *Carrier) Poll(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	failures := make([]error, len(c.inboxes))
	var group sync.WaitGroup
	for i, origin := range c.inboxes {
		group.Go(func() {
			if err := c.read(ctx, origin, from, handle, 0); err != nil {
				failures[i] = fmt.Errorf("reading %s: %w", origin, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// read hands on what waits, page by page, until a page is empty, which is after wait.
func (c *Carrier) read(ctx context.Context, origin string, cursor carrier.Cursor, handle carrier.Handler, wait time.Duration) error {
	for {
		page, err := c.fetch(ctx, origin, wait)
		if err != nil || len(page) == 0 {
			return err
		}
		done, err := c.handleAll(carrier.WithInlet(ctx, origin), page, cursor, handle)
		if len(done) > 0 {
			if failure := c.forget(ctx, origin, done); failure != nil {
				return errors.Join(err, failure)
			}
		}
		if err != nil {
			return err
		}
	}
}

// handleAll hands on a page, several at a time, and returns the ids that were taken.
func (c *Carrier) handleAll(ctx context.Context, page []delivered, cursor carrier.Cursor, handle carrier.Handler) (done []string, err error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, c.opts.Handlers)
	for _, one := range page {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			failure := handle(ctx, []byte(one.Wrap), cursor)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = failure
				return
			}
			done = append(done, one.ID)
		})
	}
	group.Wait()
	return done, err
}

func (c *Carrier) fetch(ctx context.Context, origin string, wait time.Duration) ([]delivered, error) {
	var page delivery
	query := "?wait=" + strconv.Itoa(int(wait/time.Second))
	if err := c.call(ctx, http.MethodGet, origin+InboxPath+query, nil, &page); err != nil {
		return nil, err
	}
	return page.Envelopes[:min(len(page.Envelopes), maxPage)], nil
}

// forget deletes what was stored. Losing it costs a repetition.
func (c *Carrier) forget(ctx context.Context, origin string, ids []string) error {
	body, err := json.Marshal(deletion{ids})
	if err != nil {
		return err
	}
	var ended deleted
	return c.call(ctx, http.MethodDelete, origin+InboxPath, body, &ended)
}

// call makes one request that the agent's key signs (NIP-98).
func (c *Carrier) call(ctx context.Context, method, url string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return badAddress("not a URL")
	}
	token, err := c.token(method, url, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Nostr "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := c.own.Do(r)
	if err != nil {
		return exchangeError(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: https: the mailbox answers with status %d", carrier.ErrTransient, response.StatusCode)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil { // the dialer bounds it
		return fmt.Errorf("%w: https: reading the mailbox: %w", carrier.ErrTransient, err)
	}
	return nil
}

func (c *Carrier) token(method, url string, body []byte) (string, error) {
	ev := nostr.Event{
		Kind: httpauth.Kind, CreatedAt: nostr.Timestamp(c.now().Unix()), Tags: nostr.Tags{{"u", url}, {"method", method}},
		Content: newChallenge(), // two requests within a second are two events
	}
	if body != nil {
		ev.Tags = append(ev.Tags, nostr.Tag{"payload", canonical.Digest(body)})
	}
	if err := c.opts.Signer.Sign(&ev); err != nil {
		return "", fmt.Errorf("https: signing a request: %w", err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		return "", fmt.Errorf("https: encoding a token: %w", err)
	}
	return base64.StdEncoding.EncodeToString(data), nil
}
