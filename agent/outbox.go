package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
)

// OutboxRequest asks for what was sent; All for what is acknowledged too.
type OutboxRequest struct {
	All bool `json:"all,omitempty"`
}

// Queued is one message on its way, or one that did not arrive.
type Queued struct {
	N         int64          `json:"n"` // names it to outbox.requeue and outbox.purge
	ID        string         `json:"id"`
	To        string         `json:"to"`
	NPub      string         `json:"npub"`
	Name      string         `json:"name,omitempty"` // petname
	Type      string         `json:"type"`
	State     string         `json:"state"`            // queued, sent, acked, expired or dead
	Reason    string         `json:"reason,omitempty"` // why it is not further
	Tried     int            `json:"tried"`            // times it was sent
	SentAt    canonical.Time `json:"sent_at"`          // by its author
	ExpiresAt canonical.Time `json:"expires_at"`
}

// OutboxResponse lists messages, the newest last, at most 500.
type OutboxResponse struct {
	Messages []Queued `json:"messages"`
}

// OutboxChange names one message, or all that are dead.
type OutboxChange struct {
	N   int64 `json:"n,omitempty"`
	All bool  `json:"all,omitempty"`
}

// OutboxChanged says how many messages were changed.
type OutboxChanged struct {
	Count int `json:"count"`
}

// Outbox lists what is on its way and what failed.
func (a *Agent) Outbox(ctx context.Context, q OutboxRequest) (*OutboxResponse, error) {
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	filter := carrier.OutboxFilter{States: []carrier.State{
		carrier.StateQueued, carrier.StateSent, carrier.StateExpired, carrier.StateDead,
	}}
	if q.All {
		filter.States = nil
	}
	rows, err := link.engine.Outbox(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	r := &OutboxResponse{Messages: []Queued{}}
	for _, row := range rows {
		m := Queued{
			N: row.Seq, ID: row.Message.ID, To: row.Recipient, NPub: npub(row.Recipient), Type: row.Message.Type,
			State: string(row.State), Reason: row.Reason, Tried: row.Rounds,
			SentAt: row.Message.SentAt, ExpiresAt: row.Message.ExpiresAt,
		}
		if c, err := link.engine.Contact(ctx, row.Recipient); err == nil {
			m.Name = c.Name
		}
		r.Messages = append(r.Messages, m)
	}
	return r, nil
}

// Requeue gives dead messages another chance at every address.
func (a *Agent) Requeue(ctx context.Context, q OutboxChange) (*OutboxChanged, error) {
	changed, err := a.changeOutbox(ctx, q, "dead", []carrier.State{carrier.StateDead}, (*carrier.Engine).Requeue)
	if err == nil {
		a.flush(ctx)
	}
	return changed, err
}

// Purge deletes messages that are dead or expired.
func (a *Agent) Purge(ctx context.Context, q OutboxChange) (*OutboxChanged, error) {
	states := []carrier.State{carrier.StateDead, carrier.StateExpired}
	return a.changeOutbox(ctx, q, "dead or expired", states, (*carrier.Engine).Purge)
}

func (a *Agent) changeOutbox(ctx context.Context, q OutboxChange, which string, states []carrier.State,
	change func(*carrier.Engine, context.Context, int64) error,
) (*OutboxChanged, error) {
	if q.All == (q.N != 0) {
		return nil, invalid("name one message by its number, or all")
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	numbers := []int64{q.N}
	if q.All {
		rows, err := link.engine.Outbox(ctx, carrier.OutboxFilter{States: states, Acks: true})
		if err != nil {
			return nil, fmt.Errorf("reading the outbox: %w", err)
		}
		numbers = nil
		for _, row := range rows {
			numbers = append(numbers, row.Seq)
		}
	}
	changed := &OutboxChanged{}
	for _, n := range numbers {
		err := change(link.engine, ctx, n)
		if errors.Is(err, carrier.ErrNotFound) {
			if q.All {
				continue // it changed meanwhile
			}
			return nil, notFound("message %d is not %s", n, which).hint("parley outbox list shows the numbers")
		}
		if err != nil {
			return nil, fmt.Errorf("changing the outbox: %w", err)
		}
		changed.Count++
	}
	return changed, nil
}
