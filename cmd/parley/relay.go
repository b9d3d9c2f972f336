package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/relay/conformance"
)

type relayCmd struct {
	Test   relayTestCmd   `cmd:"" help:"Check a relay against the NIPs, from outside."`
	Bench  relayBenchCmd  `cmd:"" help:"Measure a relay under load, from outside."`
	Export relayExportCmd `cmd:"" help:"Write the events of a relay to a file."`
	Import relayImportCmd `cmd:"" help:"Give the events of a file to a relay."`
	Sync   relaySyncCmd   `cmd:"" help:"Bring the events of one relay to another."`
}

type relayTestCmd struct {
	URL     string `arg:"" help:"ws or wss URL of the relay."`
	Only    string `help:"Only checks whose name matches; * stands for anything." placeholder:"PATTERN"`
	Timeout length `help:"How long to wait for one answer." type:"length" default:"10s"`
}

// Help is printed below the flags.
func (c *relayTestCmd) Help() string {
	return `Connects as any client would, with keys made for each check, and needs no home.
Events carry an expiration of an hour. A check of a NIP that the relay does not
advertise is skipped; a relay that asks to slow down is waited for. A finding of a
required check, or of a NIP that the relay advertises, makes exit code 1; one of an
optional check is a warning. docs/relay.md lists the checks.

Examples:
  parley relay test ws://127.0.0.1:8417
  parley relay test wss://relay.example --only 'nip09.*'
  parley relay test wss://relay.example --json --timeout 30s`
}

// relayReport is what --json prints.
type relayReport struct {
	URL     string                      `json:"url"`
	Counts  map[conformance.Verdict]int `json:"counts"`
	Results []conformance.Result        `json:"results"`
}

// errFindings says that checks failed, which the printed results tell.
var errFindings = errors.New("checks failed")

// Run checks the relay.
func (c *relayTestCmd) Run(s *session) error {
	results, err := conformance.Run(s.ctx, c.URL, conformance.Options{
		Only: c.Only, Timeout: time.Duration(c.Timeout), Done: s.checked,
	})
	if err != nil {
		return relayProblem(err, "parley relay test --help has examples; docs/relay.md lists the checks", conformance.ErrOptions)
	}
	report := relayReport{URL: c.URL, Counts: map[conformance.Verdict]int{}, Results: results}
	for _, r := range results {
		report.Counts[r.Verdict]++
	}
	if err := s.print(report, func(p *printer) { p.conformance(&report) }); err != nil {
		return err
	}
	if report.Counts[conformance.Fail] > 0 {
		return errFindings
	}
	return nil
}

// relayProblem says what to do about a relay that was not tried: usage where the
// error is of that kind, else its address.
func relayProblem(err error, usage string, kind error) error {
	if err != nil && errors.Is(err, kind) {
		return &agent.Error{Code: agent.CodeInvalid, Detail: err.Error(), Hint: usage}
	}
	return unreached(err)
}

// unreached adds what to look at when a relay did not answer.
func unreached(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &agent.Error{
		Code: agent.CodeUnavailable, Detail: err.Error(),
		Hint: "check the address and that the relay is up: that of parleyd is ws://127.0.0.1:8417 by default",
	}
}

// checked shows on a terminal how far the checks are, in one line that the
// next one overwrites and the last one leaves empty.
func (s *session) checked(r conformance.Result, done, total int) {
	if s.flags.JSON || !isTerminal(s.err.out) {
		return
	}
	text := fmt.Sprintf("%d of %d: %s", done, total, r.Name)
	if done == total {
		text = ""
	}
	s.err.printf("\r%-78.78s\r", text)
}

func (p *printer) conformance(r *relayReport) {
	rows := make([][]string, len(r.Results))
	for i, result := range r.Results {
		rows[i] = []string{result.Name, fmt.Sprintf("%02d", result.NIP), string(result.Verdict), result.Detail}
	}
	p.table([]string{"CHECK", "NIP", "VERDICT", "DETAIL"}, rows)
	p.printf("%d passed, %d failed, %d warnings, %d skipped, %d inconclusive\n",
		r.Counts[conformance.Pass], r.Counts[conformance.Fail], r.Counts[conformance.Warn],
		r.Counts[conformance.Skip], r.Counts[conformance.Inconclusive])
}
