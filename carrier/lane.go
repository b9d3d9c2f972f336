package carrier

import (
	"context"
	"database/sql"
	"strings"

	"github.com/parleykit/parley/protocol/message"
)

// Lanes of the outbox: what waits in a lower one leaves first.
const (
	laneAnswers   = iota // ack, nack, error: the other side waits for them
	laneAgreement        // agreement.*: a deadline runs
	laneBulk             // everything else
	lanes
)

func laneOf(typ string) int {
	switch {
	case message.Types[typ].Unanswered:
		return laneAnswers
	case strings.HasPrefix(typ, "agreement."):
		return laneAgreement
	}
	return laneBulk
}

// share is the part of a batch that each lane gets when it has that much to
// send, so that no lane starves.
const share = 4

// dueInLanes finds up to limit due messages, by lane and in each lane the
// longest due first; every lane gets a share of them. The outbox rows in skip
// are passed over.
func dueInLanes(ctx context.Context, tx *sql.Tx, nowMs int64, limit int, skip map[int64]bool) ([]int64, error) {
	var due [lanes][]int64
	for lane := range lanes {
		rows, err := tx.QueryContext(ctx, `SELECT seq FROM carrier_outbox WHERE lane = $1 AND due_ms <= $2
			ORDER BY due_ms, seq LIMIT $3`, lane, nowMs, limit+len(skip))
		if err != nil {
			return nil, err
		}
		found, err := scanAll(rows, scanSeq)
		if err != nil {
			return nil, err
		}
		for _, seq := range found {
			if !skip[seq] {
				due[lane] = append(due[lane], seq)
			}
		}
	}
	return mergeLanes(due, limit), nil
}

// mergeLanes takes up to limit messages from the lanes.
func mergeLanes(due [lanes][]int64, limit int) (all []int64) {
	left := limit
	for lane, waiting := range due {
		reserved := 0
		for _, lower := range due[lane+1:] {
			reserved += min(len(lower), limit/share)
		}
		n := min(len(waiting), max(left-reserved, 0))
		all = append(all, waiting[:n]...)
		left -= n
	}
	return all
}
