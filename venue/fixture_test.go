package venue_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

const origin = "https://parley.example"

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// clock is set by hand.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.set(start)
	return c
}
func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.at.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// outbox collects what the venue sends, also in transactions rolled back later.
type outbox struct {
	mu   sync.Mutex
	sent []*message.Message
	fail error
}

func (o *outbox) SendTx(_ context.Context, _ *sql.Tx, m *message.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return o.fail
	}
	if _, err := m.Encode(); err != nil {
		return err
	}
	o.sent = append(o.sent, m)
	return nil
}

func (o *outbox) Wake() {}

// drain returns what was sent since the last call.
func (o *outbox) drain() []*message.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.sent
	o.sent = nil
	return sent
}

// counts of messages by "type to".
func tally(sent []*message.Message, names map[string]string) map[string]int {
	counts := make(map[string]int)
	for _, m := range sent {
		counts[m.Type+" "+names[m.To]]++
	}
	return counts
}

// house is a venue with its database and clock.
type house struct {
	t      testing.TB
	db     *database.DB
	key    *keys.Nostr
	clock  *clock
	outbox *outbox
	venue  *venue.Venue
}

func newHouse(t testing.TB, adjust ...func(*venue.Options)) *house {
	t.Helper()
	h := &house{t: t, db: databasetest.Open(t), key: newKey(t), clock: newClock(), outbox: new(outbox)}
	h.venue = h.newVenue(adjust...)
	return h
}

