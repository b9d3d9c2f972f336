package receipt

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// Transport is a way for a carrier to travel; each has a limit of its own.
type Transport string

// Transports of the evidence carrier contract, a closed set.
const (
	TransportMCP  Transport = "mcp"  // `_meta` of a result
	TransportA2A  Transport = "a2a"  // `metadata` of a status, message or artifact
	TransportHTTP Transport = "http" // header fields
	TransportGRPC Transport = "grpc" // ASCII metadata
	TransportBody Transport = "body" // a JSON body of its own
)

// carrierLimits are the largest carriers as JSON, in bytes.
var carrierLimits = map[Transport]int{
	TransportMCP:  64 << 10,
	TransportA2A:  64 << 10,
	TransportHTTP: 8 << 10,
	TransportGRPC: 8 << 10,
	TransportBody: 256 << 10,
}

// Limit is the size of the largest carrier as JSON in bytes, 0 for a transport
// that is not in the set.
func (t Transport) Limit() int { return carrierLimits[t] }

// Formats of a carrier.
const (
	FormatEmbed     = "embed"     // the receipt itself is in the carrier
	FormatReference = "reference" // only its reference is; receipt_jws is absent
)

// Limits of a carrier.
const (
	MaxReceiptURL     = 2048     // bytes
	maxCarrierEmitted = 8192     // bytes of one written member, receipt_jws apart
	maxCarriers       = 64       // read from one place
	maxPointerBody    = 64 << 10 // bytes of a receipt fetched by its URL
)

// Carrier is a receipt on its way, or a reference to one. Only what the receipt
// itself says is signed; every other member is a claim of whoever sent it.
type Carrier struct {
	// ReceiptRef is Reference of the receipt: "sha256:" and 64 hex digits.
	ReceiptRef string `json:"receipt_ref"`
	// ReceiptJWS is the receipt as compact JWS; empty in a mere reference.
	ReceiptJWS string `json:"receipt_jws,omitempty"`
	// ReceiptURL says where the receipt may be had. Nothing in this package
	// fetches it; whoever does, by choice, passes what came to CheckFetched.
	ReceiptURL            string `json:"receipt_url,omitempty"`
	PolicyBinding         string `json:"policy_binding,omitempty"`
	ActorBinding          string `json:"actor_binding,omitempty"`
	RequestNonce          string `json:"request_nonce,omitempty"`
	VerificationReportRef string `json:"verification_report_ref,omitempty"`
	UsePolicyRef          string `json:"use_policy_ref,omitempty"`
	RepresentationRef     string `json:"representation_ref,omitempty"`
	AttestationRef        string `json:"attestation_ref,omitempty"`
}

// carrierMember is one member of a carrier by its name on the wire.
type carrierMember struct {
	name  string
	value *string
}

func (c *Carrier) members() []carrierMember {
	return []carrierMember{
		{"receipt_ref", &c.ReceiptRef},
		{"receipt_jws", &c.ReceiptJWS},
		{"receipt_url", &c.ReceiptURL},
		{"policy_binding", &c.PolicyBinding},
		{"actor_binding", &c.ActorBinding},
		{"request_nonce", &c.RequestNonce},
		{"verification_report_ref", &c.VerificationReportRef},
		{"use_policy_ref", &c.UsePolicyRef},
		{"representation_ref", &c.RepresentationRef},
		{"attestation_ref", &c.AttestationRef},
	}
}

// NewCarrier carries a receipt inline.
func NewCarrier(jws string) *Carrier { return &Carrier{ReceiptRef: Reference(jws), ReceiptJWS: jws} }

// Format is FormatEmbed when the carrier holds the receipt, else
// FormatReference.
func (c *Carrier) Format() string {
	if c.ReceiptJWS != "" {
		return FormatEmbed
	}
	return FormatReference
}

// Check looks at the form and the size of a carrier for a transport. Whether
// reference and receipt belong together is for CheckReference, and whether the
// receipt is genuine for Verify. Errors are of type *Error.
func (c *Carrier) Check(t Transport) error {
	if t.Limit() == 0 {
		return refuse(CodeVerifyInvalidTransport, "", "unknown transport")
	}
	switch {
	case !isReceiptRef(c.ReceiptRef):
		return refuse(CodeInvalidFormat, "/receipt_ref", "not sha256: and 64 lower-case hex digits")
	case c.ReceiptJWS != "" && !isCompactJWS(c.ReceiptJWS):
		return refuse(CodeInvalidFormat, "/receipt_jws", "not a compact JWS")
	case c.ReceiptURL != "" && !IsHTTPS(c.ReceiptURL):
		return refuse(CodeInvalidFormat, "/receipt_url", "not an https URL without user of at most %d bytes", MaxReceiptURL)
	}
	for _, m := range c.members() {
		if !utf8.ValidString(*m.value) {
			return refuse(CodeInvalidFormat, "/"+m.name, "not UTF-8")
		}
	}
	if size := c.size(); size > t.Limit() {
		return refuse(CodeVerifyReceiptTooLarge, "", "%d bytes, %s carries at most %d", size, t, t.Limit())
	}
	return nil
}

