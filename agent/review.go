package agent

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

// Summary is one agreement in a list.
type Summary struct {
	AgreementID string         `json:"agreement_id"`
	Title       string         `json:"title"`
	Digest      string         `json:"digest"`
	Deadline    canonical.Time `json:"deadline"`
	Venue       string         `json:"venue"`   // hex key
	Me          string         `json:"me"`      // this key's participant id
	State       string         `json:"state"`   // proposed, open or refused
	Reason      string         `json:"reason"`  // of a refused proposal
	Outcome     string         `json:"outcome"` // as far as it is known here
	Decision    string         `json:"decision"`
	Overdue     bool           `json:"overdue"` // pending here although the deadline has passed
}

// AgreementsResponse lists agreements, the newest first.
type AgreementsResponse struct {
	Agreements []Summary `json:"agreements"`
}

// ReviewRequest names an agreement and what to wait for.
type ReviewRequest struct {
	ID          string `json:"id,omitempty"`    // may be left out when one agreement is open
	Until       string `json:"until,omitempty"` // an outcome to wait for
	WaitSeconds int    `json:"wait_seconds,omitempty"`
}

// Review is everything a person reads before deciding.
type Review struct {
	Summary
	Revision     string                  `json:"revision"` // exact canonical bytes; Digest is computed from them
	Markdown     string                  `json:"markdown"` // exact rendering
	Participants []agreement.Participant `json:"participants"`
	Events       []agreement.Event       `json:"events"`
	Commands     []Command               `json:"commands"` // own, the oldest first
	Warnings     []string                `json:"warnings"`
	Refusals     []Refusal               `json:"refusals"`         // what failed a check in this room
	Folder       string                  `json:"folder,omitempty"` // where the files of a closed room lie
}

// Agreements lists the agreements this key is in.
func (a *Agent) Agreements(ctx context.Context, _ Empty) (*AgreementsResponse, error) {
	response := &AgreementsResponse{Agreements: []Summary{}}
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		list, err := rooms(ctx, tx)
		if err != nil {
			return err
		}
		for _, r := range list {
			happened, err := events(ctx, tx, r.agreement.AgreementID)
			if err != nil {
				return err
			}
			response.Agreements = append(response.Agreements, a.summary(r, happened))
		}
		return nil
	})
	return response, err
}

func (a *Agent) summary(r *room, happened []agreement.Event) Summary {
	return Summary{
		AgreementID: r.agreement.AgreementID, Title: r.agreement.Title, Digest: r.digest,
		Deadline: r.agreement.Deadline, Venue: r.agreement.Venue, Me: r.me, State: r.state, Reason: r.reason,
		Outcome: r.outcome, Decision: ownDecision(happened, r.me),
		Overdue: r.state == StateOpen && r.outcome == agreement.OutcomePending && !a.now().Before(r.agreement.Deadline.Time),
	}
}

// Review shows one agreement, computed from its bytes. With Until it waits for
// that outcome and its files; with a wait alone, for an agreement to arrive.
func (a *Agent) Review(ctx context.Context, q ReviewRequest) (*Review, error) {
	wait, err := waitTime(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	if q.Until != "" && !slices.Contains(outcomes, q.Until) {
		return nil, invalid("%q is no outcome", q.Until).hint("one of reached, disagreed, no_consensus, expired")
	}
	deadline := time.Now().Add(wait) // of this call, on the machine's own clock
	r, err := a.awaitRoom(ctx, q.ID, wait)
	if err != nil {
		return nil, err
	}
	id := r.agreement.AgreementID
	if err := a.upToDate(ctx, id); err != nil {
		return nil, err
	}
	if q.Until != "" && q.Until != agreement.OutcomePending {
		if err := a.awaitOutcome(ctx, id, q.Until, time.Until(deadline)); err != nil {
			return nil, err
		}
	}
	return a.review(ctx, id)
}

var outcomes = []string{
	agreement.OutcomePending, agreement.OutcomeReached, agreement.OutcomeDisagreed,
	agreement.OutcomeNoConsensus, agreement.OutcomeExpired,
}

// awaitRoom picks an agreement, waiting for one to arrive.
func (a *Agent) awaitRoom(ctx context.Context, text string, wait time.Duration) (r *room, err error) {
	var missing error
	found, err := a.await(ctx, wait, func(ctx context.Context) (bool, error) {
		r, missing = a.pick(ctx, text)
		if missing == nil {
			return true, nil
		}
		if asError(missing).Code == CodeNotFound {
			return false, nil
		}
		return false, missing
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, missing
	}
	return r, nil
}

// awaitOutcome waits until a room has the outcome and, where it has a bundle,
// its files. Another final outcome is an error.
func (a *Agent) awaitOutcome(ctx context.Context, id, until string, wait time.Duration) error {
	var outcome string
	done, err := a.await(ctx, wait, func(ctx context.Context) (bool, error) {
		var written bool
		err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT outcome,
				EXISTS (SELECT 1 FROM agent_artifacts b WHERE b.agreement_id = r.agreement_id AND written_at IS NOT NULL)
				FROM agent_rooms r WHERE agreement_id = $1`, id).Scan(&outcome, &written)
		})
		if err != nil {
			return false, fmt.Errorf("reading the outcome: %w", err)
		}
		if outcome != agreement.OutcomePending && outcome != until {
			return true, nil
		}
		return outcome == until && written, nil
	})
	switch {
	case err != nil:
		return err
	case outcome != agreement.OutcomePending && outcome != until:
		return refused("the outcome is %s, not %s", outcome, until)
	case !done && outcome == until:
		return timedOut("the outcome is %s, its bundle has not come yet", outcome).hint("look again: parley review %s", id)
	case !done:
		return timedOut("the outcome is still %s", outcome).hint("wait longer: parley review %s --until %s --wait 10m", id, until)
	}
	return nil
}

func (a *Agent) review(ctx context.Context, id string) (*Review, error) {
	var v Review
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := roomByID(ctx, tx, id)
		if err != nil {
			return err
		}
		if v.Events, err = events(ctx, tx, id); err != nil {
			return err
		}
		if v.Commands, err = commands(ctx, tx, id); err != nil {
			return err
		}
		if v.Refusals, err = refusals(ctx, tx, id); err != nil {
			return err
		}
		v.Summary, v.Revision, v.Markdown = a.summary(r, v.Events), string(r.revision), r.agreement.Markdown()
		v.Participants = r.agreement.Participants
		v.Warnings = append(agreement.Warnings(r.agreement), unsignedInName(v.Events, r.me)...)
		var written bool
		err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM agent_artifacts
			WHERE agreement_id = $1 AND written_at IS NOT NULL`, id).Scan(&written)
		if written {
			v.Folder = a.folder(id)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the agreement: %w", err)
	}
	return &v, nil
}

// unsignedInName warns of events in a participant's name that nobody signed:
// the venue may have them by another way, or have made them up.
func unsignedInName(list []agreement.Event, id string) []string {
	var warnings []string
	for _, e := range list {
		if e.ParticipantID == id && e.Signature == nil {
			warnings = append(warnings, fmt.Sprintf("event %d is in your name and not signed by your key", e.Seq))
		}
	}
	return warnings
}
