package issuer

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// ResolverOptions of NewResolver.
type ResolverOptions struct {
	// Dialer is the way out.
	Dialer *egress.Dialer
	// RootCAs signs the certificates that are believed; nil means the system's.
	RootCAs *x509.CertPool
	// Own is this server's issuer, whose keys need no network; nil for none.
	Own *Issuer
	// Pinned are the keys of issuers that are not looked up, by their iss to the
	// letter. They win over everything else.
	Pinned map[string]discovery.KeySet
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// Resolver finds the keys and the policies of others.
type Resolver struct {
	opts     ResolverOptions
	fetcher  *fetcher
	metrics  *resolverMetrics
	issuers  *shelf[*issuerKeys]
	policies *shelf[*discovery.Policy]
}

// issuerKeys is what is known of one issuer.
type issuerKeys struct {
	document *discovery.Issuer
	set      discovery.KeySet
	history  discovery.History // touched by one fetch at a time
}

// NewResolver makes a resolver. ErrOptions without a dialer.
func NewResolver(opts ResolverOptions) (*Resolver, error) {
	if opts.Dialer == nil {
		return nil, fmt.Errorf("%w: no dialer", ErrOptions)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Logger = opts.Logger.With("component", "issuer")
	r := &Resolver{
		opts:    opts,
		fetcher: newFetcher(opts.Dialer, opts.RootCAs, connectTimeout, opts.Logger),
		metrics: newResolverMetrics(opts.Registerer),
	}
	r.issuers = newShelf(opts.Now, r.fetchKeys)
	r.policies = newShelf(opts.Now, r.fetchPolicy)
	return r, nil
}

// Verify finds the key of a receipt and judges it. A zero opts.Now is filled
// in. Nothing is fetched for a receipt that is malformed or of another issuer
// than opts.Issuer. Refusals are *receipt.Error; the error of ctx otherwise.
func (r *Resolver) Verify(ctx context.Context, jws string, opts receipt.VerifyOptions) (*receipt.Verified, error) {
	decoded, err := receipt.Decode(jws)
	if err != nil {
		return nil, err
	}
	if opts.Issuer != "" && decoded.Claims.Issuer != opts.Issuer {
		return nil, &receipt.Error{Code: receipt.CodeInvalidIssuer, Pointer: "/iss", Detail: "not the issuer that is expected"}
	}
	key, err := r.Key(ctx, decoded.Claims.Issuer, decoded.KeyID)
	if err != nil {
		return nil, err
	}
	if opts.Now.IsZero() {
		opts.Now = r.opts.Now()
	}
	return receipt.Verify(jws, key, opts)
}

// Key is the key that an issuer (iss) calls kid, pinned, own, in a did:key or
// published. Refusals are *receipt.Error: a code of discovery, CodeKeyNotFound,
// CodeRevokedKey or CodeKidReuse.
func (r *Resolver) Key(ctx context.Context, iss, kid string) (ed25519.PublicKey, error) {
	if set, pinned := r.opts.Pinned[iss]; pinned {
		return findKey(set, kid)
	}
	key, known, err := r.own().find(iss, kid)
	if known {
		return key, err
	}
	origin, err := receipt.CanonicalOrigin(iss)
	if err != nil {
		return nil, err
	}
	issuer, err := r.issuers.get(ctx, origin, func(k *issuerKeys) bool {
		_, found := k.set.Find(kid)
		return found || k.document.CheckRevoked(kid) != nil
	})
	if err != nil {
		return nil, err
	}
	if err := issuer.document.CheckRevoked(kid); err != nil {
		return nil, err
	}
	return findKey(issuer.set, kid)
}

// own is the identity of this server's issuer, or one that is nobody's.
func (r *Resolver) own() *identity {
	if r.opts.Own == nil {
		return &identity{}
	}
	return r.opts.Own.current.Load()
}

// fetchKeys asks an issuer for its document and its key set.
func (r *Resolver) fetchKeys(ctx context.Context, origin string, before *issuerKeys) (*issuerKeys, time.Duration, error) {
	if err := r.fetcher.spend(r.opts.Now(), &issuerFaults); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.fetcher.total)
	defer cancel()
	config, err := r.fetcher.get(ctx, origin+discovery.IssuerPath, discovery.MaxIssuer, &issuerFaults)
	r.metrics.fetched(documentIssuer, err)
	if err != nil {
		return nil, 0, err
	}
	issuer, err := discovery.ParseIssuer(config.body)
	if err != nil {
		return nil, 0, err
	}
	address, err := issuer.Resolve(origin)
	if err != nil {
		return nil, 0, err
	}
	keySet, err := r.fetcher.get(ctx, address, discovery.MaxKeySet, &keySetFaults)
	r.metrics.fetched(documentKeySet, err)
	if err != nil {
		return nil, 0, err
	}
	set, err := discovery.ParseKeySet(keySet.body)
	if err != nil {
		return nil, 0, err
	}
	found := &issuerKeys{document: issuer, set: set, history: discovery.History{}}
	if before != nil {
		found.history = before.history
	}
	if err := found.history.Observe(set, r.opts.Now()); err != nil {
		return nil, 0, err
	}
	return found, min(config.lifetime, keySet.lifetime), nil
}

// Policy is the policy that an origin, an https URL, publishes in its peac.txt.
// Refusals are *receipt.Error with a code E_POLICY_*.
func (r *Resolver) Policy(ctx context.Context, origin string) (*discovery.Policy, error) {
	origin, err := receipt.CanonicalOrigin(origin)
	if err != nil {
		return nil, &receipt.Error{Code: receipt.CodePolicyInsecureScheme, Detail: "not an https URL without user"}
	}
	return r.policies.get(ctx, origin, func(*discovery.Policy) bool { return true })
}

// fetchPolicy asks at the well-known place, then at the other one.
func (r *Resolver) fetchPolicy(ctx context.Context, origin string, _ *discovery.Policy) (*discovery.Policy, time.Duration, error) {
	if err := r.fetcher.spend(r.opts.Now(), &policyFaults); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.fetcher.total)
	defer cancel()
	text, err := r.fetcher.get(ctx, origin+discovery.PolicyPath, discovery.MaxPolicy, &policyFaults)
	if receipt.CodeOf(err) == receipt.CodePolicyNotFound {
		text, err = r.fetcher.get(ctx, origin+discovery.PolicyFallbackPath, discovery.MaxPolicy, &policyFaults)
	}
	r.metrics.fetched(documentPolicy, err)
	if err != nil {
		return nil, 0, err
	}
	policy, err := discovery.ParsePolicy(text.body, text.contentType)
	return policy, text.lifetime, err
}