// CheckReference computes the reference of the receipt in the carrier and
// compares it with the one that came along. A mere reference passes.
func (c *Carrier) CheckReference() error {
	if c.ReceiptJWS != "" && Reference(c.ReceiptJWS) != c.ReceiptRef {
		return refuse(CodeInvalidFormat, "/receipt_ref", "not the reference of the receipt beside it")
	}
	return nil
}

// CheckFetched compares a receipt that was fetched from ReceiptURL with the
// reference in the carrier. A receipt that fails is not the one meant.
func (c *Carrier) CheckFetched(jws string) error {
	switch {
	case len(jws) > maxPointerBody:
		return refuse(CodeVerifyPointerFetchTooLarge, "", "more than %d bytes", maxPointerBody)
	case Reference(jws) != c.ReceiptRef:
		return refuse(CodeVerifyPointerDigestMismatch, "/receipt_ref", "not the reference of what was fetched")
	}
	return nil
}

// checkWritten is what a carrier must meet before it is written.
func (c *Carrier) checkWritten(t Transport) error {
	if err := c.Check(t); err != nil {
		return err
	}
	for _, m := range c.members() {
		if m.value != &c.ReceiptJWS && len(*m.value) > maxCarrierEmitted {
			return refuse(CodeConstraint, "/"+m.name, "longer than %d bytes", maxCarrierEmitted)
		}
	}
	return c.CheckReference()
}

// checkRead is what a carrier that came from somebody must meet.
func (c *Carrier) checkRead(t Transport) error {
	if err := c.Check(t); err != nil {
		return err
	}
	return c.CheckReference()
}

// size is the length of the carrier as JSON. Before anything is encoded the
// lengths alone decide for a carrier far beyond every limit.
func (c *Carrier) size() int {
	total := 0
	for _, m := range c.members() {
		total += len(*m.value)
	}
	if total > carrierLimits[TransportBody] {
		return total
	}
	data, err := canonical.Marshal(c)
	if err != nil {
		return carrierLimits[TransportBody] + 1 // cannot be encoded
	}
	return len(data)
}

// readMembers fills a carrier from the members of a decoded JSON object, with a
// prefix before each name. found is false where none of them is there. Other
// members are left alone: later versions of the contract may add some.
func (c *Carrier) readMembers(object map[string]any, prefix string) (found bool, err error) {
	for _, m := range c.members() {
		value, present := object[prefix+m.name]
		if !present {
			continue
		}
		text, ok := value.(string)
		if !ok || text == "" {
			return true, refuse(CodeInvalidFormat, below("", prefix+m.name), "not a string with a value")
		}
		*m.value, found = text, true
	}
	return found, nil
}

// writeMembers is the reverse of readMembers.
func (c *Carrier) writeMembers(object map[string]any, prefix string) {
	for _, m := range c.members() {
		if *m.value != "" {
			object[prefix+m.name] = *m.value
		}
	}
}

// ParseCarrier reads the JSON body that carries one receipt (TransportBody).
func ParseCarrier(body []byte) (*Carrier, error) {
	if len(body) > TransportBody.Limit() {
		return nil, refuse(CodePayloadTooLarge, "", "%d bytes, at most %d", len(body), TransportBody.Limit())
	}
	var object map[string]any
	if !decodeLenient(body, &object) || object == nil {
		return nil, refuse(CodeInvalidFormat, "", "not a JSON object")
	}
	var c Carrier
	if _, err := c.readMembers(object, ""); err != nil {
		return nil, err
	}
	if err := c.checkRead(TransportBody); err != nil {
		return nil, err
	}
	return &c, nil
}

// isReceiptRef reports whether s has the form of a reference.
func isReceiptRef(s string) bool {
	hex, found := strings.CutPrefix(s, "sha256:")
	return found && canonical.IsHex(hex, 32)
}

// isCompactJWS reports whether s is three base64url texts with dots between
// (RFC 7515, section 7.1). What they hold is not looked at.
func isCompactJWS(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(part string) bool {
		_, ok := decodeBase64(part)
		return part == "" || !ok
	})
}

// IsHTTPS reports whether s is an absolute https URL in visible ASCII with a
// host, without user and fragment, of at most MaxReceiptURL bytes. That it may
// be asked for is not said: the address behind the name decides that.
func IsHTTPS(s string) bool {
	invisible := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return len(s) <= MaxReceiptURL && !strings.ContainsFunc(s, invisible) && isLocator(s)
}
