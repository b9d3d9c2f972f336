package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleykit/parley/protocol/receipt"
)

type receiptCmd struct {
	Verify receiptVerifyCmd `cmd:"" help:"Check receipts, offline or with the issuer's published key."`
	Decode receiptDecodeCmd `cmd:"" help:"Show what receipts say, without checking who says it."`
	Issue  receiptIssueCmd  `cmd:"" help:"Sign claims with a key of your own."`
	Keys   receiptKeysCmd   `cmd:"" help:"Make and show keys that sign receipts."`
}

// Help is printed below the commands.
func (c *receiptCmd) Help() string {
	return `A receipt is a signed record of who did what, and when (docs/spec/receipt.md). None of
these commands needs a home. docs/verify.md shows how to check one without parley.

Examples:
  parley receipt verify bundle.json
  parley receipt decode receipt.jws
  parley receipt keys mykeys --make
  parley receipt issue claims.json --keys mykeys`
}

type receiptDecodeCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Receipt, header line, carrier, metadata or bundle; - reads standard input."`
}

// Help is printed below the flags.
func (c *receiptDecodeCmd) Help() string {
	return `No signature is checked: anybody can write a receipt in anybody's name. It takes the
same forms as "parley receipt verify".

Examples:
  parley receipt decode receipt.jws
  curl -sI https://parley.example/ | parley receipt decode`
}

// decodedReceipt is what a receipt says, believed by nobody.
type decodedReceipt struct {
	Reference string          `json:"receipt_ref"`
	Header    json.RawMessage `json:"header"`
	Claims    json.RawMessage `json:"claims"`
}

// Run shows receipts.
func (c *receiptDecodeCmd) Run(s *session) error {
	in, err := readReceipts(s, c.File)
	if err != nil {
		return s.refusedInput(err)
	}
	list := make([]decodedReceipt, len(in.receipts))
	for i, jws := range in.receipts {
		if list[i], err = decodeReceipt(jws); err != nil {
			return s.refusedInput(err)
		}
	}
	answer := map[string]any{"verified": false, "form": in.form, "receipts": list}
	return s.print(answer, func(p *printer) {
		for _, d := range list {
			p.fields("receipt", d.Reference)
			p.printf("header  %s\nclaims  %s\n", indented(d.Header), indented(d.Claims))
		}
		p.println(p.paint(yellow, "not verified") + ": anybody could have written this; check it with parley receipt verify")
	})
}

// decodeReceipt cuts a well-formed receipt into its parts.
func decodeReceipt(jws string) (decodedReceipt, error) {
	d := decodedReceipt{Reference: receipt.Reference(jws)}
	if _, err := receipt.Decode(jws); err != nil {
		return d, err
	}
	parts := strings.Split(jws, ".")
	for i, target := range []*json.RawMessage{&d.Header, &d.Claims} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return d, fmt.Errorf("part %d of the receipt: %w", i+1, err)
		}
		*target = data
	}
	return d, nil
}

// indented is JSON for people, harmless on a terminal.
func indented(data json.RawMessage) []byte {
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return escapeJSON(data)
	}
	return escapeJSON(text.Bytes())
}
