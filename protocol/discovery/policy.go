package discovery

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// PolicyVersion is the version of peac.txt that is written.
const PolicyVersion = "peac-policy/0.1"

// MaxPolicy bounds a policy, in bytes.
const MaxPolicy = 256 << 10

var policyLimits = limits{
	bytes: MaxPolicy, depth: 8, items: 1000, text: 64 << 10,
	tooLarge: receipt.CodePolicyTooLarge, invalid: receipt.CodePolicyInvalid,
}

// Values of a policy's fields.
const (
	UsageOpen        = "open"        // allowed unless something is said
	UsageConditional = "conditional" // not allowed unless something is said

	Required = "required" // of Receipts and Attribution
	Optional = "optional" // of Receipts and Attribution
	Omit     = "omit"     // of Receipts
	None     = "none"     // of Attribution

	Unlimited = "unlimited" // of RateLimit
)

// Policy is what a publisher says about automated use of what it offers, in
// peac.txt. It is a statement, not a permission.
type Policy struct {
	Version         string   // "peac-policy/0." and a number
	Usage           string   // UsageOpen or UsageConditional
	Purposes        []string // tokens that receipt.IsPurpose takes
	Receipts        string   // Required, Optional, Omit or ""
	Attribution     string   // Required, Optional, None or ""
	RateLimit       string   // see Rate; "" when nothing is said
	DailyLimit      *int64   // requests a day, nil when nothing is said
	Negotiate       string   // https URL
	Contact         string   // mail address or URL
	License         string   // identifier, such as "Apache-2.0"
	Price           *float64 // of one request in minor units, nil when nothing is said
	Currency        string   // three capital letters (ISO 4217)
	PaymentMethods  []string
	PaymentEndpoint string // https URL

	// Digest is "sha256:" and the hex SHA-256 of the RFC 8785 form of the whole
	// document, with the fields this version does not know: what a receipt names
	// in policy.digest. ParsePolicy fills it in, Encode passes over it.
	Digest string
}

// ParsePolicy reads peac.txt. contentType is the field Content-Type it came
// with, perhaps "": with application/json, or with '{' for its first character,
// it is JSON, else YAML within the subset of this package. Fields that this
// version does not know are passed over. Errors have a code E_POLICY_*.
func ParsePolicy(data []byte, contentType string) (*Policy, error) {
	o, err := decodePolicy(data, contentType)
	if err != nil {
		return nil, err
	}
	p := &Policy{
		Version:         o.required("version"),
		Usage:           o.required("usage"),
		Purposes:        o.texts("purposes"),
		Receipts:        o.word("receipts", Required, Optional, Omit),
		Attribution:     o.word("attribution", Required, Optional, None),
		RateLimit:       o.text("rate_limit"),
		Negotiate:       o.link("negotiate"),
		Contact:         o.text("contact"),
		License:         o.text("license"),
		Price:           o.number("price"),
		Currency:        o.text("currency"),
		PaymentMethods:  o.texts("payment_methods"),
		PaymentEndpoint: o.link("payment_endpoint"),
	}
	if daily := o.number("daily_limit"); daily != nil {
		whole := int64(*daily)
		if float64(whole) != *daily {
			o.fail("daily_limit", "not a whole number")
		}
		p.DailyLimit = &whole
	}
	p.check(o)
	if o.err != nil {
		return nil, o.err
	}
	return p, p.digest(o)
}

func decodePolicy(data []byte, contentType string) (*object, error) {
	isJSON := strings.Contains(strings.ToLower(contentType), "application/json") ||
		bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	if isJSON {
		return policyLimits.decodeJSON(data)
	}
	if len(data) > policyLimits.bytes {
		return nil, refuse(policyLimits.tooLarge, "", "%d bytes, at most %d", len(data), policyLimits.bytes)
	}
	value, err := decodeYAML(data)
	if err != nil {
		return nil, err
	}
	return policyLimits.object(value)
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// check holds what concerns the meaning of fields.
func (p *Policy) check(o *object) {
	if !supported(p.Version, "peac-policy") {
		o.fail("version", "not a version of peac-policy that is known")
	}
	if p.Usage != UsageOpen && p.Usage != UsageConditional {
		o.fail("usage", "neither %s nor %s", UsageOpen, UsageConditional)
	}
	if i := slices.IndexFunc(p.Purposes, func(token string) bool { return !receipt.IsPurpose(token) }); i >= 0 {
		o.fail("purposes", "item %d is no purpose", i)
	}
	if _, _, err := p.Rate(); err != nil {
		o.fail("rate_limit", "%v", err)
	}
	if p.Currency != "" && !currency.MatchString(p.Currency) {
		o.fail("currency", "not three capital letters")
	}
}

func (p *Policy) digest(o *object) error {
	whole, err := canonical.Marshal(o.members)
	if err != nil {
		return refuse(receipt.CodePolicyInvalid, "", "not what JSON can hold: %v", err)
	}
	p.Digest, err = receipt.PolicyDigest(whole)
	return err
}

var rate = regexp.MustCompile(`^([0-9]{1,15})/(second|minute|hour|day)$`)

var ratePeriods = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
}

// Rate is RateLimit as numbers: so many requests per time. Without a limit, and
// where nothing is said, per is 0.
func (p *Policy) Rate() (requests int64, per time.Duration, err error) {
	if p.RateLimit == "" || p.RateLimit == Unlimited {
		return 0, 0, nil
	}
	parts := rate.FindStringSubmatch(p.RateLimit)
	if parts == nil {
		return 0, 0, fmt.Errorf("neither %s nor a number per second, minute, hour or day", Unlimited)
	}
	requests, err = strconv.ParseInt(parts[1], 10, 64)
	return requests, ratePeriods[parts[2]], err
}

// Encode writes the policy as YAML, always the same for the same policy. A
// policy that ParsePolicy would not take is refused.
func (p *Policy) Encode() ([]byte, error) {
	w := &policyWriter{}
	w.text("version", p.Version)
	w.text("usage", p.Usage)
	w.texts("purposes", p.Purposes)
	w.text("receipts", p.Receipts)
	w.text("attribution", p.Attribution)
	w.text("rate_limit", p.RateLimit)
	if p.DailyLimit != nil {
		w.value("daily_limit", *p.DailyLimit)
	}
	w.text("negotiate", p.Negotiate)
	w.text("contact", p.Contact)
	w.text("license", p.License)
	if p.Price != nil {
		w.value("price", *p.Price)
	}
	w.text("currency", p.Currency)
	w.texts("payment_methods", p.PaymentMethods)
	w.text("payment_endpoint", p.PaymentEndpoint)
	if w.err != nil {
		return nil, refuse(receipt.CodePolicyInvalid, "", "%v", w.err)
	}
	if _, err := ParsePolicy(w.out.Bytes(), ""); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// policyWriter writes one field a line. JSON's scalars and lists of them are
// also YAML's.
type policyWriter struct {
	out bytes.Buffer
	err error
}

func (w *policyWriter) text(name, text string) {
	if text != "" {
		w.value(name, text)
	}
}

func (w *policyWriter) texts(name string, texts []string) {
	if texts != nil {
		w.value(name, texts)
	}
}

func (w *policyWriter) value(name string, value any) {
	data, err := canonical.Marshal(value)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(&w.out, "%s: %s\n", name, data)
}
