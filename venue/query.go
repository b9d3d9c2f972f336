package venue

import (
	"context"
	"database/sql"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/agreement"
)

// PageEvents is the most events one query is answered with. Page.Head tells
// whether there are more.
const PageEvents = 100

// QueryRequest asks for a room's events.
type QueryRequest struct {
	Caller      Caller
	AgreementID string
	From        int64 // first seq wanted; 0 is the whole room from its invite on
}

// Page answers a query: a Refusal, or a part of the room.
type Page struct {
	AgreementID string
	Refusal     *agreement.Refusal

	Revision  string       // canonical bytes; only for From 0
	Signature *nostr.Event // the initiator's; only for From 0
	Events    [][]byte     // canonical event/v1, in order from From on, at most PageEvents
	Head      []byte       // the newest event of the room
	Outcome   string
	Bundle    string // canonical bundle/v1 of a closed room, on the page with its last event
}

// Query reads a room for one of its members. A caller without a part in the
// room gets the same refusal as for a room that does not exist. Answers are
// rationed by their number of messages; who has used up its ration gets
// agreement.CodeCap.
func (v *Venue) Query(ctx context.Context, tx *sql.Tx, req QueryRequest) (*Page, error) {
	page, err := v.query(ctx, tx, req)
	if err != nil {
		return nil, err
	}
	result := resultAccepted
	if page.Refusal != nil {
		result = page.Refusal.Code
	}
	v.metrics.queries.WithLabelValues(result).Inc()
	return page, nil
}

func (v *Venue) query(ctx context.Context, tx *sql.Tx, req QueryRequest) (*Page, error) {
	r, participant, err := v.enter(ctx, tx, req.AgreementID, req.Caller)
	if err != nil {
		return refusedPage(req.AgreementID, err)
	}
	if err := v.settle(ctx, tx, r); err != nil {
		return nil, err
	}
	page, err := v.read(ctx, tx, r, req.From)
	if err != nil {
		return nil, err
	}
	if !v.ration.take(r.agreement+"/"+participant, page.messages(), v.now()) {
		return refusedPage(req.AgreementID, refuse(agreement.CodeCap, "too many queries: ask again later"))
	}
	return page, nil
}

// read collects the page that starts at event from.
func (v *Venue) read(ctx context.Context, tx *sql.Tx, r *record, from int64) (*Page, error) {
	page := &Page{AgreementID: r.agreement, Outcome: r.outcome}
	var err error
	var last int64
	if page.Head, last, err = v.store.lastEvent(ctx, tx, r.agreement); err != nil {
		return nil, err
	}
	if page.Events, err = v.store.events(ctx, tx, r.agreement, from, PageEvents); err != nil {
		return nil, err
	}
	if from == 0 {
		if err := v.readInvite(ctx, tx, page); err != nil {
			return nil, err
		}
	}
	if max(from, 1)+int64(len(page.Events)) > last && r.outcome != agreement.OutcomePending {
		if page.Bundle, err = v.store.bundle(ctx, tx, r.agreement); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// readInvite adds the revision and the signature in the room's first event.
func (v *Venue) readInvite(ctx context.Context, tx *sql.Tx, page *Page) (err error) {
	if page.Revision, err = v.store.revision(ctx, tx, page.AgreementID); err != nil {
		return err
	}
	data, err := v.store.event(ctx, tx, page.AgreementID, 1)
	if err != nil {
		return err
	}
	first, err := agreement.ParseEvent(data)
	if err != nil || first.Signature == nil {
		return broken("first event without a signature")
	}
	signature := first.Signature.Event()
	page.Signature = &signature
	return nil
}

// messages is how many messages the page takes.
func (p *Page) messages() int {
	n := len(p.Events) + 1
	if p.Revision != "" {
		n++
	}
	if p.Bundle != "" {
		n += 1 + len(p.Bundle)/bundlePerMessage
	}
	return n
}

// bundlePerMessage is about how much of a bundle one event's worth of sending
// carries.
const bundlePerMessage = 16 << 10

func refusedPage(id string, err error) (*Page, error) {
	result, err := refused(id, err)
	if err != nil {
		return nil, err
	}
	return &Page{AgreementID: id, Refusal: result.Refusal}, nil
}
