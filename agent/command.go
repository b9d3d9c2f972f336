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

// States of a command.
const (
	CommandSent     = "sent"     // on its way, no answer yet
	CommandAccepted = "accepted" // it became an event
	CommandRefused  = "refused"  // the venue said no
)

// actionQuery marks a question about a room among the commands. It is no
// action of the room.
const actionQuery = "query"

// Command is what this agent asked of a venue and what came of it.
type Command struct {
	ID          string         `json:"id"` // message id
	AgreementID string         `json:"agreement_id"`
	Action      string         `json:"action"`
	Body        string         `json:"body,omitempty"`
	State       string         `json:"state"`          // sent, accepted or refused
	Code        string         `json:"code,omitempty"` // of a refusal
	Detail      string         `json:"detail,omitempty"`
	Seq         int64          `json:"seq,omitempty"` // the event it became
	SentAt      canonical.Time `json:"sent_at"`
}

// storeCommand notes a message whose answer matters and queues it, in one
// transaction.
func (a *Agent) storeCommand(ctx context.Context, tx *sql.Tx, m *message.Message, id, action, body string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO agent_commands
		(message_id, agreement_id, venue, action, body, state, sent_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		m.ID, id, m.To, action, body, CommandSent, a.now().Unix())
	if err != nil {
		return fmt.Errorf("storing a command: %w", err)
	}
	return a.sendTx(ctx, tx, m)
}

const commandColumns = `message_id, agreement_id, action, body, state, code, detail, seq, sent_at`

func scanCommand(row scanner) (Command, error) {
	var c Command
	var sent int64
	err := row.Scan(&c.ID, &c.AgreementID, &c.Action, &c.Body, &c.State, &c.Code, &c.Detail, &c.Seq, &sent)
	c.SentAt = canonical.At(time.Unix(sent, 0))
	return c, err
}

func (a *Agent) command(ctx context.Context, id string) (c Command, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err = scanCommand(tx.QueryRowContext(ctx, `SELECT `+commandColumns+` FROM agent_commands WHERE message_id = $1`, id))
		return err
	})
	return c, err
}

// commands reads the acts asked for in one room, the oldest first.
func commands(ctx context.Context, tx *sql.Tx, id string) ([]Command, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+commandColumns+` FROM agent_commands
		WHERE agreement_id = $1 AND action <> $2 ORDER BY sent_at, message_id`, id, actionQuery)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Command{}
	for rows.Next() {
		c, err := scanCommand(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// takeResult settles a command. The event in it is checked like any other.
func (a *Agent) takeResult(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.AgreementResult
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	row := tx.QueryRowContext(ctx, `SELECT `+commandColumns+` FROM agent_commands WHERE message_id = $1 AND venue = $2`,
		body.InReplyTo, m.From)
	c, err := scanCommand(row)
	if errors.Is(err, sql.ErrNoRows) {
		return a.refuse(ctx, tx, m, body.AgreementID, refusedUnknown, errors.New("an answer to nothing that was asked"))
	}
	if err != nil {
		return fmt.Errorf("reading a command: %w", err)
	}
	if c.State != CommandSent {
		return nil // answered before; the first answer counts
	}
	if body.Refusal != nil {
		return a.settleRefused(ctx, tx, m, c, body.Refusal)
	}
	return a.settleAccepted(ctx, tx, m, c, body)
}

func (a *Agent) settleRefused(ctx context.Context, tx *sql.Tx, m *message.Message, c Command, r *message.Refusal) error {
	_, err := tx.ExecContext(ctx, `UPDATE agent_commands SET state = $1, code = $2, detail = $3, answered_at = $4
		WHERE message_id = $5`, CommandRefused, r.Code, r.Detail, a.now().Unix(), c.ID)
	if err != nil {
		return fmt.Errorf("settling a command: %w", err)
	}
	if c.Action == agreement.ActionPropose {
		_, err := tx.ExecContext(ctx, `UPDATE agent_rooms SET state = $1, reason = $2 WHERE agreement_id = $3 AND state = $4`,
			StateRefused, r.Code, c.AgreementID, StateProposed)
		if err != nil {
			return fmt.Errorf("closing a refused room: %w", err)
		}
	}
	if c.Action == actionQuery {
		return nil
	}
	return a.note(ctx, tx, Notice{Kind: NoticeResult, Peer: m.From, ID: c.ID, AgreementID: c.AgreementID})
}

// settleAccepted takes the event only when it is the act that was asked for and
// continues the room.
func (a *Agent) settleAccepted(ctx context.Context, tx *sql.Tx, m *message.Message, c Command, body message.AgreementResult) error {
	event, data, err := readEvent(body.Event)
	if err != nil {
		return a.refuse(ctx, tx, m, c.AgreementID, refusedShape, err)
	}
	r, err := roomByID(ctx, tx, c.AgreementID)
	if err != nil || r == nil {
		return fmt.Errorf("reading the room of a command: %w", errors.Join(err, errEarly))
	}
	if c.Action == actionQuery {
		return a.settleQuery(ctx, tx, m, c, r, event, data)
	}
	if event.AgreementID != c.AgreementID || event.ParticipantID != r.me || event.Action != c.Action || event.Body != c.Body {
		return a.refuse(ctx, tx, m, c.AgreementID, refusedChain, errors.New("an answer about another act than the one asked for"))
	}
	if err := a.applyEvent(ctx, tx, m, r, event, data, ""); err != nil {
		return err
	}
	known, err := a.holds(ctx, tx, c.AgreementID, event.Seq, data)
	if err != nil || !known {
		return err // refused; the command stays open
	}
	if err := a.markAccepted(ctx, tx, c.ID, event.Seq); err != nil {
		return err
	}
	return a.note(ctx, tx, Notice{Kind: NoticeResult, Peer: m.From, ID: c.ID, AgreementID: c.AgreementID, Seq: event.Seq, Outcome: r.outcome})
}

// settleQuery takes the newest event of a room. When the ones before it have
// not come yet it is held, and catchUp asks on.
func (a *Agent) settleQuery(ctx context.Context, tx *sql.Tx, m *message.Message, c Command, r *room, event *agreement.Event, data []byte) error {
	if event.AgreementID != c.AgreementID {
		return a.refuse(ctx, tx, m, c.AgreementID, refusedChain, errors.New("an answer about another room than the one asked for"))
	}
	if err := a.markAccepted(ctx, tx, c.ID, event.Seq); err != nil {
		return err
	}
	return a.applyEvent(ctx, tx, m, r, event, data, "")
}

func (a *Agent) markAccepted(ctx context.Context, tx *sql.Tx, id string, seq int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE agent_commands SET state = $1, seq = $2, answered_at = $3 WHERE message_id = $4`,
		CommandAccepted, seq, a.now().Unix(), id)
	if err != nil {
		return fmt.Errorf("settling a command: %w", err)
	}
	return nil
}

// holds reports whether exactly these bytes stand, or wait to stand, in the
// room's chain.
func (a *Agent) holds(ctx context.Context, tx *sql.Tx, id string, seq int64, data []byte) (found bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM agent_events WHERE agreement_id = $1 AND seq = $2 AND event = $3) +
		(SELECT count(*) FROM agent_held WHERE agreement_id = $4 AND seq = $5 AND event = $6) > 0`,
		id, seq, data, id, seq, data).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking for an event: %w", err)
	}
	return found, nil
}
