package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

type reviewCmd struct {
	ID       string `arg:"" optional:"" help:"Agreement, or the beginning of its id; may be left out when one is open."`
	List     bool   `help:"List all agreements." xor:"what"`
	Markdown bool   `help:"Print only the exact Markdown." xor:"what"`
	Until    string `help:"Wait for an outcome: reached, disagreed, no_consensus or expired." placeholder:"OUTCOME"`
	Wait     length `help:"How long to wait for an agreement or an outcome." type:"length" placeholder:"30s"`
}

// Help is printed below the flags.
func (c *reviewCmd) Help() string {
	return `Shows exactly what would be agreed: the digest is computed here from the bytes that
came, and the Markdown is rendered here. Control characters in it are shown as codes.

With --until the command ends when the room has that outcome and its files are in
the home folder; with exit code 1 when another outcome came, 3 when none came in time.

Examples:
  parley review
  parley review 0198 --wait 30s
  parley review --until reached --wait 10m
  parley review --markdown > revision.md`
}

// Run shows one agreement or the list.
func (c *reviewCmd) Run(s *session) error {
	if c.List {
		return c.list(s)
	}
	wait := time.Duration(c.Wait)
	if c.Until != "" {
		if wait == 0 {
			wait = 30 * time.Second
		}
		s.waiting("the outcome "+line(c.Until), wait)
	} else {
		s.waiting("an agreement", wait)
	}
	var r agent.Review
	request := agent.ReviewRequest{ID: c.ID, Until: c.Until, WaitSeconds: seconds(wait)}
	if err := s.call("agreement.review", request, &r); err != nil {
		return err
	}
	if digest := canonical.Digest([]byte(r.Revision)); digest != r.Digest {
		return &agent.Error{
			Code:   agent.CodeRefused,
			Detail: fmt.Sprintf("the digest shown (%s) is not that of the bytes (%s)", r.Digest, digest),
		}
	}
	if c.Markdown && !s.flags.JSON {
		text := r.Markdown
		if isTerminal(s.out.out) {
			text = plain(text, true)
		}
		_, err := io.WriteString(s.out.out, text)
		return err
	}
	return s.print(r, func(p *printer) { p.review(&r, time.Now()) })
}

func (c *reviewCmd) list(s *session) error {
	var r agent.AgreementsResponse
	if err := s.call("agreement.list", agent.Empty{}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		if len(r.Agreements) == 0 {
			p.println("no agreements")
			return
		}
		var rows [][]string
		for _, a := range r.Agreements {
			rows = append(rows, []string{a.AgreementID, a.Title, standing(&a), a.Decision, a.Deadline.String()})
		}
		p.table([]string{"AGREEMENT", "TITLE", "OUTCOME", "YOU", "DEADLINE"}, rows)
	})
}

// standing is where an agreement stands, in a few words.
func standing(a *agent.Summary) string {
	switch {
	case a.State == agent.StateRefused:
		return "not opened (" + a.Reason + ")"
	case a.State == agent.StateProposed:
		return "waits for the venue"
	case a.Overdue:
		return "pending, deadline passed"
	default:
		return a.Outcome
	}
}

// review prints everything a person reads before deciding.
func (p *printer) review(r *agent.Review, now time.Time) {
	p.println(plain(strings.TrimRight(r.Markdown, "\n"), true))
	p.println("")
	p.fields(
		"agreement", r.AgreementID,
		"digest", r.Digest,
		"deadline", when(r.Deadline.Time, now),
		"outcome", p.paint(bold, standing(&r.Summary)),
		"files", line(r.Folder),
	)
	p.roster(r.Participants, r.Me)
	p.events(r)
	p.warnings(r.Warnings)
	for _, refusal := range r.Refusals {
		p.printf("%s %s: %s\n", p.paint(red, "refused:"), line(refusal.Reason), line(refusal.Detail))
	}
	p.decision(r)
}

// events prints what happened so far.
func (p *printer) events(r *agent.Review) {
	if len(r.Events) == 0 {
		return
	}
	p.println(p.paint(bold, "events"))
	for _, e := range r.Events {
		who := e.ParticipantID
		for _, m := range r.Participants {
			if m.ID == who {
				who += " " + line(m.Label)
			}
		}
		signed := "signed"
		if e.Signature == nil {
			signed = "on the venue's word"
		}
		p.printf("  %d  %s  %s  %s (%s)\n", e.Seq, e.At, who, e.Action, signed)
		if e.Body != "" {
			p.println("       " + strings.ReplaceAll(plain(e.Body, true), "\n", "\n       "))
		}
	}
}

// decision prints the own decision, or how to make it.
func (p *printer) decision(r *agent.Review) {
	for _, c := range r.Commands {
		if c.State == agent.CommandSent {
			p.printf("on its way: %s of %s, not answered yet\n", line(c.Action), c.SentAt)
		}
	}
	switch {
	case r.Decision != "":
		p.printf("your decision: %s\n", r.Decision)
	case r.State == agent.StateOpen && r.Outcome == agreement.OutcomePending && !r.Overdue:
		p.println("your decision: none yet. When you agree to exactly this:")
		p.printf("  parley agree %s --digest %s\n", r.AgreementID, r.Digest)
	}
}
