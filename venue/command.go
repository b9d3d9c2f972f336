package venue

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/idempotency"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// keyLifetime is how long after the deadline a command's idempotency key is
// remembered: as long as a message sent at the deadline may still arrive, and
// a day more.
const keyLifetime = message.MaxLifetime + 24*time.Hour

// CommandRequest is one act of a participant.
type CommandRequest struct {
	Caller Caller
	// AgreementID is the room meant. Empty means the one the command names.
	AgreementID string
	Key         string       // idempotency key, [A-Za-z0-9._:-]{8,128}
	Command     []byte       // room-command/v1; need not be canonical
	Signature   *nostr.Event // kind 1418; nil where there is none
}

// Command applies one command to its room. The checks come in this order, and
// the first that fails is the answer: the caller takes part in the room, the
// key's syntax and the command's shape, the key seen before (the same command
// gives its event again, another one agreement.CodeKeyConflict, also after the
// room closed), then those of agreement.Room.Apply: deadline, closed room,
// digest, second decision, event limit, permission, signature.
//
// Only accepted commands bind their key. An accepted event is sent to all
// members but the caller; an event that closes the room also makes the bundle,
// which is sent to all.
func (v *Venue) Command(ctx context.Context, tx *sql.Tx, req CommandRequest) (*Result, error) {
	action := actionUnknown
	result, err := v.command(ctx, tx, req, &action)
	if err != nil {
		return nil, err
	}
	v.metrics.commands.WithLabelValues(action, result.code()).Inc()
	return result, nil
}

func (v *Venue) command(ctx context.Context, tx *sql.Tx, req CommandRequest, action *string) (*Result, error) {
	id := req.AgreementID
	if id == "" {
		id = namedAgreement(req.Command)
	}
	r, participant, err := v.enter(ctx, tx, id, req.Caller)
	if err != nil {
		return refused(id, err)
	}
	cmd, err := readCommand(req)
	if err != nil {
		return refused(id, err)
	}
	*action = cmd.Action
	if cmd.AgreementID != id || cmd.ParticipantID != participant {
		return refused(id, unknown())
	}
	if err := v.settle(ctx, tx, r); err != nil {
		return nil, err
	}
	keyed, err := keyedRequest(req.Key, *cmd)
	if err != nil {
		return refused(id, err)
	}
	seq, seen, err := idempotency.Find(ctx, tx, keyed)
	switch {
	case errors.Is(err, idempotency.ErrConflict):
		return refused(id, refuse(agreement.CodeKeyConflict, "this key stands for another command"))
	case err != nil:
		return nil, err
	case seen:
		return v.repeat(ctx, tx, r, seq)
	}
	e, err := v.apply(ctx, tx, r, *cmd, req)
	if err != nil {
		return refused(id, err)
	}
	expires := r.deadline.Add(keyLifetime)
	if err := idempotency.Keep(ctx, tx, keyed, strconv.FormatInt(e.seq, 10), expires); err != nil {
		return nil, err
	}
	return &Result{AgreementID: id, Event: e.data, Outcome: r.outcome}, nil
}

// namedAgreement reads nothing but the agreement id of a command, so that a
// caller without a part in it learns nothing else; empty when there is none.
func namedAgreement(command []byte) string {
	var named struct {
		AgreementID string `json:"agreement_id"`
	}
	if len(command) > agreement.MaxCommandSize || json.Unmarshal(command, &named) != nil {
		return ""
	}
	return named.AgreementID
}

// enter finds the room and the caller's place in it. Whatever is wrong, the
// refusal is the same.
func (v *Venue) enter(ctx context.Context, tx *sql.Tx, id string, by Caller) (*record, string, error) {
	participant := by.ParticipantID
	if by.PubKey != "" {
		found, err := v.store.participant(ctx, tx, id, by.PubKey)
		if err != nil {
			return nil, "", err
		}
		participant = found
	}
	if participant == "" {
		return nil, "", unknown()
	}
	r, err := v.store.record(ctx, tx, id)
	if err != nil {
		return nil, "", err
	}
	if r == nil {
		return nil, "", unknown()
	}
	return r, participant, nil
}

// readCommand checks what needs no room: the key's syntax and the command's
// size and shape.
func readCommand(req CommandRequest) (*agreement.Command, error) {
	if !message.IsIdempotencyKey(req.Key) {
		return nil, refuse(agreement.CodeInvalid, "/key: must be 8 to 128 of A-Z a-z 0-9 . _ : -")
	}
	return agreement.ParseCommand(req.Command)
}

// keyedRequest is a command as its key stands for it: a key belongs to one
// participant of one room.
func keyedRequest(key string, cmd agreement.Command) (idempotency.Request, error) {
	data, err := cmd.Canonical()
	if err != nil {
		return idempotency.Request{}, refuse(agreement.CodeInvalid, "text without a canonical form")
	}
	return idempotency.Request{
		Scope: keyOwner + "/" + cmd.AgreementID + "/" + cmd.ParticipantID, Key: key, Hash: canonical.Digest(data),
	}, nil
}

// keyOwner begins the scope of every idempotency key of the venue.
const keyOwner = "venue"

// repeat answers a command that was accepted before.
func (v *Venue) repeat(ctx context.Context, tx *sql.Tx, r *record, stored string) (*Result, error) {
	seq, err := strconv.ParseInt(stored, 10, 64)
	if err != nil {
		return nil, broken("stored answer: %v", err)
	}
	data, err := v.store.event(ctx, tx, r.agreement, seq)
	if err != nil {
		return nil, err
	}
	return &Result{AgreementID: r.agreement, Event: data, Replayed: true, Outcome: r.outcome}, nil
}

// accepted is an event that has just been stored.
type accepted struct {
	seq  int64
	data []byte
}

// apply puts the command to the room, stores what it became and tells the
// members. Errors are *agreement.Refusal or failures.
func (v *Venue) apply(ctx context.Context, tx *sql.Tx, r *record, cmd agreement.Command, req CommandRequest) (*accepted, error) {
	room, err := v.store.room(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	e, err := room.Apply(cmd, req.Signature, req.Caller.assurance(), v.now())
	if err != nil {
		v.store.cache.put(room) // unchanged
		return nil, err
	}
	data, err := v.publish(ctx, tx, r, room, e, req.Caller.PubKey)
	if err != nil {
		return nil, err
	}
	return &accepted{e.Seq, data}, nil
}
