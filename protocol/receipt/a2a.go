package receipt

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/protocol/canonical"
)

// ExtensionURI names the extension of A2A under which carriers travel.
const ExtensionURI = "https://www.peacprotocol.org/ext/traceability/v1"

// HeaderExtensions lists the extensions of A2A that a message uses, by URI with
// commas between.
const HeaderExtensions = "A2A-Extensions"

// MaxAgentCard bounds an Agent Card, in bytes.
const MaxAgentCard = 256 << 10

// Limits of what one party lists.
const (
	maxCapabilities = 32
	maxCapability   = 256 // bytes
)

// FromA2A reads the carriers from the decoded `metadata` of a status, a message
// or an artifact of A2A; none where the extension is not there. One bad carrier
// refuses all of them. What `meta` beside them says counts in one thing: where
// it says "reference", no receipt may be inline.
func FromA2A(metadata map[string]any) ([]Carrier, error) {
	value, present := metadata[ExtensionURI]
	if !present {
		return nil, nil
	}
	at := below("", ExtensionURI)
	payload, ok := value.(map[string]any)
	if !ok {
		return nil, refuse(CodeInvalidFormat, at, "not an object")
	}
	items, ok := payload["carriers"].([]any)
	if !ok || len(items) > maxCarriers {
		return nil, refuse(CodeInvalidFormat, below(at, "carriers"), "not an array of at most %d", maxCarriers)
	}
	mayEmbed, err := readMeta(payload, at)
	if err != nil {
		return nil, err
	}
	carriers := make([]Carrier, len(items))
	for i, item := range items {
		place := belowItem(below(at, "carriers"), i)
		members, ok := item.(map[string]any)
		if !ok {
			return nil, refuse(CodeInvalidFormat, place, "not an object")
		}
		c := &carriers[i]
		if _, err := c.readMembers(members, ""); err != nil {
			return nil, moved(err, place)
		}
		if err := c.checkRead(TransportA2A); err != nil {
			return nil, moved(err, place)
		}
		if c.Format() == FormatEmbed && !mayEmbed {
			return nil, refuse(CodeInvalidFormat, below(place, "receipt_jws"), "a receipt inline in the format reference")
		}
	}
	return carriers, nil
}

// readMeta reads what the optional `meta` says about the format.
func readMeta(payload map[string]any, at string) (mayEmbed bool, err error) {
	value, present := payload["meta"]
	if !present {
		return true, nil
	}
	meta, ok := value.(map[string]any)
	if !ok {
		return false, refuse(CodeInvalidFormat, below(at, "meta"), "not an object")
	}
	switch meta["format"] {
	case FormatEmbed, nil:
		return true, nil
	case FormatReference:
		return false, nil
	}
	return false, refuse(CodeInvalidFormat, below(below(at, "meta"), "format"), "neither %s nor %s", FormatEmbed, FormatReference)
}

// moved puts the place of a carrier before the pointer of its refusal.
func moved(err error, place string) error {
	refusal := *err.(*Error)
	refusal.Pointer = place + refusal.Pointer
	return &refusal
}

// ToA2A writes carriers into `metadata` of a status, a message or an artifact
// of A2A, in place of those that were there. The message should then name
// ExtensionURI in the field A2A-Extensions.
func ToA2A(metadata map[string]any, carriers []Carrier) error {
	if len(carriers) == 0 || len(carriers) > maxCarriers {
		return refuse(CodeInvalidFormat, "", "%d carriers, want 1 to %d", len(carriers), maxCarriers)
	}
	items := make([]any, len(carriers))
	for i := range carriers {
		if err := carriers[i].checkWritten(TransportA2A); err != nil {
			return moved(err, belowItem("/carriers", i))
		}
		members := make(map[string]any)
		carriers[i].writeMembers(members, "")
		items[i] = members
	}
	metadata[ExtensionURI] = map[string]any{"carriers": items}
	return nil
}

// NamesExtension reports whether the fields A2A-Extensions name the extension.
// The field is a hint; what counts is what FromA2A finds.
func NamesExtension(values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		for uri := range strings.SplitSeq(value, ",") {
			if strings.Trim(uri, " \t") == ExtensionURI {
				return true
			}
		}
		return false
	})
}

