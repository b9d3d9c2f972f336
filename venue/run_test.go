package venue_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

// running starts Run and returns what ends it.
func running(t *testing.T, v *venue.Venue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// woken is an outbox that tells of each Wake.
type woken struct {
	outbox
	wakes chan struct{}
}

func (w *woken) Wake() { w.wakes <- struct{}{} }

func TestRun_closesRoomsWhenTheClockReachesTheirDeadline(t *testing.T) {
	h := newHouse(t)
	out := &woken{wakes: make(chan struct{}, 16)}
	h.venue = h.newVenue(func(o *venue.Options) { o.Outbox = out })
	early := h.open(h.newParty(2))
	late := h.open(h.newParty(2, func(x *agreement.Terms) { x.Deadline = h.clock.now().Add(48 * time.Hour) }))
	running(t, h.venue)
	h.clock.set(early.a.Deadline.Time)
	h.venue.Wake()
	<-out.wakes
	if got := h.stored(early.a.AgreementID).Outcome(); got != agreement.OutcomeExpired {
		t.Errorf("room at its deadline is %s", got)
	}
	if got := h.stored(late.a.AgreementID).Outcome(); got != agreement.OutcomePending {
		t.Errorf("room before its deadline is %s", got)
	}
	h.clock.set(late.a.Deadline.Time)
	h.venue.Wake()
	<-out.wakes
	h.bundleOf(late.a.AgreementID)
}

// The timer is a real one: a room whose deadline is a moment ahead closes
// without anybody asking.
func TestRun_waitsForTheNextDeadlineByItself(t *testing.T) {
	h := newHouse(t)
	out := &woken{wakes: make(chan struct{}, 16)}
	h.venue = h.newVenue(func(o *venue.Options) { o.Outbox, o.Now = out, time.Now })
	h.clock.set(time.Now())
	running(t, h.venue) // before the room is there
	h.open(h.newParty(2, func(x *agreement.Terms) { x.Deadline = time.Now().Add(2 * time.Second) }))
	<-out.wakes
}

func TestRun_catchesUpAfterARestart(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	h.clock.set(p.a.Deadline.Add(72 * time.Hour))
	out := &woken{wakes: make(chan struct{}, 16)}
	running(t, h.newVenue(func(o *venue.Options) { o.Outbox = out }))
	<-out.wakes
	h.bundleOf(p.a.AgreementID)
}

func TestRun_isRefusedTwice(t *testing.T) {
	h := newHouse(t)
	out := &woken{wakes: make(chan struct{}, 16)}
	h.venue = h.newVenue(func(o *venue.Options) { o.Outbox = out })
	p := h.open(h.newParty(2))
	h.clock.set(p.a.Deadline.Time)
	stop := running(t, h.venue)
	<-out.wakes // it runs
	if err := h.venue.Run(t.Context()); !errors.Is(err, venue.ErrRunning) {
		t.Errorf("second Run: %v", err)
	}
	stop()
}

// tamper changes a stored event behind the venue's back.
func (h *house) tamper(id string) {
	h.t.Helper()
	h.tx(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE venue_events SET event = replace(event, 'hello', 'hullo') WHERE agreement = $1", id)
		return err
	})
}

func TestExpireDue_oneBrokenRoomDoesNotHoldTheOthers(t *testing.T) {
	h := newHouse(t)
	broken, sound := h.open(h.newParty(2)), h.open(h.newParty(2))
	wantAccepted(t, h.do(broken, "p1", agreement.ActionComment, "hello"))
	h.tamper(broken.a.AgreementID)
	h.venue = h.newVenue() // with nothing remembered
	h.clock.set(sound.a.Deadline.Time)
	for _, want := range []int{1, 0} {
		if n, err := h.venue.ExpireDue(t.Context()); n != want || err != nil {
			t.Fatalf("ExpireDue = %d, %v; want %d", n, err, want)
		}
	}
	h.bundleOf(sound.a.AgreementID)
}

func TestHandle_aRoomThatWasTamperedWithIsLeftAlone(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p1", agreement.ActionComment, "hello"))
	h.tamper(p.a.AgreementID)
	h.venue = h.newVenue()
	cmd := h.request(p, "p1", agreement.ActionAgree, "")
	in := h.incoming(p.keys["p1"].PublicKey(), message.AgreementCommand{Command: cmd.Command, Key: cmd.Key, Signature: cmd.Signature})
	err := h.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return h.venue.Handle(ctx, tx, in) })
	if !errors.Is(err, venue.ErrBroken) || !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("err %v", err)
	}
}

