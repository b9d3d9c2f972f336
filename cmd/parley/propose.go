package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

// defaultDeadline is how long participants have when nobody says.
const defaultDeadline = "48h"

type proposeCmd struct {
	File     string   `arg:"" help:"Draft in YAML; - reads standard input."`
	With     []string `help:"The other participants, 1 to 7." required:"" placeholder:"WHO"`
	Deadline string   `help:"Length such as 48h or 3d, or an instant. Default: the draft's, else 48h." placeholder:"48h"`
	Key      string   `help:"Names this proposal, 8 to 128 characters: said again, with the deadline as an instant, it proposes nothing more." placeholder:"KEY"`
	Wait     length   `help:"How long to wait for the venue." type:"length" default:"30s"`
}

// Help is printed below the flags.
func (c *proposeCmd) Help() string {
	return `Locks the draft as one revision, signs its digest and asks your server's venue to
open a room. Nothing in it can be changed afterwards; a change is a new proposal.
Proposing is not agreeing: review it and agree like everybody else.

A draft:
  title: Read access to the archive
  objective: Bob may read the archive until the end of March.
  must:
    - Bob names the reader in every request.
  must_not:
    - Copies leave the archive.
  deadline: 48h

Examples:
  parley propose draft.yaml --with bob,carol
  parley propose - --with npub1… --deadline 2026-12-24T18:00:00Z < draft.yaml`
}

// Run locks and proposes a draft.
func (c *proposeCmd) Run(s *session) error {
	request, err := c.request(s)
	if err != nil {
		return err
	}
	s.waiting("the venue", time.Duration(c.Wait))
	var r agent.Proposal
	if err := s.call("agreement.propose", request, &r); err != nil {
		return err
	}
	err = s.print(r, func(p *printer) {
		p.fields(
			"agreement", r.AgreementID,
			"digest", r.Digest,
			"title", line(r.Title),
			"deadline", when(r.Deadline.Time, time.Now()),
			"state", r.State,
		)
		p.roster(r.Participants, "")
		p.warnings(r.Warnings)
	})
	if err == nil && r.State != agent.StateOpen {
		return &agent.Error{
			Code: agent.CodeTimeout, Detail: "the venue has not answered yet; the proposal is queued for 15 minutes",
			Hint: "look again: parley review " + r.AgreementID + " --wait 30s",
		}
	}
	if err == nil {
		s.note("next: parley review %s", r.AgreementID)
	}
	return err
}

func (c *proposeCmd) request(s *session) (agent.ProposeRequest, error) {
	data, err := readInput(s, c.File, agent.MaxDraft)
	if err != nil {
		return agent.ProposeRequest{}, err
	}
	draft, err := agent.ParseDraft(data)
	if err != nil {
		return agent.ProposeRequest{}, &agent.Error{
			Code: agent.CodeInvalid, Detail: c.File + ": " + err.Error(), Hint: "the form of a draft: parley propose --help",
		}
	}
	text := c.Deadline
	if text == "" {
		text = draft.Deadline
	}
	if text == "" {
		text = defaultDeadline
	}
	deadline, err := agent.ParseDeadline(text, time.Now())
	if err != nil {
		return agent.ProposeRequest{}, &agent.Error{Code: agent.CodeInvalid, Detail: err.Error()}
	}
	return agent.ProposeRequest{
		Title: draft.Title, Objective: draft.Objective, Must: draft.Must, MustNot: draft.MustNot,
		Deadline: canonical.At(deadline), With: c.With, WaitSeconds: seconds(time.Duration(c.Wait)), Key: c.Key,
	}, nil
}

// readInput reads a file, or standard input for "-", of at most limit bytes.
func readInput(s *session, path string, limit int64) ([]byte, error) {
	var from io.Reader = s.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, &agent.Error{Code: agent.CodeInvalid, Detail: err.Error()}
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInvalid, Detail: fmt.Sprintf("reading %s: %v", path, err)}
	}
	if int64(len(data)) > limit {
		return nil, &agent.Error{Code: agent.CodeInvalid, Detail: fmt.Sprintf("%s is longer than %d bytes", path, limit)}
	}
	return data, nil
}

// roster prints who takes part; me is this agent's participant id.
func (p *printer) roster(list []agreement.Participant, me string) {
	p.println(p.paint(bold, "participants"))
	for _, m := range list {
		mark := ""
		if m.ID == me {
			mark = "  (you)"
		}
		p.printf("  %s  %s  %s %s%s\n", m.ID, line(m.Label), m.Role, m.PubKey, mark)
	}
}

func (p *printer) warnings(list []string) {
	for _, w := range list {
		p.printf("%s %s\n", p.paint(yellow, "warning:"), line(w))
	}
}
