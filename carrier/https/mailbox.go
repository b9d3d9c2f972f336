package https

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/httpauth"
)

// MailboxOptions of NewMailbox. DB, Origin and Key are required.
type MailboxOptions struct {
	DB     *database.DB
	Origin string        // such as https://parley.example, without a slash
	Key    crypto.Signer // Ed25519; answers challenges
	// Admit says for whom envelopes are kept; nil is everybody.
	Admit func(pubkey string) bool
	// ClientIP is the address a request comes from; nil is its peer.
	ClientIP func(*http.Request) netip.Addr

	Quota      int   // envelopes that wait for one recipient; 0 is 10,000
	QuotaBytes int64 // their size; 0 is 256 MiB
	TotalBytes int64 // size of all boxes; 0 is 16 GiB
	Rate       int   // requests a second of one client address, lastingly; 0 is 50
	Readers    int   // that wait at one time; 0 is 4096, and a sixteenth of one address

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now
}

func (o *MailboxOptions) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ClientIP == nil {
		o.ClientIP = func(r *http.Request) netip.Addr {
			at, _ := netip.ParseAddrPort(r.RemoteAddr)
			return at.Addr()
		}
	}
	o.Quota = cmp.Or(o.Quota, 10_000)
	o.QuotaBytes = cmp.Or(o.QuotaBytes, 256<<20)
	o.TotalBytes = cmp.Or(o.TotalBytes, 16<<30)
	o.Rate = cmp.Or(o.Rate, 50)
	o.Readers = cmp.Or(o.Readers, 4096)
}

const (
	maxPage       = 100     // envelopes of one answer
	pageBytes     = 1 << 20 // their size, from which on an answer has no more
	maxWait       = 30 * time.Second
	burst         = 20 // times the rate
	maxAddresses  = 1 << 15
	purgePeriod   = 10 * time.Minute
	measurePeriod = 15 * time.Second
	noticeChannel = "https"
)

// Mailbox keeps envelopes for recipients until they fetch them.
type Mailbox struct {
	opts     MailboxOptions
	db       *database.DB
	now      func() time.Time
	logger   *slog.Logger
	metrics  *mailboxMetrics
	verifier *httpauth.Verifier
	stored   atomic.Int64 // bytes in all boxes, as measured last
	ended    chan struct{}
	once     sync.Once

	mu      sync.Mutex
	waiters map[string]map[chan struct{}]bool // of each recipient
	readers map[netip.Addr]int
	waiting int
	rates   map[netip.Addr]*rate.Limiter
}

// NewMailbox prepares a mailbox and its tables.
func NewMailbox(ctx context.Context, opts MailboxOptions) (*Mailbox, error) {
	if opts.DB == nil || opts.Origin == "" || opts.Key == nil {
		return nil, errors.New("https: MailboxOptions.DB, Origin and Key are required")
	}
	if _, ok := opts.Key.Public().(ed25519.PublicKey); !ok {
		return nil, errors.New("https: MailboxOptions.Key is not Ed25519")
	}
	opts.setDefaults()
	if err := Migrate(ctx, opts.DB); err != nil {
		return nil, err
	}
	m := &Mailbox{
		opts: opts, db: opts.DB, now: opts.Now, logger: opts.Logger.With("component", "mailbox"),
		metrics: newMailboxMetrics(opts.Registerer), verifier: httpauth.NewVerifier(opts.Now), ended: make(chan struct{}),
		waiters: map[string]map[chan struct{}]bool{}, readers: map[netip.Addr]int{}, rates: map[netip.Addr]*rate.Limiter{},
	}
	return m, m.measure(ctx)
}

// Address is the URL that envelopes are posted to.
func (m *Mailbox) Address() string { return strings.TrimSuffix(m.opts.Origin, "/") + EnvelopesPath }