func TestRun_removesWhatHasOutlivedItsTime(t *testing.T) {
	h := newHouse(t)
	closed, open := h.open(h.newParty(2)), h.open(h.newParty(2, func(x *agreement.Terms) {
		x.Deadline = h.clock.now().Add(20 * 24 * time.Hour)
	}))
	wantAccepted(t, h.do(closed, "p1", agreement.ActionDisagree, ""))
	wantAccepted(t, h.do(open, "p1", agreement.ActionComment, "x"))
	rows := func(query string) (n int) {
		t.Helper()
		h.tx(func(ctx context.Context, tx *sql.Tx) error { return tx.QueryRowContext(ctx, query).Scan(&n) })
		return n
	}
	sweep := func() {
		out := &woken{wakes: make(chan struct{}, 16)}
		v := h.newVenue(func(o *venue.Options) { o.Outbox, o.Keep = out, 10*24*time.Hour })
		stop := running(t, v)
		for range 2 { // the end of the second marker shows that the first round is over
			marker := h.open(h.newParty(2, func(x *agreement.Terms) { x.Deadline = h.clock.now().Add(time.Second) }))
			h.clock.set(marker.a.Deadline.Time)
			v.Wake()
			<-out.wakes
		}
		stop()
	}
	sweep()
	if n := rows("SELECT count(*) FROM idempotency"); n != 2 || rows("SELECT count(*) FROM venue_rooms") != 4 {
		t.Errorf("%d keys: something was removed too early", n)
	}
	h.clock.advance(11 * 24 * time.Hour)
	sweep()
	for _, table := range []string{"venue_rooms", "venue_events", "venue_members"} {
		if n := rows("SELECT count(*) FROM " + table + " WHERE agreement = '" + closed.a.AgreementID + "'"); n != 0 {
			t.Errorf("%s: %d rows of a room past its time", table, n)
		}
	}
	if n := rows("SELECT count(*) FROM venue_rooms WHERE agreement = '" + open.a.AgreementID + "'"); n != 1 {
		t.Error("an open room was removed for its age")
	}
	h.clock.set(start.Add(24*time.Hour + 32*24*time.Hour))
	sweep()
	if n := rows("SELECT count(*) FROM idempotency WHERE scope LIKE 'venue/" + closed.a.AgreementID + "%'"); n != 0 {
		t.Errorf("%d keys past their time", n)
	}
	if n := rows("SELECT count(*) FROM idempotency WHERE scope LIKE 'venue/" + open.a.AgreementID + "%'"); n != 1 {
		t.Errorf("%d keys of the longer room, want 1", n)
	}
}

func TestMetrics_areCleanAndCountRooms(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h := newHouse(t)
	h.venue = h.newVenue(func(o *venue.Options) { o.Registerer = reg })
	p := h.open(h.newParty(2))
	h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAbstain, ""))
	wantRefusal(t, h.do(p, "p2", agreement.ActionAgree, ""), agreement.CodeClosed)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	values := gather(t, reg)
	for series, want := range map[string]float64{
		"parley_venue_rooms/no_consensus":              1,
		"parley_venue_rooms/pending":                   1,
		"parley_venue_rooms/reached":                   0,
		"parley_venue_rooms_closed_total/no_consensus": 1,
		"parley_venue_commands_total/abstain/accepted": 1,
		"parley_venue_commands_total/agree/closed":     1,
		"parley_venue_commands_total/agree/replayed":   0,
		"parley_venue_proposals_total/accepted":        2,
	} {
		if got, there := values[series]; !there || got != want {
			t.Errorf("%s = %v (%v), want %v", series, got, there, want)
		}
	}
}

// gather reads a registry as name/label values to value.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += "/" + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestClose_endsARoomThatStandsOpenPastItsDeadlineAndNoOther(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(3))
	id := p.a.AgreementID
	if _, err := h.venue.Close(t.Context(), id); !errors.Is(err, venue.ErrNotDue) || h.stored(id).Outcome() != agreement.OutcomePending {
		t.Fatalf("Close before the deadline: %v, the room is %s", err, h.stored(id).Outcome())
	}
	h.clock.set(p.a.Deadline.Time)
	h.outbox.drain()
	for range 2 {
		if outcome, err := h.venue.Close(t.Context(), id); err != nil || outcome != agreement.OutcomeExpired {
			t.Fatalf("Close = %q, %v", outcome, err)
		}
	}
	want := make(map[string]int)
	for _, name := range []string{"p1", "p2", "p3"} {
		want[message.TypeAgreementEvent+" "+name], want[message.TypeAgreementArtifact+" "+name] = 1, 1
	}
	if diff := cmp.Diff(want, tally(h.outbox.drain(), p.names())); diff != "" {
		t.Errorf("members were sent (-want +got): %s", diff)
	}
	if report := h.bundleOf(id); report.Outcome != agreement.OutcomeExpired {
		t.Errorf("the bundle tells %s", report.Outcome)
	}
	if _, err := h.venue.Close(t.Context(), "unknown"); !errors.Is(err, venue.ErrNoRoom) {
		t.Errorf("Close of an unknown room: %v", err)
	}
}
