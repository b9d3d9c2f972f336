package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// CommentRequest is something that binds nobody.
type CommentRequest struct {
	ID          string `json:"id,omitempty"` // may be left out when one agreement is open
	Kind        string `json:"kind"`         // comment, question or change_request
	Text        string `json:"text"`         // 1 to 4000 code points
	WaitSeconds int    `json:"wait_seconds,omitempty"`
}

// DecideRequest is a final act on one digest.
type DecideRequest struct {
	ID          string `json:"id,omitempty"` // may be left out when one agreement is open
	Action      string `json:"action"`       // agree, disagree, abstain or withdraw
	Digest      string `json:"digest"`       // 64 hex characters, "sha256:" may stand before
	WaitSeconds int    `json:"wait_seconds,omitempty"`
}

// Act says what became of a command to a room.
type Act struct {
	AgreementID string `json:"agreement_id"`
	Digest      string `json:"digest"`
	Action      string `json:"action"`
	State       string `json:"state"`         // accepted, or sent while no answer has come
	Seq         int64  `json:"seq,omitempty"` // the event it became
	Outcome     string `json:"outcome"`       // of the room as far as it is known here
	Agreed      int    `json:"agreed"`        // participants that agreed so far
	Required    int    `json:"required"`      // participants that must agree
}

// Comment says something in a room.
func (a *Agent) Comment(ctx context.Context, q CommentRequest) (*Act, error) {
	if !agreement.IsAdvisory(q.Kind) {
		return nil, invalid("kind must be comment, question or change_request")
	}
	r, err := a.pick(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	return a.act(ctx, r, q.Kind, q.Text, q.WaitSeconds)
}

// Decide agrees, disagrees, abstains or withdraws. The digest must be the one
// computed here from the revision's bytes; another one goes nowhere.
func (a *Agent) Decide(ctx context.Context, q DecideRequest) (*Act, error) {
	if !agreement.IsDecision(q.Action) && q.Action != agreement.ActionWithdraw {
		return nil, invalid("action must be agree, disagree, abstain or withdraw")
	}
	digest, err := parseDigest(q.Digest)
	if err != nil {
		return nil, err
	}
	r, err := a.pick(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	if digest != r.digest {
		return nil, refused("the digest is not that of agreement %s: given %s, computed from its bytes %s",
			r.agreement.AgreementID, digest, r.digest).hint("read what is there: parley review %s", r.agreement.AgreementID)
	}
	return a.act(ctx, r, q.Action, "", q.WaitSeconds)
}

// parseDigest wants all 64 characters: a shorter one is easy to hit twice.
func parseDigest(text string) (string, error) {
	digest := strings.ToLower(strings.TrimPrefix(text, "sha256:"))
	if !canonical.IsHex(digest, 32) {
		return "", invalid("the digest must be all 64 hex characters").hint("copy it from `parley review`")
	}
	return digest, nil
}

// act signs one command, queues it and waits for the answer.
func (a *Agent) act(ctx context.Context, r *room, action, body string, seconds int) (*Act, error) {
	wait, err := waitTime(seconds)
	if err != nil {
		return nil, err
	}
	if r, err = a.fresh(ctx, r); err != nil {
		return nil, err
	}
	id, err := a.pending(ctx, r, action)
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = a.sendCommand(ctx, r, action, body); err != nil {
			return nil, err
		}
	}
	c, err := a.settle(ctx, id, wait)
	if err != nil {
		return nil, err
	}
	return a.outcomeOfAct(ctx, r, c)
}

// fresh is the room after a question asked just now was answered.
func (a *Agent) fresh(ctx context.Context, r *room) (*room, error) {
	id := r.agreement.AgreementID
	if err := a.upToDate(ctx, id); err != nil {
		return nil, err
	}
	return a.pick(ctx, id)
}

// pending refuses what the room's rules refuse anyway, before anything is
// signed. It returns the id of a decision already on its way: saying the same
// twice sends it once.
func (a *Agent) pending(ctx context.Context, r *room, action string) (string, error) {
	switch {
	case r.state == StateRefused:
		return "", refused("the venue did not open this agreement (%s)", r.reason)
	case r.state == StateProposed:
		return "", refused("the venue has not opened this agreement yet").
			hint("wait for it: parley review %s --wait 30s", r.agreement.AgreementID)
	case r.outcome != agreement.OutcomePending:
		return "", refused("the agreement is closed: %s", r.outcome)
	case !a.now().Before(r.agreement.Deadline.Time):
		return "", refused("the deadline %s has passed", r.agreement.Deadline)
	case agreement.IsAdvisory(action):
		return "", nil
	}
	var list []Command
	var happened []agreement.Event
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if list, err = commands(ctx, tx, r.agreement.AgreementID); err != nil {
			return err
		}
		happened, err = events(ctx, tx, r.agreement.AgreementID)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the room: %w", err)
	}
	if said := ownDecision(happened, r.me); said != "" {
		return "", refused("this key has decided already: %s", said).hint("a decision is irreversible")
	}
	return a.onItsWay(list, action)
}

