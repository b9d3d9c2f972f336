package receipt

import "strings"

// Metadata of gRPC in its only spelling. Values are ASCII.
const (
	MetadataReceipt     = "peac-receipt"      // the compact JWS
	MetadataReceiptType = "peac-receipt-type" // RecordType, or missing
)

// metadataBinary ends the names whose values gRPC encodes as bytes.
const metadataBinary = "-bin"

// FromGRPC reads the carrier of a call from its metadata. It returns no carrier
// where there is none, and at most one. A receipt among the binary metadata, of
// another type, or more than one of them is refused.
func FromGRPC(metadata map[string][]string) ([]Carrier, error) {
	for name := range metadata {
		name = strings.ToLower(name)
		if name == MetadataReceipt+metadataBinary || name == MetadataReceiptType+metadataBinary {
			return nil, refuse(CodeVerifyInvalidTransport, "", "a receipt in binary metadata")
		}
	}
	receipts, types := metadata[MetadataReceipt], metadata[MetadataReceiptType]
	switch {
	case len(receipts) == 0:
		return nil, nil
	case len(receipts) > 1 || len(types) > 1:
		return nil, refuse(CodeVerifyInvalidTransport, "", "%d receipts and %d types, want one of each", len(receipts), len(types))
	case len(types) == 1 && types[0] != RecordType:
		return nil, refuse(CodeUnsupportedWireVersion, "", "another type of receipt")
	}
	c, err := fromText(receipts[0], TransportGRPC)
	if err != nil {
		return nil, err
	}
	if err := c.checkRead(TransportGRPC); err != nil {
		return nil, err
	}
	return []Carrier{*c}, nil
}

// ToGRPC is the carrier as metadata. It must hold the receipt; no other member
// travels.
func (c *Carrier) ToGRPC() (map[string][]string, error) {
	if err := c.checkText(TransportGRPC); err != nil {
		return nil, err
	}
	return map[string][]string{
		MetadataReceipt:     {c.ReceiptJWS},
		MetadataReceiptType: {RecordType},
	}, nil
}
