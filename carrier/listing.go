package carrier

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleykit/parley/protocol/message"
)

// State is where a stored message stands.
type State string

// States of the inbox.
const (
	StateRequest  State = "request"  // of a stranger, waits for Accept or Reject
	StatePending  State = "pending"  // to be processed
	StateDone     State = "done"     // processed
	StateFailed   State = "failed"   // cannot be processed; Reason says why
	StateRejected State = "rejected" // put aside by Reject
)

// States of the outbox.
const (
	StateQueued  State = "queued"  // no carrier has taken all of it yet
	StateSent    State = "sent"    // a carrier has taken it; a contact's ack is awaited
	StateAcked   State = "acked"   // the recipient has stored it
	StateExpired State = "expired" // not acknowledged in time
	StateDead    State = "dead"    // every address refused it for good; Reason says why
)

// InboxStates and OutboxStates are all states of the two boxes.
var (
	InboxStates  = []State{StateRequest, StatePending, StateDone, StateFailed, StateRejected}
	OutboxStates = []State{StateQueued, StateSent, StateAcked, StateExpired, StateDead}
)

// Message is one row of the inbox, which holds the request box too. It is kept
// until three days after the message's expiry.
type Message struct {
	Seq        int64            `json:"seq"`    // grows with arrival
	Sender     string           `json:"sender"` // hex
	Scheme     string           `json:"scheme"` // of the carrier that brought it first
	State      State            `json:"state"`
	Reason     string           `json:"reason"`   // of StateFailed, or of the last attempt to process it
	Stranger   bool             `json:"stranger"` // when it arrived, unless accepted since
	Attempts   int              `json:"attempts"` // failed ones to process it
	ReceivedAt time.Time        `json:"received_at"`
	Message    *message.Message `json:"message"`
}

// InboxFilter selects rows; the zero value selects all.
type InboxFilter struct {
	Sender, Type, Thread, MessageID string
	States                          []State
	After                           int64 // rows with a greater Seq
	Limit                           int   // of 1 to MaxList; 0 is MaxList
	Newest                          bool  // newest first and, under a limit, the newest ones
}

// MaxList is the most rows one call of Inbox or Outbox returns.
const MaxList = 500

const messageColumns = `SELECT seq, sender, scheme, state, reason, stranger, attempts, received_at, message FROM carrier_inbox`

func scanMessage(rows *sql.Rows) (*Message, error) {
	var row Message
	var received int64
	var data []byte
	err := rows.Scan(&row.Seq, &row.Sender, &row.Scheme, &row.State, &row.Reason, &row.Stranger, &row.Attempts, &received, &data)
	if err != nil {
		return nil, err
	}
	row.ReceivedAt = unixTime(received)
	row.Message, err = message.Parse(data)
	return &row, err
}

// Inbox lists received messages, in the order of arrival unless Newest is set.
func (e *Engine) Inbox(ctx context.Context, f InboxFilter) (found []*Message, err error) {
	var q selection
	q.equal("sender", f.Sender)
	q.equal("type", f.Type)
	q.equal("thread", f.Thread)
	q.equal("message_id", f.MessageID)
	q.states(f.States)
	q.after(f.After)
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, messageColumns+q.clause(f.Newest, f.Limit), q.args...)
		if err != nil {
			return err
		}
		found, err = scanAll(rows, scanMessage)
		return err
	})
	return found, err
}

func inboxMessage(ctx context.Context, tx *sql.Tx, seq int64) (*Message, error) {
	rows, err := tx.QueryContext(ctx, messageColumns+" WHERE seq = $1", seq)
	if err != nil {
		return nil, err
	}
	found, err := scanAll(rows, scanMessage)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

const incomingColumns = `SELECT seq, sender, scheme, stranger, received_at, message FROM carrier_inbox`

func scanIncoming(rows *sql.Rows) (*Incoming, error) {
	var in Incoming
	var received int64
	var data []byte
	if err := rows.Scan(&in.Seq, &in.Sender, &in.Scheme, &in.Stranger, &received, &data); err != nil {
		return nil, err
	}
	in.ReceivedAt = unixTime(received)
	var err error
	in.Message, err = message.Parse(data)
	return &in, err
}

// Outgoing is one row of the outbox.
type Outgoing struct {
	Seq        int64            `json:"seq"`       // grows with Send
	Recipient  string           `json:"recipient"` // hex
	State      State            `json:"state"`
	Reason     string           `json:"reason"` // why it is not further yet, or never will be
	Rounds     int              `json:"rounds"` // times it was sent, or no address was found
	CreatedAt  time.Time        `json:"created_at"`
	SentAt     time.Time        `json:"sent_at"`  // when a carrier took all of it last; zero for never
	AckedAt    time.Time        `json:"acked_at"` // zero for never
	NextAt     time.Time        `json:"next_at"`  // of the next attempt; zero when none is left
	Message    *message.Message `json:"message"`
	Deliveries []Delivery       `json:"deliveries"` // one for each address tried so far
}

// Delivery is how one address took a message.
type Delivery struct {
	Scheme   string `json:"scheme"`
	Address  string `json:"address"`
	State    State  `json:"state"`    // queued, sent or dead
	Reason   string `json:"reason"`   // of the last failure
	Attempts int    `json:"attempts"` // failed ones since the last success
}

// OutboxFilter selects rows; the zero value selects all but acks.
type OutboxFilter struct {
	Recipient, Type, MessageID string
	States                     []State
	After                      int64 // rows with a greater Seq
	Limit                      int   // of 1 to MaxList; 0 is MaxList
	Newest                     bool  // newest first and, under a limit, the newest ones
	Acks                       bool  // acks too
}

const outgoingColumns = `SELECT seq, recipient, state, reason, rounds, created_at, sent_ms, acked_at, due_ms, message FROM carrier_outbox`

func scanOutgoing(rows *sql.Rows) (*Outgoing, error) {
	var row Outgoing
	var created, sent, acked int64
	var due sql.NullInt64
	var data []byte
	err := rows.Scan(&row.Seq, &row.Recipient, &row.State, &row.Reason, &row.Rounds, &created, &sent, &acked, &due, &data)
	if err != nil {
		return nil, err
	}
	row.CreatedAt, row.SentAt, row.AckedAt, row.NextAt = unixTime(created), milliTime(sent), unixTime(acked), milliTime(due.Int64)
	row.Message, err = message.Parse(data)
	return &row, err
}

// Outbox lists sent messages, in the order of Send unless Newest is set. A row
// is kept until Options.Keep after the message's expiry.
func (e *Engine) Outbox(ctx context.Context, f OutboxFilter) (found []*Outgoing, err error) {
	var q selection
	q.equal("recipient", f.Recipient)
	q.equal("type", f.Type)
	q.equal("message_id", f.MessageID)
	q.states(f.States)
	q.after(f.After)
	if !f.Acks && f.Type == "" {
		q.where = append(q.where, "type <> 'ack'")
	}
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, outgoingColumns+q.clause(f.Newest, f.Limit), q.args...)
		if err != nil {
			return err
		}
		if found, err = scanAll(rows, scanOutgoing); err != nil {
			return err
		}
		for _, row := range found {
			stored, err := deliveries(ctx, tx, row.Seq)
			if err != nil {
				return err
			}
			for _, d := range stored {
				row.Deliveries = append(row.Deliveries, d.Delivery)
			}
		}
		return nil
	})
	return found, err
}

func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func milliTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
