package main

import (
	"bytes"
	"errors"
	"strings"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// Forms in which receipts are presented.
const (
	formJWS     = "receipt"
	formHeaders = "headers"
	formCarrier = "carrier"
	formMCP     = "mcp"
	formA2A     = "a2a"
	formBundle  = "bundle"
)

// presented is what somebody gave to be looked at.
type presented struct {
	form     string
	receipts []string // compact JWS, at least one
	evidence agreement.Evidence
	bundle   []byte // the whole of it; nil for another form
}

// readReceipts reads a file and finds out what it is. Refusals of the content
// are *receipt.Error.
func readReceipts(s *session, path string) (*presented, error) {
	data, err := readInput(s, path, agreement.MaxBundleSize)
	if err != nil {
		return nil, err
	}
	in, err := parseReceipts(data)
	if err == nil && len(in.receipts) == 0 {
		return nil, &agent.Error{Code: agent.CodeNotFound, Detail: "there is no receipt in it", Hint: "give a compact JWS, a header line, a carrier, metadata or a bundle"}
	}
	return in, err
}

func parseReceipts(data []byte) (*presented, error) {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte("{")):
		return parseObject(data)
	case bytes.Contains(data, []byte(":")): // never in a compact JWS
		return parseHeaders(string(data))
	}
	return &presented{form: formJWS, receipts: []string{string(data)}}, nil
}

// parseHeaders reads header fields, one a line, as they stand in a message or
// in what other programs print of one. Other fields are passed over.
func parseHeaders(text string) (*presented, error) {
	var receipts, urls []string
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name = strings.TrimSpace(name); {
		case !found:
		case strings.EqualFold(name, receipt.HeaderReceipt):
			receipts = append(receipts, value)
		case strings.EqualFold(name, receipt.HeaderReceiptURL):
			urls = append(urls, value)
		}
	}
	carriers, err := receipt.FromHTTP(receipts, urls)
	return carried(formHeaders, carriers, err)
}

// parseObject tells JSON objects apart by the names in them.
func parseObject(data []byte) (*presented, error) {
	var object map[string]any
	if err := canonical.Decode(data, &object); err != nil {
		return nil, &receipt.Error{Code: receipt.CodeInvalidFormat, Detail: err.Error()}
	}
	if result, ok := object["result"].(map[string]any); ok { // of JSON-RPC
		object = result
	}
	has := func(name string) bool { _, found := object[name]; return found }
	switch {
	case has("receipt_ref"):
		c, err := receipt.ParseCarrier(data)
		if err != nil {
			return nil, err
		}
		return carried(formCarrier, []receipt.Carrier{*c}, nil)
	case object["schema"] != nil && has("receipts"):
		return parseBundle(data)
	case has(receipt.ExtensionURI):
		carriers, err := receipt.FromA2A(object)
		return carried(formA2A, carriers, err)
	case has("metadata"):
		metadata, _ := object["metadata"].(map[string]any)
		carriers, err := receipt.FromA2A(metadata)
		return carried(formA2A, carriers, err)
	case !has("_meta") && !has("peac_receipt"): // the object may be _meta itself
		object = map[string]any{"_meta": object}
	}
	carriers, err := receipt.FromMCP(object)
	return carried(formMCP, carriers, err)
}

// parseBundle takes the evidence out of a bundle; whether the bundle itself
// holds is found out later.
func parseBundle(data []byte) (*presented, error) {
	var b agreement.Bundle
	if err := canonical.Decode(data, &b); err != nil {
		return nil, &receipt.Error{Code: receipt.CodeInvalidFormat, Detail: err.Error()}
	}
	if len(b.LogProofs) > 0 && len(b.LogProofs) != len(b.Receipts) {
		return nil, &receipt.Error{Code: receipt.CodeInvalidFormat, Pointer: "/log_proofs", Detail: "not one proof for each receipt"}
	}
	return &presented{form: formBundle, receipts: b.Receipts, evidence: b.Evidence, bundle: data}, nil
}

// carried takes the receipts out of carriers.
func carried(form string, carriers []receipt.Carrier, err error) (*presented, error) {
	if err != nil {
		return nil, err
	}
	in := &presented{form: form}
	for _, c := range carriers {
		if c.Format() == receipt.FormatReference {
			hint := "get the receipt itself from whoever sent the carrier"
			if c.ReceiptURL != "" {
				hint = "get the receipt itself, which may be at " + c.ReceiptURL
			}
			return nil, &agent.Error{Code: agent.CodeNotFound, Detail: "the carrier holds a reference, not a receipt: " + c.ReceiptRef, Hint: hint}
		}
		in.receipts = append(in.receipts, c.ReceiptJWS)
	}
	return in, nil
}

// refusedInput tells of something that is no receipt as of a receipt that does
// not hold; other errors are handed on.
func (s *session) refusedInput(err error) error {
	refusal, ok := errors.AsType[*receipt.Error](err)
	if !ok {
		return err
	}
	return s.tell(&receiptsReport{Receipts: []receiptReport{refused(refusal)}})
}
