package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// forever stands for as late as a message may expire.
var forever = time.Unix(1<<40, 0)

// send stores one message of the venue in the caller's transaction. Messages
// about a room are one thread, named by the agreement's id.
func (v *Venue) send(ctx context.Context, tx *sql.Tx, to, thread string, body message.Body, expires time.Time) error {
	now := v.now()
	m, err := message.New(body.Type(), v.me, to, body, now, min(expires.Sub(now), message.MaxLifetime))
	if err != nil {
		return fmt.Errorf("making %s: %w", body.Type(), err)
	}
	m.Thread = thread
	if _, err := m.Encode(); err != nil { // the whole message has a limit too
		return fmt.Errorf("making %s: %w", body.Type(), err)
	}
	if err := v.opts.Outbox.SendTx(ctx, tx, m); err != nil {
		return fmt.Errorf("sending %s: %w", body.Type(), err)
	}
	return nil
}

// sendInvite sends a locked revision; the invite dies with the deadline.
func (v *Venue) sendInvite(ctx context.Context, tx *sql.Tx, a *agreement.Agreement, to string, invite message.AgreementInvite) error {
	return v.send(ctx, tx, to, a.AgreementID, invite, a.Deadline.Time)
}

// sendIfRoom is send for what its recipient can ask for again: nothing is sent,
// and nothing fails, while too much waits for that one recipient. A member that
// cannot be reached must not hold up the room for the others.
func (v *Venue) sendIfRoom(ctx context.Context, tx *sql.Tx, to, thread string, body message.Body) error {
	err := v.send(ctx, tx, to, thread, body, forever)
	if errors.Is(err, carrier.ErrPeerFull) {
		v.logger.DebugContext(ctx, "message left out", "type", body.Type(), "agreement", thread, "err", err)
		return nil
	}
	return err
}

// sendEvent tells a member of an event and of the outcome after it.
func (v *Venue) sendEvent(ctx context.Context, tx *sql.Tx, id, to string, event []byte, outcome string) error {
	return v.sendIfRoom(ctx, tx, to, id, message.AgreementEvent{Event: jsontext.Value(event), Outcome: outcome})
}

// sendArtifact sends a bundle; false when no message can carry it.
func (v *Venue) sendArtifact(ctx context.Context, tx *sql.Tx, id, to, bundle string) (bool, error) {
	err := v.sendIfRoom(ctx, tx, to, id, message.AgreementArtifact{AgreementID: id, Bundle: bundle})
	if errors.Is(err, message.ErrTooLarge) {
		return false, nil
	}
	return err == nil, err
}

// answer sends the result of a request back to who sent it.
func (v *Venue) answer(ctx context.Context, tx *sql.Tx, request *message.Message, result *Result) error {
	body := message.AgreementResult{InReplyTo: request.ID, AgreementID: result.AgreementID}
	thread := result.AgreementID
	if !canonical.IsUUID(result.AgreementID, 7) {
		body.AgreementID, thread = "", request.Thread
	}
	if result.Refusal != nil {
		body.Refusal = &message.Refusal{Code: result.Refusal.Code, Detail: result.Refusal.Detail}
	} else {
		body.Event = jsontext.Value(result.Event)
	}
	return v.sendIfRoom(ctx, tx, request.From, thread, body)
}
