package agentidentity

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/parleykit/parley/protocol/receipt"
)

// maxComponents bounds what a signature may cover.
const maxComponents = 64

// signature is one of RFC 9421: what stands in Signature-Input and Signature.
type signature struct {
	input      httpsfv.InnerList
	components []string
	bytes      []byte
	created    time.Time
	expires    time.Time // zero for none
	keyID      string
	algorithm  string // "" for none
	nonce      string
}

// proveMessage checks a signature of RFC 9421 or, when the request has none, the
// one over the binding message in its attestation.
func (v *Verifier) proveMessage(q *request) (proven, error) {
	if !q.isSigned() {
		return v.proveBinding(q)
	}
	sig, err := parseSignature(q.header)
	if err != nil {
		return proven{}, err
	}
	if err := v.checkSignature(q, sig); err != nil {
		return proven{}, err
	}
	key, err := v.find(q.http.Context(), MessageSignature, sig.keyID, q.now)
	if err != nil {
		return proven{}, err
	}
	if err := q.names(key, sig.keyID); err != nil {
		return proven{}, err
	}
	if sig.algorithm != "" && sig.algorithm != messageNames[key.Algorithm] {
		return proven{}, refuse(receipt.CodeIdentitySignatureInvalid, "The key is of another algorithm.")
	}
	base, err := sig.base(&q.message)
	if err != nil {
		return proven{}, err
	}
	if err := key.verify(base, sig.bytes); err != nil {
		return proven{}, err
	}
	if err := sig.checkBody(q); err != nil {
		return proven{}, err
	}
	return proven{key: key, signed: base, once: "message " + sig.nonce, covered: true}, nil
}

// checkSignature is every check that needs neither key nor body.
func (v *Verifier) checkSignature(q *request, sig *signature) error {
	if err := v.fresh(sig.created, q.now); err != nil {
		return err
	}
	if !sig.expires.IsZero() && sig.expires.Before(q.now.Add(-v.opts.Skew)) {
		return refuse(receipt.CodeIdentityBindingStale, "The signature's time is over.")
	}
	for _, name := range mustCover(&q.message, q.mayHaveBody()) {
		if !slices.Contains(sig.components, name) {
			return refuse(receipt.CodeIdentityBindingMismatch, "The signature does not cover %s.", name)
		}
	}
	if !sig.coversURL(q.target) {
		return refuse(receipt.CodeIdentityBindingMismatch, "The signature does not cover the method and the whole URL.")
	}
	return nil
}

// coversURL reports whether method and URL are covered, in one of the ways that
// RFC 9421 has for it.
func (s *signature) coversURL(target string) bool {
	covers := func(names ...string) bool {
		for _, name := range names {
			if !slices.Contains(s.components, name) {
				return false
			}
		}
		return true
	}
	return covers("@method") && (covers("@target-uri") || covers("@authority", "@request-target") ||
		covers("@authority", "@path", "@query") || covers("@authority", "@path") && !strings.Contains(target, "?"))
}

// checkBody holds the body against the digest that is covered.
func (s *signature) checkBody(q *request) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	if slices.Contains(s.components, "content-digest") {
		return checkDigest(q.header, body)
	}
	if len(body) > 0 {
		return refuse(receipt.CodeIdentityBindingMismatch, "The signature does not cover the body's content-digest.")
	}
	return nil
}

// mustCover are the fields that change what a request means, as far as they
// are there.
func mustCover(m *message, body bool) (names []string) {
	for _, name := range [...]string{"content-type", "peac-agent-identity", "peac-purpose", "peac-receipt"} {
		if _, present := m.values(name); present && (body || name != "content-type") {
			names = append(names, name)
		}
	}
	return names
}

