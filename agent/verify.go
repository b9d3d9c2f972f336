package agent

import (
	"bytes"
	"context"
	"errors"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

// VerifyRequest is a bundle and, where there is one, the document to compare
// with it.
type VerifyRequest struct {
	Bundle    string  `json:"bundle"`              // exact bytes of a bundle/v1
	Consensus *string `json:"consensus,omitempty"` // exact bytes of a CONSENSUS.md
}

// Verification is what a bundle proves, and on whose word.
type Verification struct {
	AgreementID     string           `json:"agreement_id"`
	Title           string           `json:"title"`
	Venue           string           `json:"venue"` // hex key that must be the one meant
	Digest          string           `json:"digest"`
	MarkdownDigest  string           `json:"markdown_digest"`
	ConsensusDigest string           `json:"consensus_digest,omitempty"`
	Outcome         string           `json:"outcome"`
	LockedAt        canonical.Time   `json:"locked_at"` // by the venue's clock
	ClosedAt        canonical.Time   `json:"closed_at"`
	Events          int              `json:"events"`
	Head            string           `json:"head"`
	Decisions       []ProvenDecision `json:"decisions"` // the proposal first
	OnVenueWord     int              `json:"on_venue_word"`
	Warnings        []string         `json:"warnings"`
	Consensus       string           `json:"consensus,omitempty"` // "matches" when a document was compared

	Receipts *BundleReceipts `json:"receipts,omitempty"` // absent when the venue issued none
}

// BundleReceipts is what the receipts in a bundle prove. Issuer and log must be
// the ones meant.
type BundleReceipts struct {
	Issuers []string `json:"issuers"` // https origin, or a did:key of a server without one
	Keys    []string `json:"keys"`    // RFC 7638 thumbprints of the keys that verify them
	Count   int      `json:"count"`   // receipts, each of one event
	Logged  int      `json:"logged"`  // of them, proven to be in the log
	Log     string   `json:"log,omitempty"`
	LogKey  string   `json:"log_key,omitempty"` // C2SP vkey
}

// ProvenDecision is one act that counts and how it is known.
type ProvenDecision struct {
	ParticipantID string         `json:"participant_id"`
	Label         string         `json:"label"`
	Kind          string         `json:"kind"`
	Action        string         `json:"action"`
	At            canonical.Time `json:"at"` // by the venue's clock
	Seq           int64          `json:"seq"`
	Assurance     string         `json:"assurance"`
	Proof         string         `json:"proof"`            // participant-signature, delegate-signature or venue-word
	Signer        string         `json:"signer,omitempty"` // hex key
}

// VerifyBundle is Verify as an operation.
func (a *Agent) VerifyBundle(_ context.Context, q VerifyRequest) (*Verification, error) {
	var consensus []byte
	if q.Consensus != nil {
		consensus = []byte(*q.Consensus)
	}
	return Verify([]byte(q.Bundle), consensus)
}

// Verify checks a bundle from its bytes alone, without network, home or clock.
// consensus, unless nil, must be the bundle's document byte for byte.
func Verify(bundle, consensus []byte) (*Verification, error) {
	report, err := agreement.Verify(bundle)
	if err != nil {
		if r, ok := errors.AsType[*agreement.Refusal](err); ok {
			return nil, refused("the bundle does not verify: %s", r.Detail)
		}
		return nil, refused("the bundle does not verify: %w", err)
	}
	v := &Verification{
		AgreementID: report.Agreement.AgreementID, Title: report.Agreement.Title, Venue: report.Agreement.Venue,
		Digest: report.Digest, MarkdownDigest: report.MarkdownDigest, ConsensusDigest: report.ConsensusDigest,
		Outcome: report.Outcome, LockedAt: canonical.At(report.LockedAt), ClosedAt: canonical.At(report.ClosedAt),
		Events: report.Events, Head: report.Head, OnVenueWord: len(report.OnVenueWord()),
		Warnings: append([]string{}, report.Warnings...),
	}
	for _, d := range append([]agreement.Decision{report.Proposal}, report.Decisions...) {
		v.Decisions = append(v.Decisions, ProvenDecision{
			ParticipantID: d.ParticipantID, Label: d.Label, Kind: d.Kind, Action: d.Action, At: canonical.At(d.At),
			Seq: d.Seq, Assurance: d.Assurance, Proof: d.Proof, Signer: d.Signer,
		})
	}
	if r := report.Receipts; r != nil {
		v.Receipts = &BundleReceipts{
			Issuers: r.Issuers, Keys: r.Keys, Count: r.Count, Logged: r.Logged, Log: r.Log, LogKey: r.LogKey,
		}
	}
	if consensus == nil {
		return v, nil
	}
	return v, compareConsensus(v, bundle, consensus)
}

func compareConsensus(v *Verification, bundle, consensus []byte) error {
	if v.ConsensusDigest == "" {
		return refused("the outcome is %s: there is no CONSENSUS.md to compare with", v.Outcome)
	}
	b := new(agreement.Bundle)
	if err := canonical.Decode(bundle, b); err != nil {
		return refused("the bundle does not verify: %w", err)
	}
	if !bytes.Equal(consensus, []byte(b.Consensus)) {
		return refused("the document is not the bundle's CONSENSUS.md: its SHA-256 is %s, the bundle's %s",
			canonical.Digest(consensus), v.ConsensusDigest)
	}
	v.Consensus = "matches"
	return nil
}
