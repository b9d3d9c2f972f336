package agentidentity

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// Defaults of Options.
const (
	DefaultMaxAge  = 300 * time.Second
	DefaultSkew    = 30 * time.Second
	DefaultMaxBody = 1 << 20 // bytes
)

// NoSkew is the Skew of a verifier whose clock and those of its peers agree.
const NoSkew = time.Duration(-1)

// ErrOptions means Options that make no Verifier.
var ErrOptions = errors.New("agentidentity: bad options")

// Options of a Verifier.
type Options struct {
	// Origin is the public "https://host[:port]" that requests are made to:
	// the URL that proofs are about, and the issuer of the binding message.
	Origin string
	// Directory has the keys.
	Directory Directory
	// Methods are those accepted; none means MessageSignature.
	Methods []Method
	// MaxAge is how old a proof may be, 60 s to 600 s; 0 means 300 s.
	MaxAge time.Duration
	// Skew is how far clocks may differ, up to 300 s; 0 means 30 s, and
	// NoSkew none.
	Skew time.Duration
	// MaxBody is the largest body in bytes that is read to check its digest; 0
	// means 1 MiB.
	MaxBody int64
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger; nil discards.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Identity is what a request proved.
type Identity struct {
	// Agent is the agent whose key it is, by the Directory.
	Agent string
	// KeyID is the key's ID, Thumbprint that of its JWK or certificate.
	KeyID, Thumbprint string
	// Method is how control was proved.
	Method Method
	// VerifiedAt is the time of the check.
	VerifiedAt time.Time
	// BindingHash is the SHA-256 of what was signed, 64 lower-case hex digits;
	// "" for MTLS, which signs no request.
	BindingHash string
	// Attestation is what the request says of its agent; nil when it has no
	// PEAC-Agent-Identity header. Its agent_id is Agent. All else in it is the
	// sender's word.
	Attestation *Attestation
	// Covered says whether the signature covers the whole Attestation: so for
	// a signature of RFC 9421, not for the other methods.
	Covered bool
}

// Verifier checks the proofs of requests and remembers those that were used.
type Verifier struct {
	opts    Options
	origin  httpserver.Origin
	log     *slog.Logger
	used    *memory
	metrics *metrics
}

// New makes a Verifier; ErrOptions when it cannot.
func New(opts Options) (*Verifier, error) {
	origin, err := httpserver.ParseOrigin(opts.Origin)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	opts.MaxAge = cmp.Or(opts.MaxAge, DefaultMaxAge)
	opts.Skew = max(cmp.Or(opts.Skew, DefaultSkew), 0)
	opts.MaxBody = cmp.Or(opts.MaxBody, DefaultMaxBody)
	if len(opts.Methods) == 0 {
		opts.Methods = []Method{MessageSignature}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	switch {
	case opts.Directory == nil:
		return nil, fmt.Errorf("%w: no directory", ErrOptions)
	case opts.MaxAge < 60*time.Second || opts.MaxAge > 600*time.Second:
		return nil, fmt.Errorf("%w: the age is 60 s to 600 s", ErrOptions)
	case opts.Skew > 300*time.Second:
		return nil, fmt.Errorf("%w: the skew is at most 300 s", ErrOptions)
	case opts.MaxBody < 0:
		return nil, fmt.Errorf("%w: the largest body is negative", ErrOptions)
	}
	for _, method := range opts.Methods {
		if provers[method] == nil {
			return nil, fmt.Errorf("%w: there is no method %q", ErrOptions, method)
		}
	}
	return &Verifier{
		opts: opts, origin: origin, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		// A proof from the edge of the future stays fresh the longest; times are in
		// whole seconds.
		used: newMemory(opts.MaxAge + opts.Skew + time.Second), metrics: newMetrics(opts.Registerer),
	}, nil
}

// Verify checks a request that a server received. It succeeds once for each
// proof. It may read the body, which can be read again afterwards. Errors hold
// a *receipt.Error with an E_IDENTITY_ code, or E_PAYLOAD_TOO_LARGE.
func (v *Verifier) Verify(r *http.Request) (*Identity, error) {
	method, identity, err := v.verify(r)
	v.metrics.observe(method, err)
	return identity, err
}

func (v *Verifier) verify(r *http.Request) (Method, *Identity, error) {
	q, err := v.newRequest(r)
	if err != nil {
		return noMethod, nil, err
	}
	method, err := q.method()
	if err != nil {
		return noMethod, nil, err
	}
	if !slices.Contains(v.opts.Methods, method) {
		return method, nil, refuse(receipt.CodeIdentityProofUnsupported, "This method of proof is not accepted here.")
	}
	proven, err := provers[method](v, q)
	if err != nil {
		return method, nil, err
	}
	identity, err := v.accept(q, method, proven)
	return method, identity, err
}

// proven is what a prover found.
type proven struct {
	key     Key
	signed  []byte // what the signature is over
	once    string // what makes the proof unique among the key's; "" needs no memory
	covered bool   // whether the attestation is signed as well
}

// provers check the methods. The key they return is usable and has signed.
var provers = map[Method]func(*Verifier, *request) (proven, error){
	MessageSignature: (*Verifier).proveMessage,
	DPoP:             (*Verifier).proveDPoP,
	MTLS:             (*Verifier).proveCertificate,
	JWKThumbprint:    (*Verifier).proveThumbprint,
}

// accept makes the last checks, those that need a proof of control.
func (v *Verifier) accept(q *request, method Method, p proven) (*Identity, error) {
	if a := q.attestation; a != nil {
		if a.Evidence.AgentID != p.key.Agent {
			return nil, refuse(receipt.CodeIdentityKeyUnknown, "The key is not one of the agent that is named.")
		}
		if err := a.current(q.now, v.opts.Skew); err != nil {
			return nil, err
		}
	}
	identity := &Identity{
		Agent: p.key.Agent, KeyID: p.key.ID, Thumbprint: p.key.Certificate, Method: method,
		VerifiedAt: q.now, Attestation: q.attestation, Covered: p.covered,
	}
	if p.once == "" {
		return identity, nil
	}
	var err error
	if identity.Thumbprint, err = Thumbprint(p.key.Public); err != nil { // its signature was good, so it has one
		return nil, refuse(receipt.CodeIdentitySignatureInvalid, "The key is of no known kind.")
	}
	identity.BindingHash = canonical.Digest(p.signed)
	if err := v.used.use(identity.Thumbprint, p.once, q.now); err != nil {
		return nil, err
	}
	return identity, nil
}

// fresh checks when a proof was made.
func (v *Verifier) fresh(made, now time.Time) error {
	switch {
	case made.After(now.Add(v.opts.Skew)):
		return refuse(receipt.CodeIdentityBindingFuture, "The proof is from the future.")
	case made.Before(now.Add(-v.opts.MaxAge)):
		return refuse(receipt.CodeIdentityBindingStale, "The proof is too old.")
	}
	return nil
}

// refuse makes a refusal; the text is fit for the client.
func refuse(code receipt.Code, format string, args ...any) error {
	return &receipt.Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}
