package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/protocol/receipt"
)

// errUndetermined says that a question stays open, which the printed results
// tell.
var errUndetermined = errors.New("undetermined")

// tell prints a report and returns what its verdict makes of the command.
func (s *session) tell(r *receiptsReport) error {
	r.Verdict = r.worst()
	err := s.print(r, func(p *printer) { p.receiptsReport(r) })
	if err == nil && !s.flags.JSON {
		for _, failed := range r.failed() {
			s.explain(&failed)
		}
	}
	switch {
	case err != nil:
		return err
	case r.Verdict == issuer.VerdictInvalid:
		return errFindings
	case r.Verdict == issuer.VerdictUndetermined:
		return errUndetermined
	}
	return nil
}

// explain says why a receipt does not hold and what to do.
func (s *session) explain(r *receiptReport) {
	at := ""
	if r.Pointer != "" {
		at = " at " + r.Pointer
	}
	s.err.printf("%s %s%s: %s\n", s.err.paint(red, "parley:"), r.Code, line(at), line(r.Detail))
	if r.NextAction != "" {
		s.err.printf("  %s\n", r.NextAction)
	}
	if r.Reference != "" {
		s.err.printf("  receipt %s\n", r.Reference)
	}
}

// receiptsReport shows the receipts that hold: one in full, more as a table.
func (p *printer) receiptsReport(r *receiptsReport) {
	if len(r.Receipts) == 1 && r.Verdict == issuer.VerdictValid {
		p.receiptReport(&r.Receipts[0])
	} else if len(r.Receipts) > 1 {
		p.receiptTable(r.Receipts)
	}
	if r.Verdict == issuer.VerdictValid {
		p.println(p.paint(green, "verified"))
	}
}

func (p *printer) receiptReport(r *receiptReport) {
	c := r.Claims
	policy, log := "", ""
	if c.Policy != nil {
		policy = c.Policy.Digest + ", " + policyStates[r.PolicyBinding]
	}
	if r.Log != nil {
		log = fmt.Sprintf("entry %d of the %d in %s", r.Log.Index, r.Log.Size, line(r.Log.Origin))
		if len(r.Log.Witnesses) > 0 {
			log += ", cosigned by " + line(strings.Join(r.Log.Witnesses, ", "))
		}
	}
	p.fields(
		"receipt", r.Reference,
		"issuer", line(c.Issuer),
		"key", line(r.KeyID)+", a key "+keySources[r.KeySource],
		"kind", c.Kind,
		"type", line(c.Type),
		"subject", line(c.Subject),
		"issued", time.Unix(c.IssuedAt, 0).UTC().Format(time.RFC3339)+" by the issuer's clock",
		"occurred", line(c.OccurredAt),
		"policy", policy,
		"log", log,
	)
	for _, w := range r.Warnings {
		p.printf("%s %s %s\n", p.paint(yellow, "warning:"), w.Code, line(w.Pointer))
	}
}

func (p *printer) receiptTable(list []receiptReport) {
	rows := make([][]string, len(list))
	var whose []string
	for i, r := range list {
		row := []string{strconv.Itoa(i + 1), r.Verdict, "", "", "", r.Reference}
		if r.Claims != nil {
			row[2], row[3] = r.Claims.Type, r.Claims.OccurredAt
			if by := "by " + line(r.Claims.Issuer) + ", under a key " + keySources[r.KeySource]; !slices.Contains(whose, by) {
				whose = append(whose, by)
			}
		}
		if r.Log != nil {
			row[4] = fmt.Sprintf("%d of %d", r.Log.Index, r.Log.Size)
		}
		rows[i] = row
	}
	p.table([]string{"N", "VERDICT", "TYPE", "OCCURRED", "LOG", "RECEIPT"}, rows)
	for _, by := range whose {
		p.println(by)
	}
}

// keySources say whose word a key is.
var keySources = map[string]string{
	sourceDID:        "that the issuer is named by",
	sourcePinned:     "that you named",
	sourceDiscovered: "that the issuer publishes",
	sourceBundle:     "that only the bundle names: compare it",
}

// policyStates say what is known of the policy that a receipt is bound to.
var policyStates = map[receipt.PolicyState]string{
	receipt.PolicyVerified:    "which is the one you gave",
	receipt.PolicyUnavailable: "compared with nothing",
}
