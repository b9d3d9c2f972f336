package receiptlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/receipt"
)

// Notary issues receipts and puts them into the log in one transaction, and
// proves them later, for a venue.
type Notary struct {
	Issuer *issuer.Issuer
	Log    *Log
	// Closed makes no more receipts; what was issued is proven all the same.
	Closed bool
}

// Issue signs a receipt with these claims, which the issuer completes, and
// appends its reference in the caller's transaction; "" when Closed. Call Wake
// after the commit. Refusals are *receipt.Error.
func (n *Notary) Issue(ctx context.Context, tx *sql.Tx, claims *receipt.Claims) (string, error) {
	if n.Closed {
		return "", nil
	}
	issued, err := n.Issuer.Issue(*claims)
	if err != nil {
		return "", err
	}
	return issued.JWS, n.Log.Append(ctx, tx, issued.Reference)
}

// Wake makes the log take what was committed.
func (n *Notary) Wake() { n.Log.Wake() }

// Evidence proves receipts that Issue made, in their order; nil while the log
// has not come to all of them, and without proofs where it does not know one.
func (n *Notary) Evidence(ctx context.Context, receipts []string) (*agreement.Evidence, error) {
	evidence := &agreement.Evidence{LogKey: n.Log.Key().String()}
	for _, jws := range receipts {
		decoded, err := receipt.Decode(jws)
		if err != nil {
			return nil, err
		}
		key, err := n.Issuer.Key(decoded.KeyID)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(evidence.IssuerKeys, key) {
			evidence.IssuerKeys = append(evidence.IssuerKeys, key)
		}
		evidence.Receipts = append(evidence.Receipts, jws)
	}
	for _, jws := range receipts {
		proof, err := n.prove(ctx, receipt.Reference(jws))
		switch {
		case errors.Is(err, ErrWaiting):
			return nil, nil
		case errors.Is(err, ErrUnknown): // it lies in the log that this server had under another name
			evidence.LogKey, evidence.LogProofs = "", nil
			return evidence, nil
		case err != nil:
			return nil, err
		}
		evidence.LogProofs = append(evidence.LogProofs, proof)
	}
	return evidence, nil
}

// prove leaves out what others cosigned: a bundle holds nothing that it cannot
// vouch for.
func (n *Notary) prove(ctx context.Context, ref string) (string, error) {
	leaf, err := Leaf(ref)
	if err != nil {
		return "", err
	}
	proof, err := n.Log.log.Proof(ctx, leaf)
	if err != nil {
		return "", err
	}
	alone, err := proof.Alone(n.Log.Key())
	if err != nil {
		return "", fmt.Errorf("receiptlog: proof of a receipt: %w", err)
	}
	return alone.String(), nil
}
