package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// ProposeRequest is a draft with its participants.
type ProposeRequest struct {
	Title       string         `json:"title"`
	Objective   string         `json:"objective"`
	Must        []string       `json:"must,omitempty"`
	MustNot     []string       `json:"must_not,omitempty"`
	Deadline    canonical.Time `json:"deadline"`
	With        []string       `json:"with"` // npub, hex key or petname; 1 to 7
	WaitSeconds int            `json:"wait_seconds,omitempty"`
	Key         string         `json:"key,omitempty"` // names this request; the same one sent again proposes nothing more
}

// Proposal says what was locked and what the venue answered.
type Proposal struct {
	AgreementID  string                  `json:"agreement_id"`
	Digest       string                  `json:"digest"` // hex SHA-256 of the canonical revision
	Title        string                  `json:"title"`
	Deadline     canonical.Time          `json:"deadline"`
	Participants []agreement.Participant `json:"participants"`
	State        string                  `json:"state"` // open, or proposed while no answer has come
	Warnings     []string                `json:"warnings"`
}

// Propose makes the agreement, signs its digest and asks the venue of the
// current server to open a room. The proposer does not agree by proposing.
func (a *Agent) Propose(ctx context.Context, q ProposeRequest) (*Proposal, error) {
	wait, err := waitTime(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	same := q
	same.WaitSeconds, same.Key = 0, ""
	r, err := newRepeatable("agreement.propose", q.Key, same)
	if err != nil {
		return nil, err
	}
	id, err := a.earlier(ctx, r)
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = a.queueProposal(ctx, r, q); err != nil {
			return nil, err
		}
	}
	c, err := a.settle(ctx, id, wait)
	if err != nil {
		return nil, err
	}
	return a.proposal(ctx, c)
}

// proposal shows what a command to propose locked.
func (a *Agent) proposal(ctx context.Context, c Command) (p *Proposal, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := roomByID(ctx, tx, c.AgreementID)
		if err != nil {
			return fmt.Errorf("reading the agreement: %w", err)
		}
		if r == nil {
			return notFound("the agreement %s is not kept any more", c.AgreementID)
		}
		agr := r.agreement
		p = &Proposal{
			AgreementID: agr.AgreementID, Digest: r.digest, Title: agr.Title, Deadline: agr.Deadline,
			Participants: agr.Participants, State: StateProposed, Warnings: agreement.Warnings(agr),
		}
		return nil
	})
	if err == nil && c.State == CommandAccepted {
		p.State = StateOpen
	}
	return p, err
}

// queueProposal makes and signs an agreement and queues the proposal once. It
// returns the message's id.
func (a *Agent) queueProposal(ctx context.Context, once *repeatable, q ProposeRequest) (id string, err error) {
	agr, err := a.draftAgreement(ctx, q)
	if err != nil {
		return "", err
	}
	revision, err := agr.Canonical()
	if err != nil {
		return "", fmt.Errorf("encoding the revision: %w", err)
	}
	digest := canonical.Digest(revision)
	signature, err := agreement.Sign(agr, digest, agreement.ActionPropose, "", a.key, a.now())
	if err != nil {
		return "", fmt.Errorf("signing the proposal: %w", err)
	}
	body := message.AgreementPropose{Revision: string(revision), Signature: signature}
	life := min(commandLifetime, agr.Deadline.Sub(a.now())) // after the deadline nothing is locked
	m, err := message.New(message.TypeAgreementPropose, a.key.PublicKey(), agr.Venue, body, a.now(), life)
	if err != nil {
		return "", fmt.Errorf("making the proposal: %w", err)
	}
	m.Thread = agr.AgreementID
	r := &room{
		agreement: agr, revision: revision, proposal: signature, digest: digest,
		me: agr.Participants[0].ID, state: StateProposed,
	}
	id, err = a.once(ctx, once, m.ID, func(ctx context.Context, tx *sql.Tx) error {
		if err := a.insertRoom(ctx, tx, r); err != nil {
			return err
		}
		return a.storeCommand(ctx, tx, m, agr.AgreementID, agreement.ActionPropose, "")
	})
	if err != nil {
		return "", fmt.Errorf("queueing the proposal: %w", err)
	}
	return id, nil
}

// settle flushes the outbox and waits for the answer to a command. A refusal of
// the venue is an error; no answer within wait is not.
func (a *Agent) settle(ctx context.Context, id string, wait time.Duration) (Command, error) {
	a.flush(ctx)
	var c Command
	_, err := a.await(ctx, wait, func(ctx context.Context) (done bool, err error) {
		c, err = a.command(ctx, id)
		return c.State != CommandSent, err
	})
	if err != nil {
		return c, fmt.Errorf("waiting for the venue: %w", err)
	}
	if c.State == CommandRefused {
		return c, refused("the venue refused (%s): %s", c.Code, c.Detail).hint("%s", hintFor(c.Code))
	}
	return c, nil
}

// hintFor says what helps against a refusal of the venue.
func hintFor(code string) string {
	switch code {
	case agreement.CodeStaleDigest:
		return "read the revision again: parley review"
	case agreement.CodeClosed, agreement.CodeExpired:
		return "the room has its outcome: parley review"
	case agreement.CodeAlreadyDecided:
		return "a decision is irreversible; a change needs a new agreement"
	case agreement.CodeNotPermitted, agreement.CodeCap:
		return "the venue's operator decides who may host how much there"
	case agreement.CodeSignatureInvalid:
		return "check this machine's clock"
	default:
		return ""
	}
}

// draftAgreement fills a request into an agreement on the current server.
func (a *Agent) draftAgreement(ctx context.Context, q ProposeRequest) (*agreement.Agreement, error) {
	server, err := a.venueServer(ctx)
	if err != nil {
		return nil, err
	}
	roster, err := a.roster(ctx, q.With)
	if err != nil {
		return nil, err
	}
	agr, err := agreement.New(agreement.Terms{
		Origin: server.Origin, Profile: agreement.ProfileParley, Venue: server.Venue,
		Title: q.Title, Objective: q.Objective, Must: q.Must, MustNot: q.MustNot,
		Participants: roster, Deadline: q.Deadline.Time,
	}, a.now())
	if r, ok := errors.AsType[*agreement.Refusal](err); ok {
		return nil, invalid("the draft makes no agreement: %s", r.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("making the agreement: %w", err)
	}
	return agr, nil
}

// venueServer is the newest pinned server that hosts agreements.
func (a *Agent) venueServer(ctx context.Context) (*Server, error) {
	list, err := a.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	for _, s := range list {
		if s.Venue != "" {
			return &s, nil
		}
	}
	if len(list) == 0 {
		return nil, errNoServer()
	}
	return nil, unavailable("no pinned server hosts agreements").hint("parley init --server URL of one that does")
}

// roster puts this agent first. Petnames become labels that all see; without
// one a participant stands under its roster id.
func (a *Agent) roster(ctx context.Context, with []string) ([]agreement.Participant, error) {
	name, err := a.setting(ctx, settingName)
	if err != nil {
		return nil, fmt.Errorf("reading the own name: %w", err)
	}
	list := []agreement.Participant{{Kind: agreement.KindAgent, Label: name, PubKey: a.key.PublicKey()}}
	for _, text := range with {
		pubkey, err := a.who(ctx, text)
		if err != nil {
			return nil, err
		}
		list = append(list, agreement.Participant{Kind: agreement.KindAgent, Label: a.petname(ctx, pubkey), PubKey: pubkey})
	}
	return list, nil
}
