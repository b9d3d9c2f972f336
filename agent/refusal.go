package agent

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// Refusal is one thing that failed a check and was not applied.
type Refusal struct {
	At          canonical.Time `json:"at"`
	Sender      string         `json:"sender"` // hex key that sent it
	AgreementID string         `json:"agreement_id,omitempty"`
	Reason      string         `json:"reason"` // the label of parley_agent_refusals_total
	Detail      string         `json:"detail"`
}

// RefusalsResponse lists refusals, the newest first, at most a hundred.
type RefusalsResponse struct {
	Refusals []Refusal `json:"refusals"`
}

// Refusals lists what was refused.
func (a *Agent) Refusals(ctx context.Context, _ Empty) (*RefusalsResponse, error) {
	response := &RefusalsResponse{Refusals: []Refusal{}}
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		response.Refusals, err = refusals(ctx, tx, "")
		return err
	})
	return response, err
}

// refusals reads those about one agreement, or about anything for "".
func refusals(ctx context.Context, tx *sql.Tx, id string) ([]Refusal, error) {
	rows, err := tx.QueryContext(ctx, `SELECT at, sender, agreement_id, reason, detail FROM agent_refusals
		WHERE $1 = '' OR agreement_id = $2 ORDER BY n DESC LIMIT 100`, id, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Refusal{}
	for rows.Next() {
		var r Refusal
		var at int64
		if err := rows.Scan(&at, &r.Sender, &r.AgreementID, &r.Reason, &r.Detail); err != nil {
			return nil, err
		}
		r.At = canonical.At(time.Unix(at, 0))
		list = append(list, r)
	}
	return list, rows.Err()
}

// refuse counts, logs and stores that something of m failed a check. The
// message counts as processed: a second look would end the same way.
func (a *Agent) refuse(ctx context.Context, tx *sql.Tx, m *message.Message, id, reason string, cause error) error {
	detail := strings.ToValidUTF8(cause.Error(), "?")
	if len(detail) > 500 {
		detail = strings.ToValidUTF8(detail[:500], "")
	}
	a.metrics.refusals.WithLabelValues(reason).Inc()
	a.log.WarnContext(ctx, "refused", "reason", reason, "type", m.Type, "message_id", m.ID, "sender", m.From, "err", cause)
	_, err := tx.ExecContext(ctx, `INSERT INTO agent_refusals (at, sender, agreement_id, reason, detail)
		VALUES ($1, $2, $3, $4, $5)`, a.now().Unix(), m.From, id, reason, detail)
	if err != nil {
		return fmt.Errorf("storing a refusal: %w", err)
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM agent_refusals WHERE n <= (SELECT max(n) FROM agent_refusals) - $1`, keptNotices)
	if err != nil {
		return fmt.Errorf("bounding the refusals: %w", err)
	}
	return a.note(ctx, tx, Notice{Kind: NoticeRefused, Peer: m.From, ID: m.ID, AgreementID: id})
}
