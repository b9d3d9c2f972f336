package receipt

// mcpPrefix stands before the name of a member in `_meta`. Its second label is
// not one of those the Model Context Protocol keeps for itself.
const mcpPrefix = "org.peacprotocol/"

// Names of older forms that are read and never written.
const (
	mcpLegacyMember = mcpPrefix + "receipt" // in `_meta`: a JWS without reference
	mcpLegacyResult = "peac_receipt"        // beside `_meta`: a JWS
)

// FromMCP reads the carrier of a result of the Model Context Protocol, as
// decoded JSON: from `_meta`, else from the two older places, whose reference is
// computed. It returns no carrier where the result has none, and at most one.
// Other members of `_meta` are left alone.
func FromMCP(result map[string]any) ([]Carrier, error) {
	meta, isObject := result["_meta"].(map[string]any)
	if value, present := result["_meta"]; present && value != nil && !isObject {
		return nil, refuse(CodeInvalidFormat, "/_meta", "not an object")
	}
	var c Carrier
	found, err := c.readMembers(meta, mcpPrefix)
	if err != nil {
		return nil, err
	}
	if !found {
		legacy, err := legacyReceipt(result, meta)
		if legacy == "" {
			return nil, err
		}
		c = *NewCarrier(legacy)
	}
	if err := c.checkRead(TransportMCP); err != nil {
		return nil, err
	}
	return []Carrier{c}, nil
}

// legacyReceipt is the JWS in one of the older places, "" where there is none.
func legacyReceipt(result, meta map[string]any) (string, error) {
	value, present := meta[mcpLegacyMember]
	if !present {
		if value, present = result[mcpLegacyResult]; !present {
			return "", nil
		}
	}
	jws, ok := value.(string)
	if !ok || jws == "" {
		return "", refuse(CodeInvalidFormat, "", "the receipt is not a string with a value")
	}
	return jws, nil
}

// ToMCP writes the carrier into `_meta` of a result, one member for each of its
// own. Whatever else stands there stays.
func (c *Carrier) ToMCP(meta map[string]any) error {
	if err := c.checkWritten(TransportMCP); err != nil {
		return err
	}
	c.writeMembers(meta, mcpPrefix)
	return nil
}
