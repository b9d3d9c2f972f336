package agent

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// takeArtifact verifies a bundle from its bytes, compares it with everything
// already known of the room, and stores it. The files follow after the commit.
func (a *Agent) takeArtifact(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.AgreementArtifact
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	r, err := a.roomOf(ctx, tx, m, body.AgreementID, "a bundle")
	if err != nil || r == nil {
		return err
	}
	bundle, reason, err := checkBundle(r, []byte(body.Bundle))
	if err != nil {
		return a.refuse(ctx, tx, m, body.AgreementID, reason, err)
	}
	return a.storeArtifact(ctx, tx, m, r, bundle, []byte(body.Bundle))
}

// checkBundle verifies a bundle offline and that it is about r's revision, byte
// for byte.
func checkBundle(r *room, data []byte) (*agreement.Bundle, string, error) {
	report, err := agreement.Verify(data)
	if err != nil {
		return nil, refusedBundle, err
	}
	if report.Digest != r.digest || report.Agreement.AgreementID != r.agreement.AgreementID {
		return nil, refusedDigest, fmt.Errorf("a bundle about digest %s, known is %s", report.Digest, r.digest)
	}
	bundle := new(agreement.Bundle)
	if err := canonical.Decode(data, bundle); err != nil {
		return nil, refusedBundle, err
	}
	if !sameSignature(bundle.Events[0].Signature, r) {
		return nil, refusedConflict, errors.New("a bundle that begins with another proposal")
	}
	return bundle, "", nil
}

// storeArtifact refuses a bundle whose history differs from the one already
// seen; events not seen yet are taken from it, since Verify replayed them.
func (a *Agent) storeArtifact(ctx context.Context, tx *sql.Tx, m *message.Message, r *room, bundle *agreement.Bundle, data []byte) error {
	id := r.agreement.AgreementID
	known, err := events(ctx, tx, id)
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	for i, event := range known {
		if i >= len(bundle.Events) || bundle.Events[i].Hash() != event.Hash() {
			return a.refuse(ctx, tx, m, id, refusedConflict, fmt.Errorf("a bundle without the event %d already known", event.Seq))
		}
	}
	outcome, err := outcomeOf(r.agreement, bundle.Events)
	if err != nil {
		return err
	}
	for _, event := range bundle.Events[len(known):] {
		exact, err := event.Canonical()
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		if err := storeEvent(ctx, tx, id, event.Seq, exact, outcome); err != nil {
			return err
		}
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO agent_artifacts (agreement_id, bundle, stored_at) VALUES ($1, $2, $3)
		ON CONFLICT (agreement_id) DO NOTHING`, id, data, a.now().Unix())
	if err != nil {
		return fmt.Errorf("storing a bundle: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err // the same room, signed again: the first bundle stays
	}
	a.metrics.artifacts.Inc()
	return a.note(ctx, tx, Notice{Kind: NoticeArtifact, Peer: m.From, ID: m.ID, AgreementID: id, Outcome: outcome})
}

func outcomeOf(agr *agreement.Agreement, list []agreement.Event) (string, error) {
	r, err := agreement.Replay(agr, list)
	if err != nil {
		return "", fmt.Errorf("replaying a verified room: %w", err)
	}
	return r.Outcome(), nil
}

// folder is where the files of an agreement lie.
func (a *Agent) folder(id string) string { return filepath.Join(a.home, agreementsName, id) }

// writeArtifacts brings every stored bundle that is not on disk yet there. It
// may be run again at any time.
func (a *Agent) writeArtifacts(ctx context.Context) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	waiting := make(map[string][]byte)
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT agreement_id, bundle FROM agent_artifacts WHERE written_at IS NULL`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var data []byte
			if err := rows.Scan(&id, &data); err != nil {
				return err
			}
			waiting[id] = data
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("reading bundles: %w", err)
	}
	for id, data := range waiting {
		if err := a.writeFolder(id, data); err != nil {
			return fmt.Errorf("writing the files of an agreement: %w", err)
		}
		if err := exec(ctx, a.db, `UPDATE agent_artifacts SET written_at = $1 WHERE agreement_id = $2`, a.now().Unix(), id); err != nil {
			return fmt.Errorf("noting written files: %w", err)
		}
		a.feed.poke()
	}
	return nil
}

// writeFolder makes the whole folder beside its place and renames it there, so
// that it is either complete or absent.
func (a *Agent) writeFolder(id string, data []byte) error {
	bundle := new(agreement.Bundle)
	if err := canonical.Decode(data, bundle); err != nil {
		return err
	}
	files := map[string][]byte{
		"revision.json": []byte(bundle.Revision),
		"revision.md":   []byte(bundle.Markdown),
		"bundle.json":   data,
	}
	if bundle.Consensus != "" {
		files["CONSENSUS.md"] = []byte(bundle.Consensus)
	}
	place := a.folder(id)
	if complete(place, files) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(place), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	for name, content := range files {
		if err := durable.WriteNew(filepath.Join(temporary, name), content); err != nil {
			return err
		}
	}
	if err := durable.SyncFolder(temporary); err != nil {
		return err
	}
	if exists(place) { // somebody else's leftovers: keep them aside
		if err := os.Rename(place, temporary+"-old"); err != nil {
			return err
		}
	}
	if err := os.Rename(temporary, place); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(place))
}

// complete reports whether a folder holds exactly these bytes already.
func complete(place string, files map[string][]byte) bool {
	for name, content := range files {
		data, err := os.ReadFile(filepath.Join(place, name))
		if err != nil || !bytes.Equal(data, content) {
			return false
		}
	}
	return true
}
