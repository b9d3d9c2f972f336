package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

// States of a room as this agent knows it.
const (
	StateProposed = "proposed" // sent to the venue, no answer yet
	StateOpen     = "open"     // the venue opened it
	StateRefused  = "refused"  // the venue did not open it
)

// room is one row of agent_rooms with its revision read back from the bytes.
type room struct {
	agreement *agreement.Agreement
	revision  []byte      // exact canonical bytes; digest is computed from them
	proposal  nostr.Event // the initiator's signature
	digest    string
	me        string // participant id of this key
	state     string
	reason    string // refusal of the venue
	outcome   string
	lastSeq   int64
	queriedAt int64
}

// scanner is *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

const roomColumns = `me, revision, signature, state, reason, outcome, last_seq, queried_at`

// scanRoom reads a row and computes everything that can be computed from the
// revision's bytes again, so that the database is not trusted with a digest.
func scanRoom(row scanner) (*room, error) {
	var r room
	var signature []byte
	if err := row.Scan(&r.me, &r.revision, &signature, &r.state, &r.reason, &r.outcome, &r.lastSeq, &r.queriedAt); err != nil {
		return nil, err
	}
	a, err := agreement.ParseAgreement(r.revision)
	if err != nil {
		return nil, fmt.Errorf("reading a stored revision: %w", err)
	}
	proposal, err := agreement.ParseSignature(signature)
	if err != nil {
		return nil, fmt.Errorf("reading a stored proposal: %w", err)
	}
	r.agreement, r.proposal, r.digest = a, *proposal, canonical.Digest(r.revision)
	return &r, nil
}

// roomByID reads one room; nil when it is not known.
func roomByID(ctx context.Context, tx *sql.Tx, id string) (*room, error) {
	r, err := scanRoom(tx.QueryRowContext(ctx, `SELECT `+roomColumns+` FROM agent_rooms WHERE agreement_id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// rooms lists all rooms, the newest first.
func rooms(ctx context.Context, tx *sql.Tx) ([]*room, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+roomColumns+` FROM agent_rooms ORDER BY stored_at DESC, agreement_id DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*room
	for rows.Next() {
		r, err := scanRoom(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// insertRoom stores a room that passed every check.
func (a *Agent) insertRoom(ctx context.Context, tx *sql.Tx, r *room) error {
	signature, err := canonical.Marshal(agreement.SignatureOf(r.proposal))
	if err != nil {
		return fmt.Errorf("encoding a proposal: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO agent_rooms
		(agreement_id, venue, me, title, digest, deadline, revision, signature, state, outcome, stored_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		r.agreement.AgreementID, r.agreement.Venue, r.me, r.agreement.Title, r.digest, r.agreement.Deadline.Unix(),
		r.revision, signature, r.state, agreement.OutcomePending, a.now().Unix())
	if err != nil {
		return fmt.Errorf("storing a room: %w", err)
	}
	return nil
}

// events reads a room's events in order.
func events(ctx context.Context, tx *sql.Tx, id string) ([]agreement.Event, error) {
	rows, err := tx.QueryContext(ctx, `SELECT event FROM agent_events WHERE agreement_id = $1 ORDER BY seq`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []agreement.Event
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return nil, err
		}
		event, err := agreement.ParseEvent(data)
		if err != nil {
			return nil, fmt.Errorf("reading a stored event: %w", err)
		}
		list = append(list, *event)
	}
	return list, rows.Err()
}

// open reports whether a decision may still come.
func (r *room) open(now time.Time) bool {
	return r.state == StateOpen && r.outcome == agreement.OutcomePending && now.Before(r.agreement.Deadline.Time)
}

// pick finds the room a person means: a full id, an unambiguous beginning of
// one, or nothing when exactly one room is open.
func (a *Agent) pick(ctx context.Context, text string) (*room, error) {
	var list []*room
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = rooms(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading agreements: %w", err)
	}
	var found []*room
	for _, r := range list {
		id := r.agreement.AgreementID
		switch {
		case text == id:
			return r, nil
		case text == "" && r.open(a.now()), text != "" && strings.HasPrefix(id, strings.ToLower(text)):
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && text == "":
		return nil, invalid("%d agreements are open: %s", len(found), idsOf(found)).hint("name one; `parley review --list` shows their titles")
	case len(found) > 1:
		return nil, invalid("%d agreements fit: %s", len(found), idsOf(found)).hint("give more of the id")
	case text == "":
		return nil, notFound("no agreement is open").hint("see all with `parley review --list`, or wait for one: `parley review --wait 30s`")
	default:
		return nil, notFound("no agreement begins with %q", text).hint("see all with `parley review --list`")
	}
}

func idsOf(list []*room) string {
	var ids []string
	for _, r := range list[:min(len(list), 5)] {
		ids = append(ids, r.agreement.AgreementID)
	}
	return strings.Join(ids, ", ")
}
