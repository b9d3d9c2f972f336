package venue_test

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
	"github.com/parleykit/parley/venue"
	"github.com/parleykit/parley/venue/venuetest"
)

// ahead is the real clock with an offset set by hand.
type ahead struct{ by atomic.Int64 }

func (a *ahead) now() time.Time          { return time.Now().Add(time.Duration(a.by.Load())) }
func (a *ahead) advance(d time.Duration) { a.by.Add(int64(d)) }

// stage is a relay, a venue on it and the agents of a test.
type stage struct {
	t     *testing.T
	clock *ahead
	relay *relaytest.Server
	venue *venuetest.Server
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, clock: new(ahead)}
	s.relay = relaytest.Start(t, relay.Options{Now: s.clock.now})
	s.venue = venuetest.Start(t, s.relay.URL, venue.Options{Now: s.clock.now})
	return s
}

// agent is a participant with an engine of its own.
type agent struct {
	stage  *stage
	id     string // participant id
	key    *keys.Nostr
	engine *carrier.Engine

	mu       sync.Mutex
	received []*message.Message
	news     chan struct{}
}

func (s *stage) newAgent(id string) *agent {
	s.t.Helper()
	a := &agent{stage: s, id: id, key: newKey(s.t), news: make(chan struct{}, 1)}
	relays, err := nostr.New(nostr.Options{
		Relays: []string{s.relay.URL}, Signer: a.key, Dialer: egress.New(egress.Options{AllowLoopback: true}), Now: s.clock.now,
		Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(relays.Close)
	a.engine, err = carrier.New(s.t.Context(), carrier.Options{
		DB: databasetest.Open(s.t), Keyer: a.key, Carriers: []carrier.Carrier{relays}, Now: s.clock.now,
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: s.relay.URL}}, nil
		},
		Handle: a.handle, Retry: carrier.Backoff{Base: 50 * time.Millisecond, Cap: 200 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := a.engine.AddContact(s.t.Context(), carrier.Contact{PubKey: s.venue.PublicKey(), Name: "venue"}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.engine.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-ended })
	return a
}

func (a *agent) handle(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, in.Message)
	select {
	case a.news <- struct{}{}:
	default:
	}
	return nil
}

// all returns a copy of what has arrived.
func (a *agent) all() []*message.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.received)
}

// wait blocks until a message arrived that fits, and returns it.
func (a *agent) wait(what string, fits func(*message.Message) bool) *message.Message {
	a.stage.t.Helper()
	limit := time.After(time.Minute)
	for {
		for _, m := range a.all() {
			if fits(m) {
				return m
			}
		}
		select {
		case <-a.news:
		case <-limit:
			a.stage.t.Fatalf("%s: no %s came", a.id, what)
		}
	}
}

// ask sends a request to the venue and returns its result.
func (a *agent) ask(body message.Body) message.AgreementResult {
	a.stage.t.Helper()
	m, err := message.New(body.Type(), a.key.PublicKey(), a.stage.venue.PublicKey(), body, a.stage.clock.now(), time.Hour)
	if err != nil {
		a.stage.t.Fatal(err)
	}
	if err := a.engine.Send(a.stage.t.Context(), m); err != nil {
		a.stage.t.Fatal(err)
	}
	var result message.AgreementResult
	a.wait("result", func(got *message.Message) bool {
		result = message.AgreementResult{}
		return got.Type == message.TypeAgreementResult && message.DecodeBody(got, &result) == nil && result.InReplyTo == m.ID
	})
	return result
}

// command asks for an act on an agreement.
func (a *agent) command(of *agreement.Agreement, action, body, key string) message.AgreementResult {
	a.stage.t.Helper()
	data, err := agreement.NewCommand(of, a.id, action, body).Canonical()
	if err != nil {
		a.stage.t.Fatal(err)
	}
	sig, err := agreement.Sign(of, of.Digest(), action, body, a.key, a.stage.clock.now())
	if err != nil {
		a.stage.t.Fatal(err)
	}
	return a.ask(message.AgreementCommand{Command: data, Key: key, Signature: &sig})
}

// artifact waits for the bundle of an agreement and verifies it.
func (a *agent) artifact(of *agreement.Agreement) *agreement.Report {
	a.stage.t.Helper()
	var body message.AgreementArtifact
	a.wait("artifact", func(m *message.Message) bool {
		body = message.AgreementArtifact{}
		return m.Type == message.TypeAgreementArtifact && message.DecodeBody(m, &body) == nil && body.AgreementID == of.AgreementID
	})
	report, err := agreement.Verify([]byte(body.Bundle))
	if err != nil {
		a.stage.t.Fatalf("%s: %v", a.id, err)
	}
	return report
}

