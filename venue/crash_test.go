package venue_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/venue"
)

// crashCall is one request to the venue that is killed, or its answer.
type crashCall struct {
	N       int // names it
	Propose *venue.ProposeRequest
	Command *venue.CommandRequest
	Result  *venue.Result
	Err     string
}

// TestCrashChild is the venue that the test below kills. It runs every request
// in a transaction of its own, beside the others, and answers after the commit.
// Each life has a later clock, so that an act done twice would show.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	h := crashHouse(t, parent.Args[0], parent.Args[1])
	life, err := strconv.Atoi(parent.Args[2])
	if err != nil {
		t.Fatal(err)
	}
	h.clock.advance(time.Duration(life) * time.Second)
	h.venue = h.newVenue(func(o *venue.Options) { o.DailyCap = 1000 })
	parent.Say("ready")
	for line := range parent.Lines {
		go func() { parent.Say("%s", h.answer(line)) }()
	}
}

// crashHouse is a house on a database that outlives its venue.
func crashHouse(t *testing.T, address, secret string) *house {
	t.Helper()
	key, err := keys.ParseNostr(secret)
	if err != nil {
		t.Fatal(err)
	}
	return &house{
		t: t, db: databasetest.OpenURL(t, address, database.Options{}), key: key, clock: newClock(), outbox: new(outbox),
	}
}

// answer does what a line asks for and returns the line to say.
func (h *house) answer(line string) []byte {
	var call crashCall
	err := json.Unmarshal([]byte(line), &call)
	if err == nil {
		err = h.db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) (err error) {
			if call.Propose != nil {
				call.Result, err = h.venue.Propose(ctx, tx, *call.Propose)
			} else {
				call.Result, err = h.venue.Command(ctx, tx, *call.Command)
			}
			return err
		})
	}
	answer := crashCall{N: call.N, Result: call.Result}
	if err != nil {
		answer.Err = err.Error()
	}
	data, err := json.Marshal(answer)
	if err != nil {
		data = fmt.Appendf(nil, `{"Err":%q}`, err)
	}
	return data
}

// TestVenue_killedAnswersEveryRetryAsBefore kills the venue after a seeded
// number of answers, again and again, while several rooms are decided. The
// client keeps its commands with their keys and repeats them at every restart,
// also those whose answer it saw: the same event comes back, none is written
// twice, none that was told is lost.
func TestVenue_killedAnswersEveryRetryAsBefore(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { killVenues(t, "sqlite:"+filepath.Join(t.TempDir(), "data", "parley.db")) })
	t.Run("postgres", func(t *testing.T) { killVenues(t, databasetest.NewPostgres(t)) })
}

func killVenues(t *testing.T, address string) {
	drill := crashtest.NewDrill(t)
	secret := nostr.GeneratePrivateKey()
	c := &crashClient{t: t, h: crashHouse(t, address, secret), events: make(map[int]string)}
	c.h.clock.advance(5 * time.Minute) // signatures are made after every life's locks
	for point := range drill.Points {
		child := crashtest.Start(t, "TestCrashChild", address, secret, strconv.Itoa(point))
		child.Next(t)
		c.repeat(child, c.open)
		for left := 1 + drill.IntN(20); left > 0; {
			c.fill()
			left = c.wave(child, left)
		}
		time.Sleep(drill.Moment())
		for _, line := range child.Kill(t) {
			c.hear(line)
		}
		if t.Failed() {
			return
		}
	}
	child := crashtest.Start(t, "TestCrashChild", address, secret, strconv.Itoa(drill.Points))
	child.Next(t)
	c.repeat(child, c.rooms)
	for len(c.open) > 0 {
		c.wave(child, math.MaxInt)
	}
	child.Kill(t)
	c.check()
	t.Logf("%d points, %d answers of %d rooms, %d repeated, seed %d",
		drill.Points, len(c.events), len(c.rooms), c.repeated, drill.Seed)
}

// crashRoom is a room with what is still to be asked in it. The requests of
// one stage are sent side by side, those of the next once all are answered.
type crashRoom struct {
	party  *party
	stages [][]crashCall
}

// crashClient keeps all that it asked and what was answered.
type crashClient struct {
	t        *testing.T
	h        *house
	asked    int            // the N of the last request
	events   map[int]string // by N, once answered
	rooms    []*crashRoom
	open     []*crashRoom // of them, those not decided yet
	repeated int
}

