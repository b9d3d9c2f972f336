package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/receipt"
)

// Limits of what is fetched.
const (
	maxRedirects   = 3
	connectTimeout = 5 * time.Second
	totalTimeout   = 10 * time.Second // for all documents of one origin
	fetchRate      = 10               // origins asked in a second
	fetchBurst     = 50
)

// faults are the codes of what can go wrong with one document.
type faults struct{ missing, blocked, failed, timeout, insecure receipt.Code }

var (
	issuerFaults = faults{
		missing: receipt.CodeVerifyIssuerConfigMissing, blocked: receipt.CodeVerifyKeyFetchBlocked,
		failed: receipt.CodeVerifyKeyFetchFailed, timeout: receipt.CodeVerifyKeyFetchTimeout, insecure: receipt.CodeVerifyInsecureScheme,
	}
	keySetFaults = faults{
		missing: receipt.CodeVerifyKeyFetchFailed, blocked: receipt.CodeVerifyKeyFetchBlocked,
		failed: receipt.CodeVerifyKeyFetchFailed, timeout: receipt.CodeVerifyKeyFetchTimeout, insecure: receipt.CodeVerifyInsecureScheme,
	}
	policyFaults = faults{
		missing: receipt.CodePolicyNotFound, blocked: receipt.CodePolicySSRFBlocked,
		failed: receipt.CodePolicyFetchFailed, timeout: receipt.CodePolicyTimeout, insecure: receipt.CodePolicyInsecureScheme,
	}
)

var (
	errInsecure = errors.New("a redirect that leaves https")
	errTooMany  = fmt.Errorf("more than %d redirects", maxRedirects)
)

// fetcher asks strangers for documents.
type fetcher struct {
	client *http.Client
	budget *rate.Limiter
	total  time.Duration
	logger *slog.Logger
}

// newFetcher makes one whose connections all go through the dialer, as
// addresses from strangers do.
func newFetcher(dialer *egress.Dialer, roots *x509.CertPool, connect time.Duration, logger *slog.Logger) *fetcher {
	strict := dialer.FromCard()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connect)
			defer cancel()
			return strict.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots},
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a limit holds for what is sent
		DisableKeepAlives:      true, // an origin is asked too seldom to keep a connection
		MaxResponseHeaderBytes: 32 << 10,
	}
	return &fetcher{
		client: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		budget: rate.NewLimiter(fetchRate, fetchBurst), total: totalTimeout, logger: logger,
	}
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Scheme != "https":
		return errInsecure
	case len(via) > maxRedirects:
		return errTooMany
	}
	return nil
}

// document is an answer with status 200.
type document struct {
	body        []byte
	contentType string
	lifetime    time.Duration // 0 where the server says nothing
}

// get fetches one document of at most limit bytes; of a longer one a byte more,
// for the reader to refuse.
func (f *fetcher) get(ctx context.Context, address string, limit int, faults *faults) (*document, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, &receipt.Error{Code: faults.failed, Detail: "no address to fetch"}
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, f.explain(err, faults)
	}
	defer response.Body.Close()
	if status := response.StatusCode; status != http.StatusOK {
		code := faults.failed
		if status == http.StatusNotFound || status == http.StatusGone {
			code = faults.missing
		}
		return nil, &receipt.Error{Code: code, Detail: fmt.Sprintf("the server answers with status %d", status)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err == nil { // a server that sees the connection closing may still end its answer in order
		err = ctx.Err()
	}
	if err != nil {
		return nil, f.explain(err, faults)
	}
	return &document{body, response.Header.Get("Content-Type"), lifetime(response.Header.Get("Cache-Control"))}, nil
}

// explain finds the code of a failure. What a name server or a kernel says may
// hold addresses, so it goes to the log only.
func (f *fetcher) explain(err error, faults *faults) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	f.logger.Debug("fetching a document failed", "err", err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, egress.ErrRefusedAddress):
		return &receipt.Error{Code: faults.blocked, Detail: err.Error()} // names a class only
	case errors.Is(err, errInsecure):
		return &receipt.Error{Code: faults.insecure, Detail: err.Error()}
	case errors.Is(err, errTooMany):
		return &receipt.Error{Code: faults.failed, Detail: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		return &receipt.Error{Code: faults.timeout, Detail: "the server did not answer in time"}
	}
	return &receipt.Error{Code: faults.failed, Detail: "the server cannot be reached"}
}

// errBusy means that the origin was not asked, so that nothing was learnt of it.
var errBusy = errors.New("issuer: busy")

// spend takes one origin from the budget.
func (f *fetcher) spend(now time.Time, faults *faults) error {
	if !f.budget.AllowN(now, 1) {
		return fmt.Errorf("%w: %w", errBusy, &receipt.Error{Code: faults.failed, Detail: "too many documents are fetched at this moment"})
	}
	return nil
}

// lifetime reads max-age (RFC 9111, section 5.2.2). An answer that must not be
// kept is kept for the shortest time.
func lifetime(cacheControl string) time.Duration {
	for directive := range strings.SplitSeq(strings.ToLower(cacheControl), ",") {
		directive = strings.TrimSpace(directive)
		if directive == "no-store" || directive == "no-cache" {
			return keepLeast
		}
		if digits, found := strings.CutPrefix(directive, "max-age="); found {
			if seconds, err := strconv.ParseUint(digits, 10, 31); err == nil {
				return min(max(time.Duration(seconds)*time.Second, keepLeast), keepMost)
			}
		}
	}
	return keepDefault
}
