package main

import (
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

type receiptIssueCmd struct {
	Claims string `arg:"" help:"File with the claims as JSON; - reads standard input."`
	Keys   string `help:"Folder of the key that signs." placeholder:"DIR" required:"" type:"path"`
}

// Help is printed below the flags.
func (c *receiptIssueCmd) Help() string {
	return `What is missing is filled in: iss with the did:key of the key, iat with this moment, jti
with a new id, peac_version. Claims that a strict verifier would refuse are not signed.
With --json the receipt is printed as a carrier, for a JSON body.

Examples:
  parley receipt issue claims.json --keys mykeys > receipt.jws
  echo '{"kind":"evidence","type":"org.example/delivery","sub":"urn:example:42"}' |
    parley receipt issue - --keys mykeys`
}

// Run issues a receipt.
func (c *receiptIssueCmd) Run(s *session) error {
	data, err := readInput(s, c.Claims, receipt.MaxJWS)
	if err != nil {
		return err
	}
	var claims receipt.Claims
	if err := canonical.Decode(data, &claims); err != nil {
		return s.refusedInput(&receipt.Error{Code: receipt.CodeInvalidFormat, Detail: "the claims: " + err.Error()})
	}
	dir, err := openReceiptKeys(c.Keys, false)
	if err != nil {
		return err
	}
	key, err := dir.Ed25519(keys.Issuer)
	switch {
	case errors.Is(err, keys.ErrNoKey):
		return noReceiptKey(c.Keys)
	case err != nil:
		return unusableKeys(err)
	}
	jws, err := issueReceipt(&claims, key, time.Now())
	if err != nil {
		return s.refusedInput(err)
	}
	return s.print(receipt.NewCarrier(jws), func(p *printer) { p.println(jws) })
}

// issueReceipt fills in what an issuer knows and signs.
func issueReceipt(claims *receipt.Claims, key *keys.Ed25519, now time.Time) (string, error) {
	if claims.Issuer == "" {
		claims.Issuer = receipt.DIDKey(key.PublicKey())
	}
	if claims.IssuedAt == 0 {
		claims.IssuedAt = now.Unix()
	}
	if claims.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return "", fmt.Errorf("naming the receipt: %w", err)
		}
		claims.ID = id.String()
	}
	return receipt.Issue(claims, issuer.KeyID(key.PublicKey()), func(message []byte) ([]byte, error) {
		return key.Sign(nil, message, crypto.Hash(0))
	})
}