// newRoom prepares every request of a room of three.
func (c *crashClient) newRoom() *crashRoom {
	p := c.h.newParty(3)
	proposal := c.h.proposal(p)
	r := &crashRoom{party: p, stages: [][]crashCall{{c.call(crashCall{Propose: &proposal})}}}
	for _, action := range []string{agreement.ActionComment, agreement.ActionAgree} {
		var stage []crashCall
		for _, id := range []string{"p1", "p2", "p3"} {
			body := ""
			if action == agreement.ActionComment {
				body = "still here"
			}
			command := c.h.request(p, id, action, body)
			stage = append(stage, c.call(crashCall{Command: &command}))
		}
		r.stages = append(r.stages, stage)
	}
	return r
}

func (c *crashClient) call(call crashCall) crashCall {
	c.asked++
	call.N = c.asked
	return call
}

// due are the requests that the room is at; none when it is decided.
func (c *crashClient) due(r *crashRoom) (calls []crashCall) {
	for _, stage := range r.stages {
		for _, call := range stage {
			if c.events[call.N] == "" {
				calls = append(calls, call)
			}
		}
		if len(calls) > 0 {
			return calls
		}
	}
	return nil
}

// fill opens rooms until there are four.
func (c *crashClient) fill() {
	for len(c.open) < 4 {
		r := c.newRoom()
		c.rooms, c.open = append(c.rooms, r), append(c.open, r)
	}
}

// wave asks for what is due in all open rooms and hears the answers, at most
// limit of them; it returns how many more of them that would have been.
func (c *crashClient) wave(child *crashtest.Child, limit int) int {
	sent := 0
	for _, r := range c.open {
		for _, call := range c.due(r) {
			c.tell(child, call)
			sent++
		}
	}
	for ; sent > 0; sent-- {
		c.hear(child.Next(c.t))
		if limit--; limit == 0 {
			return 0 // the rest is on its way
		}
	}
	c.open = slices.DeleteFunc(c.open, func(r *crashRoom) bool { return len(c.due(r)) == 0 })
	return limit
}

// repeat asks again for everything in these rooms that was answered before.
func (c *crashClient) repeat(child *crashtest.Child, rooms []*crashRoom) {
	sent := 0
	for _, r := range rooms {
		for _, call := range slices.Concat(r.stages...) {
			if c.events[call.N] != "" {
				c.tell(child, call)
				sent++
			}
		}
	}
	for range sent {
		c.hear(child.Next(c.t))
	}
	c.repeated += sent
}

func (c *crashClient) tell(child *crashtest.Child, call crashCall) {
	data, err := json.Marshal(call)
	if err != nil {
		c.t.Fatal(err)
	}
	child.Tell(string(data))
}

// hear takes an answer. One that was heard before must be the same.
func (c *crashClient) hear(line string) {
	var answer crashCall
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		return // cut by the kill
	}
	if answer.Err != "" || answer.Result.Refusal != nil {
		c.t.Errorf("request %d: %s %v", answer.N, answer.Err, answer.Result)
		return
	}
	before, event := c.events[answer.N], string(answer.Result.Event)
	if before != "" && (before != event || !answer.Result.Replayed) {
		c.t.Errorf("request %d was answered %s, and again (replayed: %v) %s", answer.N, before, answer.Result.Replayed, event)
	}
	c.events[answer.N] = event
}

// check compares the database with everything that was asked and answered.
func (c *crashClient) check() {
	stored := 0
	c.h.eachRoom(func(id, outcome, head string, bundle bool) {
		stored++
		room := c.h.stored(id) // replays the chain
		if room.Outcome() != outcome || room.Head() != head || room.Closed() != bundle || outcome != agreement.OutcomeReached {
			c.t.Errorf("room %s: %s in its row, %s by its events", id, outcome, room.Outcome())
		}
		c.h.bundleOf(id)
	})
	if stored != len(c.rooms) {
		c.t.Errorf("%d rooms are stored, %d were proposed", stored, len(c.rooms))
	}
	for _, r := range c.rooms {
		left := make(map[string]bool)
		for _, e := range c.h.stored(r.party.a.AgreementID).Events() {
			data, err := e.Canonical()
			if err != nil {
				c.t.Fatal(err)
			}
			left[string(data)] = true
		}
		for _, call := range slices.Concat(r.stages...) {
			if !left[c.events[call.N]] {
				c.t.Errorf("request %d was answered with an event that is not stored", call.N)
			}
			delete(left, c.events[call.N])
		}
		for event := range left {
			c.t.Errorf("nobody was answered with %s", event)
		}
	}
}

// eachRoom visits the rows of all rooms.
func (h *house) eachRoom(visit func(id, outcome, head string, bundle bool)) {
	h.t.Helper()
	type row struct {
		id, outcome, head string
		bundle            bool
	}
	var all []row
	err := h.db.View(h.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT agreement, outcome, head, bundle IS NOT NULL FROM venue_rooms")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := rows.Scan(&r.id, &r.outcome, &r.head, &r.bundle); err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range all {
		visit(r.id, r.outcome, r.head, r.bundle)
	}
}