// parseSignature reads the one signature of a request.
func parseSignature(header http.Header) (*signature, error) {
	inputs, err := dictionary(header, "Signature-Input")
	if err != nil {
		return nil, err
	}
	values, err := dictionary(header, "Signature")
	if err != nil {
		return nil, err
	}
	if len(inputs.Names()) != 1 || !slices.Equal(inputs.Names(), values.Names()) {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The request must have exactly one signature.")
	}
	input, _ := inputs.Get(inputs.Names()[0])
	value, _ := values.Get(inputs.Names()[0])
	list, isList := input.(httpsfv.InnerList)
	item, _ := value.(httpsfv.Item)
	bytes, isBytes := item.Value.([]byte)
	if !isList || !isBytes {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The signature is not of the form of RFC 9421.")
	}
	sig := &signature{input: list, bytes: bytes}
	if err := sig.readComponents(); err != nil {
		return nil, err
	}
	return sig, sig.readParameters()
}

func (s *signature) readComponents() error {
	if len(s.input.Items) > maxComponents {
		return refuse(receipt.CodeIdentityInvalidFormat, "The signature covers more than %d components.", maxComponents)
	}
	for _, item := range s.input.Items {
		name, ok := item.Value.(string)
		switch {
		case !ok || name == "" || name != strings.ToLower(name) || slices.Contains(s.components, name):
			return refuse(receipt.CodeIdentityInvalidFormat, "A covered component is not a name in lower case, or occurs twice.")
		case len(item.Params.Names()) > 0:
			return refuse(receipt.CodeIdentityProofUnsupported, "Parameters of components are not supported.")
		}
		s.components = append(s.components, name)
	}
	return nil
}

// readParameters reads what this package uses; others are signed all the same.
func (s *signature) readParameters() error {
	created, hasCreated := parameter[int64](s.input, "created")
	expires, hasExpires := parameter[int64](s.input, "expires")
	s.keyID, _ = parameter[string](s.input, "keyid")
	s.algorithm, _ = parameter[string](s.input, "alg")
	s.nonce, _ = parameter[string](s.input, "nonce")
	s.created = time.Unix(created, 0)
	if hasExpires {
		s.expires = time.Unix(expires, 0)
	}
	for _, name := range [...]string{"expires", "alg"} { // optional, yet of their type
		_, present := s.input.Params.Get(name)
		if name == "expires" && present != hasExpires || name == "alg" && present && s.algorithm == "" {
			return refuse(receipt.CodeIdentityInvalidFormat, "The parameter %s is of a wrong type.", name)
		}
	}
	if !hasCreated || s.keyID == "" || len(s.nonce) < 1 || len(s.nonce) > maxID {
		return refuse(receipt.CodeIdentityInvalidFormat, "The signature needs created, keyid and a nonce of up to %d characters.", maxID)
	}
	return nil
}

// parameter is a parameter of the type.
func parameter[T any](list httpsfv.InnerList, name string) (value T, ok bool) {
	if found, present := list.Params.Get(name); present {
		value, ok = found.(T)
	}
	return value, ok
}

// base is the signature base of a message (RFC 9421, section 2.5).
func (s *signature) base(m *message) ([]byte, error) {
	var base strings.Builder
	for _, name := range s.components {
		value, err := m.component(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&base, "%q: %s\n", name, value)
	}
	parameters, err := httpsfv.Marshal(s.input)
	if err != nil {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The signature's parameters cannot be written again.")
	}
	base.WriteString(`"@signature-params": ` + parameters)
	return []byte(base.String()), nil
}

// component is the value of a covered component (RFC 9421, section 2).
func (m *message) component(name string) (string, error) {
	path, query, _ := strings.Cut(m.target, "?")
	switch name {
	case "@method":
		return m.verb, nil
	case "@target-uri":
		return m.url(), nil
	case "@authority":
		return m.origin.Host(), nil
	case "@scheme":
		scheme, _, _ := strings.Cut(m.origin.String(), ":")
		return scheme, nil
	case "@request-target":
		return m.target, nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + query, nil
	}
	if strings.HasPrefix(name, "@") {
		return "", refuse(receipt.CodeIdentityProofUnsupported, "A derived component is not supported.")
	}
	value, present := m.values(name)
	if !present {
		return "", refuse(receipt.CodeIdentityBindingMismatch, "A field that is covered is not there.")
	}
	return value, nil
}