// chain puts together the events of an agreement that the agent was sent, in
// results of its own and in events of others; each must have come once.
func (a *agent) chain(of *agreement.Agreement) []agreement.Event {
	a.stage.t.Helper()
	bySeq := make(map[int64]agreement.Event)
	for _, m := range a.all() {
		var data []byte
		switch m.Type {
		case message.TypeAgreementResult:
			var body message.AgreementResult
			if err := message.DecodeBody(m, &body); err != nil {
				a.stage.t.Fatal(err)
			}
			data = body.Event
		case message.TypeAgreementEvent:
			var body message.AgreementEvent
			if err := message.DecodeBody(m, &body); err != nil {
				a.stage.t.Fatal(err)
			}
			data = body.Event
		}
		if data == nil {
			continue
		}
		e, err := agreement.ParseEvent(data)
		if err != nil {
			a.stage.t.Fatal(err)
		}
		if e.AgreementID != of.AgreementID {
			continue
		}
		if _, twice := bySeq[e.Seq]; twice {
			a.stage.t.Errorf("%s was told of event %d twice", a.id, e.Seq)
		}
		bySeq[e.Seq] = *e
	}
	var events []agreement.Event
	for seq := int64(1); bySeq[seq].Seq == seq; seq++ {
		events = append(events, bySeq[seq])
	}
	return events
}

// propose opens a room of the three agents and waits for the invites.
func (s *stage) propose(agents ...*agent) *agreement.Agreement {
	s.t.Helper()
	terms := agreement.Terms{
		Origin: s.venue.Origin, Venue: s.venue.PublicKey(), Title: "Deploy", Objective: "Deploy on Friday.",
		Deadline: s.clock.now().Add(time.Hour),
	}
	for _, a := range agents {
		terms.Participants = append(terms.Participants, agreement.Participant{Kind: agreement.KindAgent, PubKey: a.key.PublicKey()})
	}
	a, err := agreement.New(terms, s.clock.now())
	if err != nil {
		s.t.Fatal(err)
	}
	revision, err := a.Canonical()
	if err != nil {
		s.t.Fatal(err)
	}
	sig, err := agreement.Sign(a, a.Digest(), agreement.ActionPropose, "", agents[0].key, s.clock.now())
	if err != nil {
		s.t.Fatal(err)
	}
	if result := agents[0].ask(message.AgreementPropose{Revision: string(revision), Signature: sig}); result.Refusal != nil {
		s.t.Fatalf("proposal refused: %+v", result.Refusal)
	}
	for _, other := range agents[1:] {
		other.wait("invite", func(m *message.Message) bool {
			var invite message.AgreementInvite
			return m.Type == message.TypeAgreementInvite && message.DecodeBody(m, &invite) == nil && invite.Revision == string(revision)
		})
	}
	return a
}

// Three agents with delivery engines of their own and a venue, over a real
// relay, come to every outcome. Each agent can rebuild the whole chain from
// what it was sent, and holds a bundle that proves it.
func TestVenue_overARelayReachesEveryOutcome(t *testing.T) {
	s := newStage(t)
	agents := []*agent{s.newAgent("p1"), s.newAgent("p2"), s.newAgent("p3")}
	for _, c := range []struct {
		outcome string
		actions []string // of p1, p2, … in turn
	}{
		{agreement.OutcomeReached, []string{agreement.ActionAgree, agreement.ActionAgree, agreement.ActionAgree}},
		{agreement.OutcomeDisagreed, []string{agreement.ActionAgree, agreement.ActionDisagree}},
		{agreement.OutcomeNoConsensus, []string{agreement.ActionAbstain}},
		{agreement.OutcomeExpired, []string{agreement.ActionAgree, agreement.ActionAgree}},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			a := s.propose(agents...)
			for i, action := range c.actions {
				if result := agents[i].command(a, action, "", "key-"+a.AgreementID); result.Refusal != nil {
					t.Fatalf("%s refused: %+v", action, result.Refusal)
				}
			}
			if c.outcome == agreement.OutcomeExpired {
				s.clock.advance(2 * time.Hour)
				s.venue.Venue.Wake()
			}
			for _, member := range agents {
				report := member.artifact(a)
				if report.Outcome != c.outcome || report.Digest != a.Digest() {
					t.Errorf("%s holds a bundle of %s", member.id, report.Outcome)
				}
				member.wait("last event", func(*message.Message) bool { return len(member.chain(a)) == report.Events })
				events := member.chain(a)
				room, err := agreement.Replay(a, events)
				if err != nil || room.Head() != report.Head {
					t.Errorf("%s cannot rebuild the chain from %d events: %v", member.id, len(events), err)
				}
			}
		})
	}
}
