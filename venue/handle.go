package venue

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
)

// Stranger tells the delivery engine (carrier.Options.Stranger) whether a
// message of a stranger is for this venue: a proposal of a key that
// Options.Hosts admits. A venue that admits only its contacts takes nothing
// this way.
func (v *Venue) Stranger(ctx context.Context, in *carrier.Incoming) bool {
	return in.Message.Type == message.TypeAgreementPropose && v.opts.Hosts(ctx, in.Sender)
}

// Handle answers one agreement.propose, .command or .query inside the
// transaction that marks it processed (carrier.Options.Handle): what it
// changes, what it sends and that it was handled are one. A message of another
// type, or to a room that is ErrBroken, fails with carrier.ErrPermanent; any
// other error is worth trying again.
func (v *Venue) Handle(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	err := v.dispatch(ctx, tx, in)
	if errors.Is(err, ErrBroken) {
		v.logger.ErrorContext(ctx, "room not usable", "message_id", in.Message.ID, "err", err)
		return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return err
}

func (v *Venue) dispatch(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	switch in.Message.Type {
	case message.TypeAgreementPropose:
		return v.handlePropose(ctx, tx, in)
	case message.TypeAgreementCommand:
		return v.handleCommand(ctx, tx, in)
	case message.TypeAgreementQuery:
		return v.handleQuery(ctx, tx, in)
	}
	return fmt.Errorf("%w: venue takes no %s", carrier.ErrPermanent, in.Message.Type)
}

// decode reads the body of a request. The engine has checked it already, so a
// mistake here cannot be answered.
func decode(in *carrier.Incoming, body message.Body) error {
	if err := message.DecodeBody(in.Message, body); err != nil {
		return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return nil
}

func (v *Venue) handlePropose(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	var body message.AgreementPropose
	if err := decode(in, &body); err != nil {
		return err
	}
	result, err := v.Propose(ctx, tx, ProposeRequest{
		Initiator: in.Sender, Revision: []byte(body.Revision), Signature: body.Signature,
	})
	if err != nil {
		return err
	}
	return v.answer(ctx, tx, in.Message, result)
}

func (v *Venue) handleCommand(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	var body message.AgreementCommand
	if err := decode(in, &body); err != nil {
		return err
	}
	result, err := v.Command(ctx, tx, CommandRequest{
		Caller: Caller{PubKey: in.Sender}, Key: body.Key, Command: body.Command, Signature: body.Signature,
	})
	if err != nil {
		return err
	}
	return v.answer(ctx, tx, in.Message, result)
}

func (v *Venue) handleQuery(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	var body message.AgreementQuery
	if err := decode(in, &body); err != nil {
		return err
	}
	page, err := v.Query(ctx, tx, QueryRequest{
		Caller: Caller{PubKey: in.Sender}, AgreementID: body.AgreementID, From: body.From,
	})
	if err != nil {
		return err
	}
	return v.sendPage(ctx, tx, in.Message, page)
}

// sendPage sends a page as messages: invite, events, artifact, and at last the
// result with the newest event, by which the asker knows whether it has all.
// When the bundle is due and no message can carry it, the result says so.
func (v *Venue) sendPage(ctx context.Context, tx *sql.Tx, request *message.Message, page *Page) error {
	if page.Refusal != nil {
		return v.answer(ctx, tx, request, &Result{AgreementID: page.AgreementID, Refusal: page.Refusal})
	}
	to, id := request.From, page.AgreementID
	if page.Revision != "" {
		invite := message.AgreementInvite{Revision: page.Revision, Signature: *page.Signature}
		if err := v.send(ctx, tx, to, id, invite, forever); err != nil {
			return err
		}
	}
	for _, event := range page.Events {
		outcome := agreement.OutcomePending // only the last event of a room can end it
		if bytes.Equal(event, page.Head) {
			outcome = page.Outcome
		}
		if err := v.sendEvent(ctx, tx, id, to, event, outcome); err != nil {
			return err
		}
	}
	result := &Result{AgreementID: id, Event: page.Head}
	if page.Bundle != "" {
		sent, err := v.sendArtifact(ctx, tx, id, to, page.Bundle)
		if err != nil {
			return err
		}
		if !sent {
			result.Event = nil
			result.Refusal = refuse(agreement.CodeCap, fmt.Sprintf(
				"the bundle has %d bytes, more than a message carries: fetch it by HTTPS", len(page.Bundle)))
		}
	}
	return v.answer(ctx, tx, request, result)
}
