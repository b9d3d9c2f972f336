package venue

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// ProposeRequest asks to open a room.
type ProposeRequest struct {
	Initiator string      // public key that authenticated the request, hex
	Revision  []byte      // canonical bytes of an agreement/v1
	Signature nostr.Event // the initiator's, kind 1418, action propose
}

// Propose locks a draft and invites its participants. The draft must be an
// agreement/v1 of profile parley/1 in its canonical bytes, name this venue by
// key and origin, have the caller as p1, give every participant a key that can
// be reached, and have its deadline ahead by at most message.MaxLifetime.
//
// Event of the result is the room's first event. The same bytes proposed again
// give the same event and send nothing; other bytes under a used agreement id
// are refused with agreement.CodeKeyConflict, a key that Options.Hosts does
// not admit with CodeNotPermitted, one over its daily cap with CodeCap.
func (v *Venue) Propose(ctx context.Context, tx *sql.Tx, req ProposeRequest) (*Result, error) {
	result, err := v.propose(ctx, tx, req)
	if err != nil {
		return nil, err
	}
	v.metrics.proposals.WithLabelValues(result.code()).Inc()
	return result, nil
}

func (v *Venue) propose(ctx context.Context, tx *sql.Tx, req ProposeRequest) (*Result, error) {
	if !v.opts.Hosts(ctx, req.Initiator) {
		return refused("", refuse(agreement.CodeNotPermitted, "this venue opens no rooms for you"))
	}
	a, err := v.readDraft(req)
	if err != nil {
		return refused("", err)
	}
	id := a.AgreementID
	r, err := v.store.record(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return v.proposeAgain(ctx, tx, r, req)
	}
	now := v.now()
	if err := v.checkPolicy(ctx, tx, a, now); err != nil {
		return refused(id, err)
	}
	room, err := agreement.Open(a, req.Signature, now)
	if err != nil {
		return refused(id, err)
	}
	return v.open(ctx, tx, room, req)
}

// readDraft holds every rule on the draft that needs neither clock nor store.
func (v *Venue) readDraft(req ProposeRequest) (*agreement.Agreement, error) {
	a, err := agreement.ParseAgreement(req.Revision)
	if err != nil {
		return nil, err
	}
	exact, err := a.Canonical()
	switch {
	case err != nil || !bytes.Equal(exact, req.Revision):
		return nil, refuse(agreement.CodeInvalid, "the revision is not in its canonical bytes")
	case a.Profile != agreement.ProfileParley:
		return nil, refuse(agreement.CodeInvalid, "/profile: this venue opens rooms of profile parley/1")
	case a.Venue != v.me:
		return nil, refuse(agreement.CodeInvalid, "/venue: not the key of this venue")
	case a.Origin() != v.opts.Origin:
		return nil, refuse(agreement.CodeInvalid, "/schema: not on the origin of this venue")
	case a.Participants[0].PubKey != req.Initiator:
		return nil, refuse(agreement.CodeNotPermitted, "/participants/0: only the initiator may propose")
	}
	for i, p := range a.Participants {
		if p.PubKey == "" && p.Delegate == "" {
			return nil, refuse(agreement.CodeInvalid, fmt.Sprintf("/participants/%d: no key, so this venue cannot invite it", i))
		}
	}
	return a, nil
}

// proposeAgain answers for an agreement id that is in use.
func (v *Venue) proposeAgain(ctx context.Context, tx *sql.Tx, r *record, req ProposeRequest) (*Result, error) {
	if r.digest != canonical.Digest(req.Revision) {
		return refused(r.agreement, refuse(agreement.CodeKeyConflict, "this agreement id is in use for another revision"))
	}
	if err := v.settle(ctx, tx, r); err != nil {
		return nil, err
	}
	first, err := v.store.event(ctx, tx, r.agreement, 1)
	if err != nil {
		return nil, err
	}
	return &Result{AgreementID: r.agreement, Event: first, Replayed: true, Outcome: r.outcome}, nil
}

// checkPolicy holds the venue's own limits.
func (v *Venue) checkPolicy(ctx context.Context, tx *sql.Tx, a *agreement.Agreement, now time.Time) error {
	if a.Deadline.After(now.Add(message.MaxLifetime)) {
		return refuse(agreement.CodeInvalid, "/deadline: more than 30 days ahead")
	}
	opened, err := v.store.opened(ctx, tx, a.Participants[0].PubKey, now.Add(-24*time.Hour))
	if err != nil {
		return err
	}
	if opened >= v.opts.DailyCap {
		return refuse(agreement.CodeCap, fmt.Sprintf("%d rooms in 24 hours are open to one initiator", v.opts.DailyCap))
	}
	return nil
}

// open stores a new room and invites everybody but the initiator, whose result
// says all that an invite would. The first event goes with the invite, so that
// each member can check the chain from its beginning.
func (v *Venue) open(ctx context.Context, tx *sql.Tx, room *agreement.Room, req ProposeRequest) (*Result, error) {
	a := room.Agreement()
	e, jws, err := v.acknowledge(ctx, tx, room, room.Events()[0])
	if err != nil {
		return nil, err
	}
	first, err := e.Canonical()
	if err != nil {
		return nil, fmt.Errorf("encoding event: %w", err)
	}
	if err := v.store.create(ctx, tx, room, req.Revision, first); err != nil {
		return nil, err
	}
	if err := v.store.addReceipt(ctx, tx, a.AgreementID, e.Seq, jws); err != nil {
		return nil, err
	}
	invite := message.AgreementInvite{Revision: string(req.Revision), Signature: req.Signature}
	for _, m := range membersOf(a) {
		if m.pubkey == req.Initiator {
			continue
		}
		if err := v.sendInvite(ctx, tx, a, m.pubkey, invite); err != nil {
			return nil, err
		}
		if err := v.sendEvent(ctx, tx, a.AgreementID, m.pubkey, first, room.Outcome()); err != nil {
			return nil, err
		}
	}
	v.alarm.note(a.Deadline.Time)
	v.logger.InfoContext(ctx, "room opened", "agreement", a.AgreementID, "participants", len(a.Participants))
	return &Result{AgreementID: a.AgreementID, Event: first, Outcome: room.Outcome()}, nil
}
