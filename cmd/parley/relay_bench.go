package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/relay/load"
)

type relayBenchCmd struct {
	URL      string   `arg:"" help:"ws or wss URL of the relay."`
	Scenario []string `help:"What to play, such as ingest-64; several are separated by commas." placeholder:"NAME"`
	For      length   `help:"How long to measure each scenario." type:"length" default:"2s"`
	Soak     length   `help:"How long a soak lasts." type:"length" default:"1m"`
	Cards    int      `help:"Cards stored before the first look-up." default:"1000"`
	PID      int      `help:"Process of the relay on this machine, to measure it too." name:"pid" placeholder:"N"`
}

// Help is printed below the flags.
func (c *relayBenchCmd) Help() string {
	return `Publishes cards and gift wraps that expire after a day, looks them up and subscribes
to them, as many clients at once, and needs no home. Ask the operator of a relay
before you load it; one that limits rates shows its limits, in REFUSED. Until they
expire its cards are found, and shown on its page, like others.

A scenario is what is done and by how many connections: ingest-N, lookup-N (by
author, kind and d tag), tag-N, inbox-N (own wraps, after NIP-42), fanout-N,
burst-N (the same, all events at once), stopped-N (N subscribers beside one that
stops reading), idle-N, soak-N (half of what ingest-N reaches). docs/relay.md says
what the numbers mean.

Examples:
  parley relay bench ws://127.0.0.1:8417
  parley relay bench ws://127.0.0.1:8417 --scenario ingest-64,lookup-64 --for 5s --json
  parley relay bench ws://127.0.0.1:8417 --scenario idle-10000 --pid 4711`
}

// benchReport is what --json prints.
type benchReport struct {
	URL     string        `json:"url"`
	Results []load.Result `json:"results"`
	// Error is why a scenario could not be played; those after it were not.
	Error string `json:"error,omitempty"`
}

// Run loads the relay.
func (c *relayBenchCmd) Run(s *session) error {
	results, err := load.Run(s.ctx, c.URL, load.Options{
		Scenarios: c.Scenario, Duration: time.Duration(c.For), Soak: time.Duration(c.Soak), Cards: c.Cards, PID: c.PID,
	})
	if len(results) == 0 {
		return relayProblem(err, "parley relay bench --help names the scenarios", load.ErrScenario)
	}
	report := benchReport{URL: c.URL, Results: results}
	if err != nil {
		report.Error, err = err.Error(), errFindings // which the report tells
	}
	return errors.Join(s.print(report, func(p *printer) { p.bench(&report) }), err)
}

func (p *printer) bench(report *benchReport) {
	results := report.Results
	rows := make([][]string, len(results))
	for i, r := range results {
		rows[i] = []string{
			r.Scenario, fmt.Sprintf("%.0f %s/s", r.Rate, r.Unit), fmt.Sprintf("%.2f ms", r.P50), fmt.Sprintf("%.2f ms", r.P99),
			fmt.Sprint(r.Refused), fmt.Sprint(r.Missing), fmt.Sprintf("%.2f s", r.ClientCPU), fmt.Sprintf("%.2f s", r.RelayCPU),
		}
	}
	p.table([]string{"SCENARIO", "RATE", "P50", "P99", "REFUSED", "MISSING", "CLIENT CPU", "RELAY CPU"}, rows)
	for _, r := range results {
		if r.Alone > 0 {
			p.printf("%s: p99 is %.2f ms without the stopped subscriber\n", r.Scenario, r.Alone)
		}
		if r.Reason != "" {
			p.printf("%s: %s\n", r.Scenario, r.Reason)
		}
	}
	if report.Error != "" {
		p.println(line(report.Error))
	}
}
