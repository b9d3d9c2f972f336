package discovery

import (
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// MaxCapabilities bounds the document peac.json, in bytes.
const MaxCapabilities = 256 << 10

var capabilitiesLimits = limits{
	bytes: MaxCapabilities, depth: 8, items: 1000, text: 4096,
	tooLarge: receipt.CodePayloadTooLarge, invalid: receipt.CodeInvalidFormat,
}

// ParseCapabilities reads peac.json, which says what an origin without an Agent
// Card can do. It names no keys: they are found through IssuerConfigURL.
// Missing kinds are the current one. Refusals are *receipt.Error.
func ParseCapabilities(data []byte) (*receipt.Capabilities, error) {
	o, err := capabilitiesLimits.decodeJSON(data)
	if err != nil {
		return nil, err
	}
	c := &receipt.Capabilities{
		SupportedKinds:  o.texts("supported_kinds"),
		CarrierFormats:  o.texts("carrier_formats"),
		IssuerConfigURL: o.link("issuer_config_url"),
	}
	if o.err != nil {
		return nil, o.err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(c.SupportedKinds) == 0 {
		c.SupportedKinds = []string{defaultReceiptVersion}
	}
	return c, nil
}

// EncodeCapabilities writes peac.json. What ParseCapabilities would refuse is
// refused with *receipt.Error.
func EncodeCapabilities(c *receipt.Capabilities) ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	data, err := canonical.Marshal(c)
	if err != nil {
		return nil, refuse(receipt.CodeInvalidFormat, "", "%v", err)
	}
	return data, nil
}
