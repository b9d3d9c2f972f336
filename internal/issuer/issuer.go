package issuer

import (
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// ErrOptions means Options or Settings that cannot be used.
var ErrOptions = errors.New("issuer: unusable options")

// Options of New.
type Options struct {
	// Keys holds the key of purpose issuer; one is made when there is none.
	Keys *keys.Dir
	// Origin is the server's own.
	Origin httpserver.Origin
	// Settings are what may change later.
	Settings Settings
	// ClientIP is the address a request comes from; nil takes the peer's.
	ClientIP func(*http.Request) netip.Addr
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// Settings are what an issuer says about itself beside its keys.
type Settings struct {
	// Policy is what peac.txt holds, and what every receipt is bound to. Version
	// is filled in; an empty Usage means discovery.UsageConditional.
	Policy discovery.Policy
	// SecurityContact is a mail address or a URL, or "".
	SecurityContact string
	// Revoked are own keys that are not to be believed any more, by their kid
	// as the key set shows it; at most discovery.MaxRevoked.
	Revoked []discovery.RevokedKey
}

// Issuer issues receipts.
type Issuer struct {
	opts    Options
	metrics *issuerMetrics
	callers *callers
	current atomic.Pointer[identity]
}

// New makes an issuer. ErrOptions where it could not publish what it is given.
func New(opts Options) (*Issuer, error) {
	if opts.Keys == nil || opts.Origin == (httpserver.Origin{}) {
		return nil, fmt.Errorf("%w: no keys or no origin", ErrOptions)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Logger = opts.Logger.With("component", "issuer")
	if opts.ClientIP == nil {
		opts.ClientIP = peer
	}
	if _, err := opts.Keys.EnsureEd25519(keys.Issuer); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	i := &Issuer{opts: opts, callers: newCallers()}
	if err := i.Reconfigure(opts.Settings); err != nil {
		return nil, err
	}
	i.metrics = newIssuerMetrics(opts.Registerer)
	return i, nil
}

// Reconfigure takes new settings and reads the keys again, which may have been
// rotated. After an error everything is as before.
func (i *Issuer) Reconfigure(settings Settings) error {
	next, err := newIdentity(i.opts.Keys, i.opts.Origin, settings)
	if err != nil {
		return err
	}
	i.current.Store(next)
	i.opts.Logger.Info("receipts", "issuer", next.name, "kid", next.kid, "policy", next.binding.Digest)
	return nil
}

// Name is the iss of receipts: the origin, or the did:key of the active key
// where the origin is loopback or http.
func (i *Issuer) Name() string { return i.current.Load().name }

// KeySet is the keys that the issuer publishes now, the active one first.
func (i *Issuer) KeySet() discovery.KeySet { return slices.Clone(i.current.Load().published) }

// Key is the own key of that kid, also one that was retired or revoked since:
// what a receipt was signed with does not change. Refusals are *receipt.Error.
func (i *Issuer) Key(kid string) (receipt.JWK, error) {
	key, err := findKey(i.current.Load().known, kid)
	if err != nil {
		return receipt.JWK{}, err
	}
	return receipt.NewJWK(key, kid), nil
}

// Issued is a receipt that was just made.
type Issued struct {
	JWS       string // compact
	Reference string // receipt_ref
	Claims    receipt.Claims
}

// Issue signs a record. It sets iss, and iat, jti (a UUIDv7) and the binding to
// the own policy where the claims have none. Refusals are *receipt.Error.
func (i *Issuer) Issue(claims receipt.Claims) (*Issued, error) {
	issued, err := i.issue(claims)
	i.metrics.issued(err)
	return issued, err
}

func (i *Issuer) issue(claims receipt.Claims) (*Issued, error) {
	self := i.current.Load()
	claims.PeacVersion, claims.Issuer = receipt.Version, self.name
	if claims.IssuedAt == 0 {
		claims.IssuedAt = i.opts.Now().Unix()
	}
	if claims.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("issuer: naming a receipt: %w", err)
		}
		claims.ID = id.String()
	}
	if claims.Policy == nil {
		binding := self.binding
		claims.Policy = &binding
	}
	jws, err := receipt.Issue(&claims, self.kid, func(message []byte) ([]byte, error) {
		return self.key.Sign(nil, message, crypto.Hash(0))
	})
	if err != nil {
		return nil, err
	}
	return &Issued{JWS: jws, Reference: receipt.Reference(jws), Claims: claims}, nil
}

// Verify judges a receipt without asking anybody: one of this issuer, whatever
// became of the key meanwhile unless it was revoked, or one of a did:key. Of
// others it knows no key (CodeKeyNotFound). A zero opts.Now is filled in.
func (i *Issuer) Verify(jws string, opts receipt.VerifyOptions) (*receipt.Verified, error) {
	decoded, err := receipt.Decode(jws)
	if err != nil {
		return nil, err
	}
	key, known, err := i.current.Load().find(decoded.Claims.Issuer, decoded.KeyID)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, errForeign
	}
	if opts.Now.IsZero() {
		opts.Now = i.opts.Now()
	}
	return receipt.Verify(jws, key, opts)
}

// errForeign is the answer about receipts of others.
var errForeign = &receipt.Error{Code: receipt.CodeKeyNotFound, Pointer: "/iss", Detail: "the receipt is another issuer's"}