func (a *Agent) onItsWay(list []Command, action string) (string, error) {
	for _, c := range slices.Backward(list) {
		if c.State != CommandSent || !agreement.IsDecision(c.Action) && c.Action != agreement.ActionWithdraw {
			continue
		}
		if a.now().Sub(c.SentAt.Time) > commandLifetime {
			continue
		}
		if c.Action != action {
			return "", refused("%q was sent and its answer is still out", c.Action).
				hint("wait for it: parley review --wait 30s")
		}
		return c.ID, nil
	}
	return "", nil
}

// ownDecision is the decision of a participant, "" when there is none.
func ownDecision(list []agreement.Event, id string) string {
	for _, e := range list {
		if e.ParticipantID == id && agreement.IsDecision(e.Action) {
			return e.Action
		}
	}
	return ""
}

// commandLifetime is how long a command may travel; the deadline ends it too.
const commandLifetime = 7 * 24 * time.Hour

func (a *Agent) sendCommand(ctx context.Context, r *room, action, body string) (string, error) {
	now := a.now()
	at, err := a.signingTime(ctx, r, now)
	if err != nil {
		return "", err
	}
	command := agreement.NewCommand(r.agreement, r.me, action, body)
	data, err := command.Canonical()
	if err != nil {
		return "", invalid("the text cannot be sent: %w", err)
	}
	if _, err := agreement.ParseCommand(data); err != nil {
		if refusal, ok := errors.AsType[*agreement.Refusal](err); ok {
			return "", invalid("the command is not valid: %s", refusal.Detail)
		}
		return "", err
	}
	signature, err := agreement.Sign(r.agreement, r.digest, action, body, a.key, at)
	if err != nil {
		return "", fmt.Errorf("signing the command: %w", err)
	}
	life := min(commandLifetime, r.agreement.Deadline.Sub(now)+time.Minute)
	m, err := message.New(message.TypeAgreementCommand, a.key.PublicKey(), r.agreement.Venue,
		message.AgreementCommand{Command: data, Key: uuid.NewString(), Signature: &signature}, now, life)
	if err != nil {
		return "", fmt.Errorf("making the command: %w", err)
	}
	m.Thread = r.agreement.AgreementID
	err = a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return a.storeCommand(ctx, tx, m, r.agreement.AgreementID, action, body)
	})
	if err != nil {
		return "", fmt.Errorf("queueing the command: %w", err)
	}
	return m.ID, nil
}

// signingTime is now, but never before the room was locked by the venue's
// clock: a slow clock here must not make a decision invalid.
func (a *Agent) signingTime(ctx context.Context, r *room, now time.Time) (time.Time, error) {
	var list []agreement.Event
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = events(ctx, tx, r.agreement.AgreementID)
		return err
	})
	if err != nil {
		return now, fmt.Errorf("reading the room: %w", err)
	}
	locked := r.proposal.CreatedAt.Time()
	if len(list) > 0 {
		locked = list[0].At.Time
	}
	if locked.After(now) && locked.Sub(now) < agreement.MaxSkew {
		return locked, nil
	}
	return now, nil
}

func (a *Agent) outcomeOfAct(ctx context.Context, r *room, c Command) (*Act, error) {
	result := &Act{
		AgreementID: r.agreement.AgreementID, Digest: r.digest, Action: c.Action, State: c.State, Seq: c.Seq,
		Required: len(r.agreement.Participants),
	}
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now, err := roomByID(ctx, tx, r.agreement.AgreementID)
		if err != nil || now == nil {
			return err
		}
		list, err := events(ctx, tx, r.agreement.AgreementID)
		if err != nil {
			return err
		}
		result.Outcome = now.outcome
		for _, p := range r.agreement.Participants {
			if ownDecision(list, p.ID) == agreement.ActionAgree {
				result.Agreed++
			}
		}
		return nil
	})
	return result, err
}