// newVenue makes another venue on the same database, as after a restart.
func (h *house) newVenue(adjust ...func(*venue.Options)) *venue.Venue {
	h.t.Helper()
	o := venue.Options{
		DB: h.db, Outbox: h.outbox, Key: h.key, Origin: origin, Now: h.clock.now,
		Hosts: func(context.Context, string) bool { return true },
	}
	for _, a := range adjust {
		a(&o)
	}
	v, err := venue.New(h.t.Context(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

func newKey(t testing.TB) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// party is an agreement with the keys of its participants.
type party struct {
	a    *agreement.Agreement
	keys map[string]*keys.Nostr // by participant id
	seq  int                    // for idempotency keys
}

func (h *house) newParty(n int, adjust ...func(*agreement.Terms)) *party {
	h.t.Helper()
	p := &party{keys: make(map[string]*keys.Nostr)}
	terms := agreement.Terms{
		Origin: origin, Venue: h.key.PublicKey(), Title: "Deploy", Objective: "Deploy on Friday.",
		Must: []string{"run the tests"}, MustNot: []string{"skip review"}, Deadline: h.clock.now().Add(24 * time.Hour),
	}
	for i := range n {
		key := newKey(h.t)
		p.keys[fmt.Sprintf("p%d", i+1)] = key
		terms.Participants = append(terms.Participants, agreement.Participant{Kind: agreement.KindAgent, PubKey: key.PublicKey()})
	}
	for _, a := range adjust {
		a(&terms)
	}
	a, err := agreement.New(terms, h.clock.now())
	if err != nil {
		h.t.Fatal(err)
	}
	p.a = a
	return p
}

// names tells the participants' ids by their keys.
func (p *party) names() map[string]string {
	names := make(map[string]string)
	for id, key := range p.keys {
		names[key.PublicKey()] = id
	}
	return names
}

func (h *house) proposal(p *party) venue.ProposeRequest {
	h.t.Helper()
	revision, err := p.a.Canonical()
	if err != nil {
		h.t.Fatal(err)
	}
	return venue.ProposeRequest{
		Initiator: p.keys["p1"].PublicKey(), Revision: revision, Signature: h.sign(p, "p1", agreement.ActionPropose, ""),
	}
}

func (h *house) sign(p *party, id, action, body string) nostr.Event {
	h.t.Helper()
	sig, err := agreement.Sign(p.a, p.a.Digest(), action, body, p.keys[id], h.clock.now())
	if err != nil {
		h.t.Fatal(err)
	}
	return sig
}

// open proposes p and requires that it is accepted.
func (h *house) open(p *party) *party {
	h.t.Helper()
	if result := h.propose(h.proposal(p)); result.Refusal != nil {
		h.t.Fatalf("proposal refused: %v", result.Refusal)
	}
	return p
}

func (h *house) propose(req venue.ProposeRequest) (result *venue.Result) {
	h.t.Helper()
	h.tx(func(ctx context.Context, tx *sql.Tx) (err error) {
		result, err = h.venue.Propose(ctx, tx, req)
		return err
	})
	return result
}

// request is a signed command of a participant with a fresh key.
func (h *house) request(p *party, id, action, body string) venue.CommandRequest {
	h.t.Helper()
	p.seq++
	data, err := agreement.NewCommand(p.a, id, action, body).Canonical()
	if err != nil {
		h.t.Fatal(err)
	}
	sig := h.sign(p, id, action, body)
	return venue.CommandRequest{
		Caller: venue.Caller{PubKey: p.keys[id].PublicKey()}, Key: fmt.Sprintf("key-%s-%05d", id, p.seq),
		Command: data, Signature: &sig,
	}
}

func (h *house) command(req venue.CommandRequest) (result *venue.Result) {
	h.t.Helper()
	h.tx(func(ctx context.Context, tx *sql.Tx) (err error) {
		result, err = h.venue.Command(ctx, tx, req)
		return err
	})
	return result
}

// do is command of request.
func (h *house) do(p *party, id, action, body string) *venue.Result {
	h.t.Helper()
	return h.command(h.request(p, id, action, body))
}

func (h *house) query(key *keys.Nostr, id string, from int64) (page *venue.Page) {
	h.t.Helper()
	h.tx(func(ctx context.Context, tx *sql.Tx) (err error) {
		page, err = h.venue.Query(ctx, tx, venue.QueryRequest{
			Caller: venue.Caller{PubKey: key.PublicKey()}, AgreementID: id, From: from,
		})
		return err
	})
	return page
}

func (h *house) tx(fn database.Func) {
	h.t.Helper()
	if err := h.db.Tx(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// stored replays the events in the database under all rules of a room.
func (h *house) stored(id string) *agreement.Room {
	h.t.Helper()
	room, err := storedRoom(h.t.Context(), h.db, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return room
}

func storedRoom(ctx context.Context, db *database.DB, id string) (room *agreement.Room, err error) {
	err = db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var revision string
		if err := tx.QueryRowContext(ctx, "SELECT revision FROM venue_rooms WHERE agreement = $1", id).Scan(&revision); err != nil {
			return err
		}
		a, err := agreement.ParseAgreement([]byte(revision))
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT event FROM venue_events WHERE agreement = $1 ORDER BY seq", id)
		if err != nil {
			return err
		}
		defer rows.Close()
		var events []agreement.Event
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			e, err := agreement.ParseEvent([]byte(text))
			if err != nil {
				return err
			}
			events = append(events, *e)
		}
		room, err = agreement.Replay(a, events)
		return err
	})
	return room, err
}

// bundleOf reads the stored bundle and verifies it.
func (h *house) bundleOf(id string) *agreement.Report {
	h.t.Helper()
	var bundle string
	err := h.db.View(h.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT bundle FROM venue_rooms WHERE agreement = $1", id).Scan(&bundle)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	report, err := agreement.Verify([]byte(bundle))
	if err != nil {
		h.t.Fatal(err)
	}
	return report
}

func wantRefusal(t testing.TB, result *venue.Result, code string) {
	t.Helper()
	switch {
	case result.Refusal == nil:
		t.Errorf("accepted, want refusal %s", code)
	case result.Refusal.Code != code:
		t.Errorf("refused with %q (%s), want %q", result.Refusal.Code, result.Refusal.Detail, code)
	case result.Event != nil:
		t.Error("a refusal carries an event")
	}
}

func wantAccepted(t testing.TB, result *venue.Result) {
	t.Helper()
	if result.Refusal != nil {
		t.Fatalf("refused: %v", result.Refusal)
	}
}