// Capabilities is what a party says about the receipts it gives: in its Agent
// Card, or in the document peac.json.
type Capabilities struct {
	// SupportedKinds are types of receipts; nil stands for the current one alone.
	SupportedKinds []string `json:"supported_kinds,omitempty"`
	// CarrierFormats are FormatEmbed, FormatReference or both.
	CarrierFormats []string `json:"carrier_formats,omitempty"`
	// IssuerConfigURL is the https URL of the document peac-issuer.json.
	IssuerConfigURL string `json:"issuer_config_url,omitempty"`
}

// Check judges the form of capabilities. Kinds and formats that this version
// does not know are no error.
func (c *Capabilities) Check() error {
	bad := func(w string) bool { return w == "" || len(w) > maxCapability }
	switch {
	case len(c.SupportedKinds) > maxCapabilities || slices.ContainsFunc(c.SupportedKinds, bad):
		return refuse(CodeInvalidFormat, "/supported_kinds", "not at most %d texts of 1 to %d bytes", maxCapabilities, maxCapability)
	case len(c.CarrierFormats) > maxCapabilities || slices.ContainsFunc(c.CarrierFormats, bad):
		return refuse(CodeInvalidFormat, "/carrier_formats", "not at most %d texts of 1 to %d bytes", maxCapabilities, maxCapability)
	case c.IssuerConfigURL != "" && !IsHTTPS(c.IssuerConfigURL):
		return refuse(CodeInvalidFormat, "/issuer_config_url", "not an https URL without user")
	}
	return nil
}

// Extension is the entry of an Agent Card of A2A 1.0, in
// capabilities.extensions, that announces receipts.
type Extension struct {
	URI         string        `json:"uri"`
	Description string        `json:"description,omitempty"`
	Required    bool          `json:"required"` // whether the other party must know the extension
	Params      *Capabilities `json:"params,omitempty"`
}

// NewExtension is the entry for a party whose receipts are of the current type
// and whose keys are found by the document at issuerConfigURL.
func NewExtension(issuerConfigURL string) (*Extension, error) {
	params := &Capabilities{
		SupportedKinds:  []string{RecordType},
		CarrierFormats:  []string{FormatEmbed, FormatReference},
		IssuerConfigURL: issuerConfigURL,
	}
	if err := params.Check(); err != nil {
		return nil, moved(err, "/params")
	}
	return &Extension{URI: ExtensionURI, Description: "Signed records of interactions", Params: params}, nil
}

// extensionCard is what is read of an Agent Card.
type extensionCard struct {
	SupportedInterfaces []struct {
		URL string `json:"url"`
	} `json:"supportedInterfaces"`
	Capabilities struct {
		Extensions []jsontext.Value `json:"extensions"`
	} `json:"capabilities"`
}

// ReadExtension finds the entry in an Agent Card of A2A 1.0; nil in a card that
// has none. A card without the URL of its first interface, the mark of older
// versions, is refused, and so is a card with more than one entry.
func ReadExtension(card []byte) (*Extension, error) {
	if len(card) > MaxAgentCard {
		return nil, refuse(CodePayloadTooLarge, "", "%d bytes, at most %d", len(card), MaxAgentCard)
	}
	var read extensionCard
	if !decodeLenient(card, &read) {
		return nil, refuse(CodeInvalidFormat, "", "not an Agent Card")
	}
	if len(read.SupportedInterfaces) == 0 || !isAbsoluteURI(read.SupportedInterfaces[0].URL) {
		return nil, refuse(CodeInvalidFormat, "/supportedInterfaces/0/url", "not an absolute URL")
	}
	var found *Extension
	for i, raw := range read.Capabilities.Extensions {
		place := belowItem("/capabilities/extensions", i)
		var entry struct {
			URI string `json:"uri"`
		}
		if !decodeLenient(raw, &entry) {
			return nil, refuse(CodeInvalidFormat, place, "not an extension")
		}
		if entry.URI != ExtensionURI {
			continue
		}
		if found != nil {
			return nil, refuse(CodeInvalidFormat, place, "the extension is there twice")
		}
		found = new(Extension)
		if !decodeLenient(raw, found) {
			return nil, refuse(CodeInvalidFormat, place, "not an extension")
		}
		if found.Params == nil {
			continue
		}
		if err := found.Params.Check(); err != nil {
			return nil, moved(err, below(place, "params"))
		}
	}
	return found, nil
}

// decodeLenient reads I-JSON and passes over names that v does not have. Names
// count to the letter.
func decodeLenient(data []byte, v any) bool {
	return canonical.Check(data) == nil && json.Unmarshal(data, v) == nil
}
