package agent

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// takeInvite checks an invitation from its bytes and stores the room. Nothing
// the venue says beside the revision and the initiator's signature counts.
func (a *Agent) takeInvite(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.AgreementInvite
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	if pinned, err := isPinnedVenue(ctx, tx, m.From); err != nil || !pinned {
		if err != nil {
			return err
		}
		return a.refuse(ctx, tx, m, "", refusedVenue, errors.New("an invitation from a key that is no pinned venue"))
	}
	r, reason, err := a.checkRevision([]byte(body.Revision), body.Signature, m.From)
	if err != nil {
		id := ""
		if r != nil {
			id = r.agreement.AgreementID
		}
		return a.refuse(ctx, tx, m, id, reason, err)
	}
	id := r.agreement.AgreementID
	known, err := roomByID(ctx, tx, id)
	switch {
	case err != nil:
		return fmt.Errorf("reading the room: %w", err)
	case known != nil && !bytes.Equal(known.revision, r.revision):
		return a.refuse(ctx, tx, m, id, refusedConflict,
			fmt.Errorf("another revision (digest %s) under the id of one already known (digest %s)", r.digest, known.digest))
	case known != nil:
		return a.openRoom(ctx, tx, known)
	}
	r.state = StateOpen
	if err := a.insertRoom(ctx, tx, r); err != nil {
		return err
	}
	// The invitation has no event; the venue's clock and what happened since
	// stand in the ones from the first on.
	if err := a.queryRoom(ctx, tx, r, 1); err != nil {
		return err
	}
	return a.note(ctx, tx, Notice{Kind: NoticeInvitation, Peer: m.From, ID: m.ID, AgreementID: id})
}

// checkRevision reads a room from the bytes of a revision and the initiator's
// signature. venue is who sent them. The digest is computed here.
func (a *Agent) checkRevision(revision []byte, signature nostr.Event, venue string) (*room, string, error) {
	agr, err := agreement.ParseAgreement(revision)
	if err != nil {
		return nil, refusedRevision, err
	}
	r := &room{agreement: agr, revision: revision, proposal: signature, digest: canonical.Digest(revision)}
	exact, err := agr.Canonical()
	if err != nil || !bytes.Equal(exact, revision) {
		return r, refusedRevision, errors.New("the revision is not in canonical form")
	}
	if agr.Profile != agreement.ProfileParley || agr.Venue != venue {
		return r, refusedVenue, errors.New("the revision names another venue than the one that sent it")
	}
	if agr.Deadline.After(a.now().Add(message.MaxLifetime + message.MaxSkew)) {
		return r, refusedRevision, errors.New("the deadline lies more than 30 days ahead")
	}
	me, ok := agr.ParticipantByKey(a.key.PublicKey())
	if !ok {
		return r, refusedRoster, errors.New("this key is not in the roster")
	}
	r.me = me.ID
	initiator := agr.Participants[0].PubKey
	err = agreement.VerifySignature(signature, agr, r.digest, agreement.ActionPropose, "", initiator, a.now())
	if err != nil {
		return r, refusedSignature, err
	}
	return r, "", nil
}

func isPinnedVenue(ctx context.Context, tx *sql.Tx, pubkey string) (pinned bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM agent_servers WHERE venue = $1`, pubkey).Scan(&pinned)
	if err != nil {
		return false, fmt.Errorf("looking up the venue: %w", err)
	}
	return pinned, nil
}

// openRoom notes that the venue opened a room, whichever message said so first.
func (a *Agent) openRoom(ctx context.Context, tx *sql.Tx, r *room) error {
	_, err := tx.ExecContext(ctx, `UPDATE agent_rooms SET state = $1 WHERE agreement_id = $2 AND state <> $1`,
		StateOpen, r.agreement.AgreementID)
	if err != nil {
		return fmt.Errorf("opening the room: %w", err)
	}
	r.state = StateOpen
	return nil
}
