package agent

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

const (
	// maxHeld bounds the events of one room that wait for an earlier one.
	maxHeld = 100
	// queryPause is the least time between two questions about one room, unless
	// the first was answered with a part.
	queryPause = 2 * time.Second
	// queryLifetime is how long a question may travel.
	queryLifetime = 24 * time.Hour
	// patience is how long an event waits for the invitation it belongs to.
	patience = 10 * time.Minute
)

// errEarly asks the engine to come back: the invitation may still be on its way.
var errEarly = errors.New("agent: an event of a room not known yet")

// takeEvent applies one event of a room, or holds it until the ones before it
// have come.
func (a *Agent) takeEvent(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.AgreementEvent
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	event, data, err := readEvent(body.Event)
	if err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	r, err := a.roomOf(ctx, tx, m, event.AgreementID, "an event")
	if err != nil || r == nil {
		return err
	}
	return a.applyEvent(ctx, tx, m, r, event, data, body.Outcome)
}

// roomOf finds the room that m is about, what its venue sent; nil once m is
// refused.
func (a *Agent) roomOf(ctx context.Context, tx *sql.Tx, m *message.Message, id, what string) (*room, error) {
	r, err := roomByID(ctx, tx, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the room: %w", err)
	case r == nil && a.now().Sub(m.SentAt.Time) < patience:
		return nil, errEarly
	case r == nil:
		return nil, a.refuse(ctx, tx, m, id, refusedUnknown, errors.New(what+" of an unknown room"))
	case r.agreement.Venue != m.From:
		return nil, a.refuse(ctx, tx, m, id, refusedVenue, errors.New(what+" from a key that is not the room's venue"))
	}
	return r, nil
}

// readEvent reads an event and its canonical bytes.
func readEvent(raw []byte) (*agreement.Event, []byte, error) {
	event, err := agreement.ParseEvent(raw)
	if err != nil {
		return nil, nil, err
	}
	data, err := event.Canonical()
	return event, data, err
}

// applyEvent continues the chain of r with event, then with the events held
// for later. claimed is the outcome the venue names, "" where it names none.
func (a *Agent) applyEvent(ctx context.Context, tx *sql.Tx, m *message.Message, r *room, event *agreement.Event, data []byte, claimed string) error {
	switch {
	case event.Seq <= r.lastSeq:
		return a.compareEvent(ctx, tx, m, r, event, data)
	case event.Seq > r.lastSeq+1:
		return a.holdEvent(ctx, tx, r, event.Seq, data)
	}
	if err := a.extend(ctx, tx, r, event, data, claimed); err != nil {
		return a.unlessRefused(ctx, tx, m, r, err)
	}
	for {
		next, held, err := heldEvent(ctx, tx, r.agreement.AgreementID, r.lastSeq+1)
		if err != nil || next == nil {
			return err
		}
		if err := a.extend(ctx, tx, r, next, held, ""); err != nil {
			return errors.Join(dropHeld(ctx, tx, r.agreement.AgreementID, next.Seq), a.unlessRefused(ctx, tx, m, r, err))
		}
	}
}

// unlessRefused turns a broken rule into a refusal and passes other errors on.
func (a *Agent) unlessRefused(ctx context.Context, tx *sql.Tx, m *message.Message, r *room, err error) error {
	if _, broken := errors.AsType[*agreement.Refusal](err); !broken {
		return err
	}
	return a.refuse(ctx, tx, m, r.agreement.AgreementID, refusedChain, err)
}

// compareEvent accepts a repetition and refuses another event in its place: a
// venue that shows two histories.
func (a *Agent) compareEvent(ctx context.Context, tx *sql.Tx, m *message.Message, r *room, event *agreement.Event, data []byte) error {
	var known []byte
	row := tx.QueryRowContext(ctx, `SELECT event FROM agent_events WHERE agreement_id = $1 AND seq = $2`,
		r.agreement.AgreementID, event.Seq)
	if err := row.Scan(&known); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	if bytes.Equal(known, data) {
		return nil
	}
	return a.refuse(ctx, tx, m, r.agreement.AgreementID, refusedConflict,
		fmt.Errorf("another event %d (hash %s) than the one already known (hash %s)",
			event.Seq, canonical.Digest(data), canonical.Digest(known)))
}

// extend replays the room with one more event and stores it when every rule
// holds.
func (a *Agent) extend(ctx context.Context, tx *sql.Tx, r *room, event *agreement.Event, data []byte, claimed string) error {
	id := r.agreement.AgreementID
	list, err := events(ctx, tx, id)
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	replayed, err := agreement.Replay(r.agreement, append(list, *event))
	if err != nil {
		return err
	}
	outcome := replayed.Outcome()
	if claimed != "" && claimed != outcome {
		return &agreement.Refusal{Code: agreement.CodeInvalid, Detail: "the venue names another outcome than the events give"}
	}
	if event.Seq == 1 && !sameSignature(event.Signature, r) {
		return &agreement.Refusal{Code: agreement.CodeSignatureInvalid, Detail: "another proposal than the one that was signed"}
	}
	if err := storeEvent(ctx, tx, id, event.Seq, data, outcome); err != nil {
		return err
	}
	r.lastSeq, r.outcome, r.state = event.Seq, outcome, StateOpen
	return a.note(ctx, tx, Notice{Kind: NoticeEvent, Peer: r.agreement.Venue, AgreementID: id, Seq: event.Seq, Outcome: outcome})
}