// Routes is what the mailbox answers.
func (m *Mailbox) Routes() []httpserver.Route {
	const owner = "carrier"
	return []httpserver.Route{
		{Method: http.MethodPost, Pattern: EnvelopesPath, Owner: owner, Summary: "takes a sealed message for a recipient", MaxBody: maxEnvelope + 1, Handler: http.HandlerFunc(m.post)},
		{Method: http.MethodGet, Pattern: EnvelopesPath, Owner: owner, Summary: "a signed answer whether a recipient is served here", Handler: http.HandlerFunc(m.challenge)},
		{Method: http.MethodGet, Pattern: InboxPath, Owner: owner, Summary: "the sealed messages that wait for the caller (NIP-98)", Handler: http.HandlerFunc(m.inbox)},
		{Method: http.MethodDelete, Pattern: InboxPath, Owner: owner, Summary: "deletes messages that the caller has stored (NIP-98)", MaxBody: maxDeletion, Handler: http.HandlerFunc(m.delete)},
	}
}

// Run removes what has expired and wakes readers until ctx ends; then those that wait
// are answered.
func (m *Mailbox) Run(ctx context.Context) error {
	defer m.once.Do(func() { close(m.ended) })
	err := m.db.Listen(ctx, noticeChannel, func(n database.Notice) { m.wake(n.Payload) })
	if err != nil {
		return fmt.Errorf("https: %w", err)
	}
	purge, measure := time.NewTicker(purgePeriod), time.NewTicker(measurePeriod)
	defer purge.Stop()
	defer measure.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-purge.C:
			purged, err := m.purge(ctx)
			m.metrics.expired.Add(float64(purged))
			if err != nil && ctx.Err() == nil {
				m.logger.ErrorContext(ctx, "removing expired envelopes", "err", err)
			}
		case <-measure.C:
			if err := m.measure(ctx); err != nil && ctx.Err() == nil {
				m.logger.ErrorContext(ctx, "measuring the boxes", "err", err)
			}
		}
	}
}

func (m *Mailbox) measure(ctx context.Context) error {
	count, size, err := m.total(ctx)
	if err != nil {
		return err
	}
	m.stored.Store(size)
	m.metrics.waiting.Set(float64(count))
	m.metrics.bytes.Set(float64(size))
	return nil
}

// wake tells who waits for a recipient; an empty one is a notice that was lost, and
// wakes everybody.
func (m *Mailbox) wake(recipient string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, all := range m.waiters {
		if recipient != "" && key != recipient {
			continue
		}
		for waiter := range all {
			select {
			case waiter <- struct{}{}:
			default:
			}
		}
	}
}

var errReaders = errors.New("https: too many readers wait")

// await registers a reader; leave takes it out again.
func (m *Mailbox) await(recipient string, from netip.Addr) (woken chan struct{}, leave func(), err error) {
	from = network(from)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting >= m.opts.Readers || m.readers[from] >= max(8, m.opts.Readers/16) || len(m.waiters[recipient]) >= maxReadersOfKey {
		return nil, nil, errReaders
	}
	woken = make(chan struct{}, 1)
	if m.waiters[recipient] == nil {
		m.waiters[recipient] = map[chan struct{}]bool{}
	}
	m.waiters[recipient][woken] = true
	m.readers[from]++
	m.waiting++
	m.metrics.readers.Inc()
	return woken, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if delete(m.waiters[recipient], woken); len(m.waiters[recipient]) == 0 {
			delete(m.waiters, recipient)
		}
		if m.readers[from]--; m.readers[from] == 0 {
			delete(m.readers, from)
		}
		m.waiting--
		m.metrics.readers.Dec()
	}, nil
}

// maxReadersOfKey is how many connections of one recipient wait at a time.
const maxReadersOfKey = 8

// allow spends one request of an address. A table that is full is begun anew, which
// forgives what was spent.
func (m *Mailbox) allow(r *http.Request) bool {
	from := network(m.opts.ClientIP(r))
	m.mu.Lock()
	defer m.mu.Unlock()
	limiter := m.rates[from]
	if limiter == nil {
		if len(m.rates) >= maxAddresses {
			clear(m.rates)
		}
		limiter = rate.NewLimiter(rate.Limit(m.opts.Rate), burst*m.opts.Rate)
		m.rates[from] = limiter
	}
	return limiter.AllowN(m.now(), 1)
}

// network is the unit limits are counted by: an IPv4 address or the /64 of an IPv6
// address.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		prefix, _ := a.Prefix(64)
		return prefix.Addr()
	}
	return a
}
