package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/agreement"
)

// digestFlags are what every final act needs.
type digestFlags struct {
	Digest string `help:"The whole SHA-256 that review shows, 64 hex characters; sha256: may stand before." required:"" placeholder:"HEX"`
	Wait   length `help:"How long to wait for the venue." type:"length" default:"30s"`
}

type decision struct {
	ID string `arg:"" optional:"" help:"Agreement, or the beginning of its id; may be left out when one is open."`
	digestFlags
}

const decisionHelp = `The digest must be typed in full and must be the one computed here from the bytes:
another one is refused before anything is sent. The decision is signed with your key
and irreversible.

Example:
  parley %s 0198a --digest 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b`

type agreeCmd struct{ decision }

// Help is printed below the flags.
func (c *agreeCmd) Help() string { return fmt.Sprintf(decisionHelp, "agree") }

// Run agrees.
func (c *agreeCmd) Run(s *session) error {
	return s.decide(c.ID, agreement.ActionAgree, c.digestFlags)
}

type disagreeCmd struct{ decision }

// Help is printed below the flags.
func (c *disagreeCmd) Help() string { return fmt.Sprintf(decisionHelp, "disagree") }

// Run disagrees.
func (c *disagreeCmd) Run(s *session) error {
	return s.decide(c.ID, agreement.ActionDisagree, c.digestFlags)
}

type abstainCmd struct{ decision }

// Help is printed below the flags.
func (c *abstainCmd) Help() string { return fmt.Sprintf(decisionHelp, "abstain") }

// Run abstains.
func (c *abstainCmd) Run(s *session) error {
	return s.decide(c.ID, agreement.ActionAbstain, c.digestFlags)
}

type withdrawCmd struct {
	ID string `arg:"" help:"Agreement, or the beginning of its id."`
	digestFlags
}

// Help is printed below the flags.
func (c *withdrawCmd) Help() string {
	return `Only the initiator may withdraw, and only before the first decision. The outcome is
no_consensus.

Example:
  parley withdraw 0198a --digest 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b`
}

// Run withdraws.
func (c *withdrawCmd) Run(s *session) error {
	return s.decide(c.ID, agreement.ActionWithdraw, c.digestFlags)
}

func (s *session) decide(id, action string, flags digestFlags) error {
	wait := time.Duration(flags.Wait)
	s.waiting("the venue", wait)
	request := agent.DecideRequest{ID: id, Action: action, Digest: flags.Digest, WaitSeconds: seconds(wait)}
	var r agent.Act
	if err := s.call("agreement.decide", request, &r); err != nil {
		return err
	}
	return s.printAct(&r)
}

// printAct says what became of an act; without an answer of the venue it is an
// error of its own.
func (s *session) printAct(r *agent.Act) error {
	err := s.print(r, func(p *printer) {
		p.fields(
			"agreement", r.AgreementID,
			"digest", r.Digest,
			"action", r.Action,
			"state", r.State,
			"agreed", fmt.Sprintf("%d of %d", r.Agreed, r.Required),
			"outcome", p.paint(bold, r.Outcome),
		)
	})
	if err == nil && r.State == agent.CommandSent {
		return &agent.Error{
			Code: agent.CodeTimeout, Detail: "the venue has not answered yet; " + r.Action + " is signed and queued",
			Hint: "look again: parley review " + r.AgreementID,
		}
	}
	return err
}

type commentCmd struct {
	Args          []string `arg:"" name:"id-text" help:"Optionally the agreement, then the text."`
	Question      bool     `help:"Ask." xor:"kind"`
	ChangeRequest bool     `help:"Ask for another revision, which would be a new proposal." xor:"kind"`
	Wait          length   `help:"How long to wait for the venue." type:"length" default:"30s"`
}

// Help is printed below the flags.
func (c *commentCmd) Help() string {
	return `Goes to all participants, signed, and binds nobody. With one argument the agreement
that is open is meant.

Examples:
  parley comment "who pays the postage?" --question
  parley comment 0198a "looks good to me"`
}

// Run comments.
func (c *commentCmd) Run(s *session) error {
	kind := agreement.ActionComment
	switch {
	case c.Question:
		kind = agreement.ActionQuestion
	case c.ChangeRequest:
		kind = agreement.ActionChangeRequest
	}
	id, words := "", c.Args
	if len(words) > 1 {
		id, words = words[0], words[1:]
	} else if uuid.Validate(words[0]) == nil {
		return &agent.Error{
			Code: agent.CodeInvalid, Detail: "an agreement is named, and nothing is said about it",
			Hint: "parley comment " + words[0] + " TEXT",
		}
	}
	wait := time.Duration(c.Wait)
	s.waiting("the venue", wait)
	request := agent.CommentRequest{ID: id, Kind: kind, Text: strings.Join(words, " "), WaitSeconds: seconds(wait)}
	var r agent.Act
	if err := s.call("agreement.comment", request, &r); err != nil {
		return err
	}
	return s.printAct(&r)
}