func sameSignature(s *agreement.Signature, r *room) bool {
	return s != nil && s.ID == r.proposal.ID && s.Sig == r.proposal.Sig
}

func storeEvent(ctx context.Context, tx *sql.Tx, id string, seq int64, data []byte, outcome string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO agent_events (agreement_id, seq, event) VALUES ($1, $2, $3)`, id, seq, data)
	if err != nil {
		return fmt.Errorf("storing an event: %w", err)
	}
	if err := dropHeld(ctx, tx, id, seq); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE agent_rooms SET last_seq = $1, outcome = $2, state = $3 WHERE agreement_id = $4`,
		seq, outcome, StateOpen, id)
	if err != nil {
		return fmt.Errorf("moving the room on: %w", err)
	}
	return nil
}

// dropHeld forgets the held events up to one.
func dropHeld(ctx context.Context, tx *sql.Tx, id string, seq int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM agent_held WHERE agreement_id = $1 AND seq <= $2`, id, seq)
	if err != nil {
		return fmt.Errorf("dropping held events: %w", err)
	}
	return nil
}

// holdEvent keeps an event that came early and asks for the ones missing.
func (a *Agent) holdEvent(ctx context.Context, tx *sql.Tx, r *room, seq int64, data []byte) error {
	if seq <= r.lastSeq+maxHeld {
		_, err := tx.ExecContext(ctx, `INSERT INTO agent_held (agreement_id, seq, event) VALUES ($1, $2, $3)
			ON CONFLICT (agreement_id, seq) DO UPDATE SET event = excluded.event`, r.agreement.AgreementID, seq, data)
		if err != nil {
			return fmt.Errorf("holding an event: %w", err)
		}
	}
	if a.now().Sub(time.Unix(r.queriedAt, 0)) < queryPause {
		return nil // catchUp asks, should the answer not fill the gap
	}
	return a.queryRoom(ctx, tx, r, r.lastSeq+1)
}

// answerPatience is how long a person waits for a room to be brought up to date
// before it is shown as far as it is known.
const answerPatience = 5 * time.Second

// upToDate waits a little for the answer to a question about the room that was
// asked just now, and for the events missing before those held.
func (a *Agent) upToDate(ctx context.Context, id string) error {
	since := a.now().Add(-time.Minute).Unix()
	_, err := a.await(ctx, answerPatience, func(ctx context.Context) (answered bool, err error) {
		err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM agent_commands
					WHERE agreement_id = $1 AND action = $2 AND state = $3 AND sent_at > $4)
				AND NOT EXISTS (SELECT 1 FROM agent_held WHERE agreement_id = $5)`,
				id, actionQuery, CommandSent, since, id).Scan(&answered)
		})
		return answered, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the room: %w", err)
	}
	return nil
}

// catchUp asks again about every room whose held events still wait for others,
// and reports whether it asked.
func (a *Agent) catchUp(ctx context.Context) (asked bool, err error) {
	var waiting []string
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT DISTINCT r.agreement_id FROM agent_held h
			JOIN agent_rooms r ON r.agreement_id = h.agreement_id WHERE r.queried_at <= $1`, a.now().Add(-queryPause).Unix())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			waiting = append(waiting, id)
		}
		return rows.Err()
	})
	for _, id := range waiting {
		if err != nil {
			break
		}
		err = a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			r, err := roomByID(ctx, tx, id)
			if err != nil || r == nil {
				return err
			}
			return a.queryRoom(ctx, tx, r, r.lastSeq+1)
		})
	}
	if err != nil {
		return false, fmt.Errorf("asking about rooms: %w", err)
	}
	return len(waiting) > 0, nil
}

// heldEvent reads the event held for one place; nil when there is none.
func heldEvent(ctx context.Context, tx *sql.Tx, id string, seq int64) (*agreement.Event, []byte, error) {
	var data []byte
	err := tx.QueryRowContext(ctx, `SELECT event FROM agent_held WHERE agreement_id = $1 AND seq = $2`, id, seq).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a held event: %w", err)
	}
	event, err := agreement.ParseEvent(data)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a held event: %w", err)
	}
	return event, data, nil
}

// queryRoom asks the venue for the events from one on. The answer comes as
// events and ends with a result that names the newest one.
func (a *Agent) queryRoom(ctx context.Context, tx *sql.Tx, r *room, from int64) error {
	now, id := a.now(), r.agreement.AgreementID
	body := message.AgreementQuery{AgreementID: id, From: from}
	m, err := message.New(message.TypeAgreementQuery, a.key.PublicKey(), r.agreement.Venue, body, now, queryLifetime)
	if err != nil {
		return fmt.Errorf("asking about the room: %w", err)
	}
	m.Thread = id
	if err := a.storeCommand(ctx, tx, m, id, actionQuery, ""); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE agent_rooms SET queried_at = $1 WHERE agreement_id = $2`, now.Unix(), id)
	if err != nil {
		return fmt.Errorf("noting the question: %w", err)
	}
	r.queriedAt = now.Unix()
	return nil
}
