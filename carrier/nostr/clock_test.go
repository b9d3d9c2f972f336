package nostr_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

const twoDays = 48 * time.Hour

// skewed is the machine's clock with an error that the test sets.
type skewed struct{ by atomic.Int64 }

func newSkewed(by time.Duration) *skewed {
	s := new(skewed)
	s.off(by)
	return s
}

func (s *skewed) off(d time.Duration) { s.by.Store(int64(d)) }
func (s *skewed) now() time.Time      { return time.Now().Add(time.Duration(s.by.Load())) }

// mail queues n texts that live a week by the sender's clock.
func (a *agent) mail(to *agent, n int) (sent []*message.Message) {
	a.t.Helper()
	for i := range n {
		m := textMessageAt(a.t, a.now(), a.PublicKey(), to.PublicKey(), fmt.Sprint(i), 7*24*time.Hour)
		if err := a.Send(a.t.Context(), m); err != nil {
			a.t.Fatal(err)
		}
		sent = append(sent, m)
	}
	return sent
}

// wantEach waits until every message was handled, each once.
func (a *agent) wantEach(sent []*message.Message) {
	a.t.Helper()
	left := make(map[string]bool)
	for _, m := range sent {
		left[m.ID] = true
	}
	limit := time.After(patience)
	for len(left) > 0 {
		select {
		case m := <-a.handled:
			if !left[m.ID] {
				a.t.Fatalf("message %s was not expected or came twice", m.ID)
			}
			delete(left, m.ID)
		case <-limit:
			a.t.Fatalf("%d of %d messages are missing", len(left), len(sent))
		}
	}
}

// wantReason waits until a queued message was tried in vain for this reason.
func (a *agent) wantReason(m *message.Message, part string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for changes := a.Subscribe(ctx); ; {
		rows, err := a.Outbox(a.t.Context(), carrier.OutboxFilter{MessageID: m.ID})
		if err != nil || len(rows) != 1 {
			a.t.Fatalf("Outbox: %d rows, %v", len(rows), err)
		}
		if strings.Contains(rows[0].Reason, part) && rows[0].State == carrier.StateQueued {
			return
		}
		if _, open := <-changes; !open {
			a.t.Fatalf("%s: %q, want queued because of %q", rows[0].State, rows[0].Reason, part)
		}
	}
}

func TestARelaysWrongClockDelaysMessagesAndNamesTheClock(t *testing.T) {
	for by, reason := range map[time.Duration]string{
		twoDays:             "2 days behind this server's clock",
		-3 * 24 * time.Hour: "ahead of this server's clock", // a wrap is dated up to two days back
	} {
		clock := newSkewed(by)
		server := relaytest.Start(t, relay.Options{Now: clock.now, SweepInterval: time.Millisecond})
		var b book
		alice, bob := newAgent(t, &b, server.URL).start(), newAgent(t, &b, server.URL)
		alice.knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello") // it lives an hour
		alice.wantReason(m, reason)
		alice.wantReason(m, "check this machine's clock")
		if err := bob.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "check this machine's clock") {
			t.Errorf("reading from a relay that is %s off: %v", by, err)
		}
		clock.off(0)
		bob.start()
		bob.wantHandled(m)
		alice.wantState(m, carrier.StateAcked)
	}
}

func TestAnAgentsWrongClockDelaysMessagesAndNamesTheClock(t *testing.T) {
	for _, by := range []time.Duration{twoDays, -twoDays} {
		server := relaytest.Start(t, relay.Options{})
		clock := newSkewed(by)
		var b book
		alice, bob := newAgentAt(t, &b, clock.now, server.URL), newAgent(t, &b, server.URL).start()
		alice.knows(bob)
		bob.knows(alice)
		toAlice := bob.mail(alice, 3)
		if err := alice.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "check this machine's clock") {
			t.Errorf("with a clock that is %s off: %v", by, err)
		}
		clock.off(0)
		alice.start()
		alice.wantEach(toAlice)
		for _, m := range toAlice {
			bob.wantState(m, carrier.StateAcked)
		}
	}
}

func TestMarksMadeWhileEveryClockWasAheadSkipNothingAfterwards(t *testing.T) {
	for _, stays := range []bool{true, false} { // whether the recipient's session outlives the correction
		clock := newSkewed(twoDays)
		server := relaytest.Start(t, relay.Options{Now: clock.now})
		var b book
		alice, bob := newAgentAt(t, &b, clock.now, server.URL), newAgentAt(t, &b, clock.now, server.URL)
		bob.knows(alice)
		alice.mail(bob, 10)
		if err := alice.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if stays {
			bob.start()
		} else if err := bob.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			<-bob.handled
		}
		clock.off(0)
		sent := alice.mail(bob, 20) // dated up to two days back
		if err := alice.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !stays {
			if err := bob.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		bob.wantEach(sent)
	}
}

// What was written days before it could be sent carries an old date. It must
// reach who is listening at once, and others a day later at the latest.
func TestMessagesDatedDaysBackArrive(t *testing.T) {
	clock, slow := newSkewed(0), newSkewed(-5*24*time.Hour)
	server := relaytest.Start(t, relay.Options{Now: clock.now})
	var b book
	alice, eve := newAgentAt(t, &b, slow.now, server.URL), newAgentAt(t, &b, clock.now, server.URL)
	listening, asking := newAgentAt(t, &b, clock.now, server.URL), newAgentAt(t, &b, clock.now, server.URL)
	moveMark := func(reader *agent) {
		t.Helper()
		sent := eve.mail(reader, 5)
		if err := eve.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := reader.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader.wantEach(sent)
	}
	for _, reader := range []*agent{listening, asking} {
		reader.knows(alice)
		reader.knows(eve)
		moveMark(reader)
	}
	listening.start()
	sent := eve.mail(listening, 1)
	if err := eve.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	listening.wantEach(sent) // it listens
	late, later := alice.mail(listening, 5), alice.mail(asking, 5)
	_ = alice.Sync(t.Context()) // its own reading is refused
	listening.wantEach(late)
	clock.off(24 * time.Hour)
	if err := asking.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	asking.wantEach(later)
}

func TestASessionEndsWhenTheClockIsSet(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	clock := newSkewed(0)
	me := newKey(t)
	c := newCarrierAt(t, clock.now, me, server.URL)
	nostr.SetClockPeriod(c, time.Millisecond)
	sender := newCarrier(t, newKey(t))
	wrap := wraps(t, newKey(t), me.PublicKey(), 1)[0]
	if err := sender.Send(t.Context(), carrier.Address{Scheme: nostr.Scheme, Address: server.URL}, wrap.Bytes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	times := 0
	err := c.Receive(ctx, "", func(_ context.Context, data []byte, _ carrier.Cursor) error {
		if data == nil {
			return nil
		}
		if times++; times == 2 {
			cancel()
		}
		clock.off(-5 * time.Minute)
		return nil
	})
	if times != 2 {
		t.Errorf("read %d times, want again after the clock was set (%v)", times, err)
	}
}
