package venue_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/drilltest"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
	"github.com/parleykit/parley/venue"
	"github.com/parleykit/parley/venue/venuetest"
)

// A venue and its participants meet at the relay of another server, to which
// the network fails in every way. Every command is answered, once, and every
// participant comes to hold the whole chain.
func TestARoomSurvivesABadNetworkToItsRelay(t *testing.T) {
	t.Parallel()
	p := networktest.NewProxy(t, "")
	s := &stage{t: t, clock: new(ahead)}
	s.relay = relaytest.Start(t, relay.Options{Origin: "http://" + p.Addr(), Now: s.clock.now})
	p.Point(strings.TrimPrefix(s.relay.URL, "ws://"))
	s.relay.URL = "ws://" + p.Addr()
	s.venue = venuetest.Start(t, s.relay.URL, venue.Options{Now: s.clock.now})
	s.discussThrough(t, p, networktest.Points())
	s.venue.Stop()
}

// The same with the venue's database behind the bad network.
func TestARoomSurvivesABadNetworkToPostgreSQL(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(databasetest.NewPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	p := networktest.NewProxy(t, address.Host)
	address.Host = p.Addr()
	s := &stage{t: t, clock: new(ahead)}
	s.relay = relaytest.Start(t, relay.Options{Now: s.clock.now})
	s.venue = venuetest.Start(t, s.relay.URL, venue.Options{
		Now: s.clock.now, DB: databasetest.OpenURL(t, address.String(), database.Options{}),
	})
	points := networktest.Points()
	if !drilltest.Long() {
		points = points[:min(len(points), len(networktest.Faults()))] // a broken job pauses the engine for a second
	}
	s.discussThrough(t, p, points)
}

// discussThrough lets three agents comment, one at each point, and agree every
// twenty points.
func (s *stage) discussThrough(t *testing.T, p *networktest.Proxy, points []networktest.Point) {
	t.Helper()
	agents := []*agent{s.newAgent("p1"), s.newAgent("p2"), s.newAgent("p3")}
	var room *agreement.Agreement
	for i, point := range points {
		if i%20 == 0 {
			room = s.propose(agents...)
		}
		healed := make(chan struct{})
		begin, last := time.Duration(point.Rand.IntN(8000))*time.Microsecond, time.Duration(point.Rand.IntN(30))*time.Millisecond
		go func() {
			defer close(healed)
			time.Sleep(begin) // where in the exchange the fault begins
			point.Fault.Begin(p)
			time.Sleep(last)
			p.Heal()
		}()
		speaker := agents[i%len(agents)]
		if result := speaker.command(room, agreement.ActionComment, point.String(), fmt.Sprint("key-of-point-", point.Number)); result.Refusal != nil {
			t.Errorf("%s: refused: %+v", point, result.Refusal)
		}
		<-healed
		if i%20 == 19 || i == len(points)-1 {
			s.closeRoom(room, agents, i%20+1)
		}
	}
}

// closeRoom lets everybody agree, and demands the whole chain of everybody.
func (s *stage) closeRoom(room *agreement.Agreement, agents []*agent, comments int) {
	s.t.Helper()
	for _, a := range agents {
		if result := a.command(room, agreement.ActionAgree, "", "key-"+room.AgreementID); result.Refusal != nil {
			s.t.Errorf("agree refused: %+v", result.Refusal)
		}
	}
	for _, a := range agents {
		report := a.artifact(room)
		if report.Outcome != agreement.OutcomeReached || report.Events < comments+len(agents)+1 {
			s.t.Errorf("%s holds a bundle of %d events, %s", a.id, report.Events, report.Outcome)
		}
		a.wait("last event", func(*message.Message) bool { return len(a.chain(room)) == report.Events })
	}
}
