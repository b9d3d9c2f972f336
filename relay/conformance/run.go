package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/protocol/card"
)

// ErrOptions is wrapped by Run when the address or an option makes no sense.
var ErrOptions = errors.New("conformance: invalid options")

// Kinds are the kinds of the events that are sent.
type Kinds struct {
	Replaceable int // default 0
	Second      int // another replaceable one, default 10002
	Addressable int // default 30417; events of that kind are valid contact cards
	Regular     int // default 1
	Ephemeral   int // default 20001
}

// DefaultKinds are those of a relay for contact cards, and two that most other
// relays take.
func DefaultKinds() Kinds {
	return Kinds{Replaceable: 0, Second: 10002, Addressable: card.Kind, Regular: 1, Ephemeral: 20001}
}

// Options configures Run. Every zero field has a working default.
type Options struct {
	Kinds *Kinds // nil means DefaultKinds
	// Secret makes the secret keys, 64 hex digits each. Nil makes random ones.
	Secret func() string
	// Admin is the secret key of an administrator (NIP-86). Without it the
	// checks that need one are skipped.
	Admin string
	// Parallel is the number of checks at one time, default 4.
	Parallel int
	// Timeout is how long one answer is waited for, default 10 seconds. A whole
	// check may take six times as long, and a minute at least.
	Timeout time.Duration
	// Only is a pattern of path.Match over the names; empty means all.
	Only string
	// Done is told each result as it comes, by one goroutine at a time.
	Done func(r Result, done, total int)
	// HTTPClient makes every connection. Nil means one of its own.
	HTTPClient *http.Client
}

func (o Options) withDefaults() (Options, error) {
	if o.Kinds == nil {
		kinds := DefaultKinds()
		o.Kinds = &kinds
	}
	if o.Secret == nil {
		o.Secret = nostr.GeneratePrivateKey
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Only == "" {
		o.Only = "*"
	}
	if o.Done == nil {
		o.Done = func(Result, int, int) {}
	}
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	}
	if o.Parallel < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("%w: a number is negative", ErrOptions)
	}
	if _, err := path.Match(o.Only, ""); err != nil {
		return o, fmt.Errorf("%w: pattern %q: %w", ErrOptions, o.Only, err)
	}
	return o, nil
}

// Run checks the relay at address, a ws or wss URL, and returns the results in
// the order of Checks. The error says that there is no relay to check.
func Run(ctx context.Context, address string, o Options) ([]Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	checks := matching(o.Only)
	if len(checks) == 0 {
		return nil, fmt.Errorf("%w: no check is named like %q", ErrOptions, o.Only)
	}
	r, err := reach(ctx, address, o)
	if err != nil {
		return nil, err
	}
	return r.runAll(ctx, checks)
}

func matching(pattern string) (checks []Check) {
	for _, c := range Checks() {
		if ok, _ := path.Match(pattern, c.Name); ok {
			checks = append(checks, c)
		}
	}
	return checks
}

// reach reads the relay information document and connects once.
func reach(ctx context.Context, address string, o Options) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("%w: %q is not a ws or wss URL", ErrOptions, address)
	}
	web := *u
	web.Scheme = map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	r := &remote{url: u.String(), http: web.String(), options: o}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, r.url, &websocket.DialOptions{HTTPClient: o.HTTPClient})
	if err != nil {
		return nil, fmt.Errorf("conformance: reaching the relay: %w", err)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	if info, err := r.fetchInformation(ctx, informationType); err == nil {
		r.info = info.document // a relay without one is a finding of its own check
	}
	return r, nil
}

func (r *remote) runAll(ctx context.Context, checks []Check) ([]Result, error) {
	results := make([]Result, len(checks))
	var mu sync.Mutex
	done := 0
	var group errgroup.Group
	group.SetLimit(r.options.Parallel)
	for i, c := range checks {
		group.Go(func() error {
			results[i] = r.run(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			done++
			r.options.Done(results[i], done, len(checks))
			return nil
		})
	}
	_ = group.Wait() // what ends it is the context
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	return results, nil
}

// run runs one check in a goroutine of its own, which the check may leave at
// any point.
func (r *remote) run(ctx context.Context, c Check) Result {
	begin := time.Now()
	result := Result{Name: c.Name, NIP: c.NIP, Level: c.Level, Verdict: Pass}
	if c.Level == Conditional && !r.info.supports(c.Needs) {
		result.Verdict, result.Detail = Skip, fmt.Sprintf("the relay does not advertise NIP-%02d", c.Needs)
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, max(time.Minute, 6*r.options.Timeout))
	defer cancel()
	t := newTrial(ctx, r)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer t.end()
		c.run(t)
	}()
	<-ended
	if t.verdict != "" {
		result.Verdict, result.Detail = t.verdict, cut(t.detail)
	}
	if result.Verdict == Fail && c.Level == Optional {
		result.Verdict = Warn
	}
	result.Duration = time.Since(begin)
	return result
}

// maxDetail is the length of a detail in bytes.
const maxDetail = 400

func cut(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return s[:maxDetail] + " …"
}
