package main

import (
	"fmt"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/agreement"
)

type verifyCmd struct {
	Bundle    string `arg:"" help:"bundle.json; - reads standard input."`
	Consensus string `help:"A CONSENSUS.md that must be the bundle's, byte for byte." placeholder:"FILE"`
}

// Help is printed below the flags.
func (c *verifyCmd) Help() string {
	return `Needs no home, no network and no clock: everything is computed from the bundle's
bytes. Each binding act is shown with how it is known. What cannot be computed is whether
the venue's key is the one you mean: compare it with the one your server names.

Examples:
  parley verify bundle.json --consensus CONSENSUS.md
  parley verify bundle.json --json`
}

// Run checks a bundle.
func (c *verifyCmd) Run(s *session) error {
	bundle, err := readInput(s, c.Bundle, agreement.MaxBundleSize)
	if err != nil {
		return err
	}
	var consensus []byte
	if c.Consensus != "" {
		if consensus, err = readInput(s, c.Consensus, agreement.MaxBundleSize); err != nil {
			return err
		}
	}
	v, err := agent.Verify(bundle, consensus)
	if err != nil {
		return err
	}
	return s.print(v, func(p *printer) { p.verification(v) })
}

func (p *printer) verification(v *agent.Verification) {
	p.fields(
		"agreement", v.AgreementID,
		"title", line(v.Title),
		"digest", v.Digest,
		"outcome", p.paint(bold, v.Outcome),
		"venue", v.Venue,
		"locked", v.LockedAt.String()+" by the venue's clock",
		"closed", v.ClosedAt.String()+" by the venue's clock",
		"events", fmt.Sprintf("%d, the last with hash %s", v.Events, v.Head),
		"CONSENSUS.md", v.ConsensusDigest,
	)
	p.println(p.paint(bold, "acts"))
	for _, d := range v.Decisions {
		p.printf("  %s  %s  %s  %s: %s\n", d.ParticipantID, line(d.Label), d.Action, d.At, known(&d))
	}
	p.receipts(v.Receipts, v.Events)
	p.warnings(v.Warnings)
	if v.OnVenueWord > 0 {
		p.printf("%s %d of %d acts rest on the venue's word alone\n", p.paint(yellow, "note:"), v.OnVenueWord, len(v.Decisions))
	}
	if v.Consensus != "" {
		p.println("the document matches the bundle byte for byte")
	}
	p.println(p.paint(green, "verified"))
}

// receipts says who vouches for the events beside the venue's key.
func (p *printer) receipts(r *agent.BundleReceipts, events int) {
	if r == nil {
		return
	}
	p.println(p.paint(bold, "receipts"))
	p.printf("  %d for %d events\n", r.Count, events)
	for _, issuer := range r.Issuers {
		p.printf("  issued by %s\n", line(issuer))
	}
	for _, key := range r.Keys {
		p.printf("  with key %s\n", line(key))
	}
	if r.Log != "" {
		p.printf("  %d of them in the log %s\n", r.Logged, line(r.Log))
	}
}

// known says how a decision is known.
func known(d *agent.ProvenDecision) string {
	switch d.Proof {
	case agreement.ProofParticipant:
		return "signed by the participant's key " + d.Signer
	case agreement.ProofDelegate:
		return "signed by the delegate's key " + d.Signer
	default:
		return "the venue's word alone (" + line(d.Assurance) + ")"
	}
}
