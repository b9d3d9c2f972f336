package receipt

// Header fields of the protocol in their only spelling. net/http respells the
// names that go through http.Header.Set: to write one, assign to the map.
// Reading through http.Header.Values finds them however they are spelt.
const (
	HeaderReceipt        = "PEAC-Receipt"         // the compact JWS, never a reference
	HeaderReceiptURL     = "PEAC-Receipt-URL"     // where the receipt may be had
	HeaderPurpose        = "PEAC-Purpose"         // of a request: tokens
	HeaderPurposeApplied = "PEAC-Purpose-Applied" // of a response: one token
	HeaderPurposeReason  = "PEAC-Purpose-Reason"  // of a response: a PurposeReason
	HeaderAgentIdentity  = "PEAC-Agent-Identity"  // of a request
	HeaderDPoP           = "DPoP"                 // of a request (RFC 9449)
)

// HeaderField is one header field to write as it is.
type HeaderField struct {
	Name, Value string
}

// FromHTTP reads the carrier of a message from the values of its fields
// PEAC-Receipt and PEAC-Receipt-URL. It returns no carrier where both are
// missing, and at most one. A bare reference, more than one receipt and a URL
// without the receipt that would prove what is found there are refused.
func FromHTTP(receipts, urls []string) ([]Carrier, error) {
	if len(receipts) == 0 && len(urls) == 0 {
		return nil, nil
	}
	if len(receipts) != 1 || len(urls) > 1 {
		return nil, refuse(CodeVerifyInvalidTransport, "", "%d fields %s and %d fields %s, want one and at most one",
			len(receipts), HeaderReceipt, len(urls), HeaderReceiptURL)
	}
	c, err := fromText(receipts[0], TransportHTTP)
	if err != nil {
		return nil, err
	}
	if len(urls) == 1 {
		c.ReceiptURL = urls[0]
		if c.ReceiptURL == "" {
			return nil, refuse(CodeInvalidFormat, "/receipt_url", "empty")
		}
	}
	if err := c.checkRead(TransportHTTP); err != nil {
		return nil, err
	}
	return []Carrier{*c}, nil
}

// fromText makes a carrier of a receipt that travels as text alone.
func fromText(jws string, t Transport) (*Carrier, error) {
	switch {
	case len(jws) > t.Limit():
		return nil, refuse(CodeVerifyReceiptTooLarge, "", "%d bytes, %s carries at most %d", len(jws), t, t.Limit())
	case isReceiptRef(jws):
		return nil, refuse(CodeVerifyInvalidTransport, "", "a reference where the receipt itself belongs")
	case !isCompactJWS(jws):
		return nil, refuse(CodeInvalidFormat, "/receipt_jws", "not a compact JWS")
	}
	return NewCarrier(jws), nil
}

// ToHTTP is the carrier as header fields. It must hold the receipt, and members
// that have no field of their own do not travel.
func (c *Carrier) ToHTTP() ([]HeaderField, error) {
	if err := c.checkText(TransportHTTP); err != nil {
		return nil, err
	}
	fields := []HeaderField{{HeaderReceipt, c.ReceiptJWS}}
	if c.ReceiptURL != "" {
		fields = append(fields, HeaderField{HeaderReceiptURL, c.ReceiptURL})
	}
	return fields, nil
}

// checkText is what a carrier must meet before its receipt is written as text.
func (c *Carrier) checkText(t Transport) error {
	if c.ReceiptJWS == "" {
		return refuse(CodeVerifyInvalidTransport, "/receipt_jws", "%s carries the receipt itself, not a reference", t)
	}
	return c.checkWritten(t)
}
