package main

import (
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/doctor"
)

type doctorCmd struct {
	Server string `help:"Look at a server from outside instead." placeholder:"URL"`
	Wait   length `help:"How long to wait for each carrier." type:"length" default:"20s"`
}

// Help is printed below the flags.
func (c *doctorCmd) Help() string {
	return `Sends an envelope to this agent itself over each of its carriers and says which come
back, and why others do not. With --server it needs no home: it looks at a server's name,
ports, certificate, clock, document, relay and other carriers, as a client elsewhere would.
Something that is bad makes exit code 1.

Examples:
  parley doctor
  parley doctor --server https://parley.example
  parley doctor --json --wait 5s`
}

// Run looks.
func (c *doctorCmd) Run(s *session) error {
	var r agent.DoctorResponse
	if c.Server != "" {
		checks, err := doctor.Server(s.ctx, c.Server, doctor.Options{})
		if err != nil {
			return &agent.Error{Code: agent.CodeInvalid, Detail: err.Error(), Hint: "write it like https://parley.example"}
		}
		r.Checks = checks
	} else if err := s.call("agent.doctor", agent.DoctorRequest{WaitSeconds: seconds(c.wait(s))}, &r); err != nil {
		return err
	}
	if err := s.print(r, func(p *printer) { p.checks(r.Checks) }); err != nil {
		return err
	}
	for _, check := range r.Checks {
		if check.Verdict == doctor.Bad {
			return errFindings
		}
	}
	return nil
}

// wait says on a terminal what is waited for.
func (c *doctorCmd) wait(s *session) time.Duration {
	s.waiting("each carrier", time.Duration(c.Wait))
	return time.Duration(c.Wait)
}

// marks are how verdicts are painted.
var marks = map[doctor.Verdict]string{doctor.Good: green, doctor.Warning: yellow, doctor.Bad: red, doctor.Skipped: dim}

func (p *printer) checks(list []doctor.Check) {
	for _, check := range list {
		p.printf("%s  %-15s  %s\n", p.paint(marks[check.Verdict], pad(string(check.Verdict))), check.Name, line(check.Detail))
		if check.Hint != "" && check.Verdict != doctor.Good {
			p.printf("%-9s%-15s  %s\n", "", "", p.paint(dim, line(check.Hint)))
		}
	}
}

// pad makes verdicts equally wide.
func pad(verdict string) string {
	for len(verdict) < len(doctor.Warning) {
		verdict += " "
	}
	return verdict
}
