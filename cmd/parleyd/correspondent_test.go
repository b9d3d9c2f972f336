package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

const patient = 60 // seconds that an agent waits for what must happen

// correspondent is an agent whose server is killed. It starts anew with every
// server, a little later by its own clock, so that no pause before another
// attempt keeps the test.
type correspondent struct {
	t          *testing.T
	name, home string
	peer       string // public key of the other one
	agent      *agent.Agent
	end        func() // of the agent
	work       sync.WaitGroup

	texts    int
	taken    []string         // texts that the agent answered for
	accepted map[string]int64 // events that own decisions became, by agreement
}

func newCorrespondent(t *testing.T, name string) *correspondent {
	t.Helper()
	return &correspondent{t: t, name: name, home: filepath.Join(t.TempDir(), name), accepted: make(map[string]int64)}
}

// start runs the agent in its nth life.
func (c *correspondent) start(t *testing.T, life int) {
	t.Helper()
	later := time.Duration(life) * 3 * time.Second
	a, err := agent.New(t.Context(), agent.Options{Home: c.home, Now: func() time.Time { return time.Now().Add(later) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	c.agent = a
	c.end = sync.OnceFunc(func() {
		if t.Failed() {
			c.report()
		}
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Errorf("ending %s: %v", c.name, err)
		}
	})
	t.Cleanup(c.end)
}

// stop waits for the work and ends the agent.
func (c *correspondent) stop() {
	c.work.Wait()
	c.end()
}

// write sends texts to the peer, each once the one before is acknowledged.
func (c *correspondent) write(ctx context.Context) {
	for ctx.Err() == nil {
		c.texts++
		text := fmt.Sprint("text ", c.texts)
		if _, err := c.agent.SendText(ctx, agent.SendRequest{To: c.peer, Text: text, WaitSeconds: patient}); err != nil {
			c.unlessEnded(ctx, err)
			return
		}
		c.taken = append(c.taken, text)
	}
}

// decide agrees in every room that comes; who proposes opens the next one when
// all are decided.
func (c *correspondent) decide(ctx context.Context, answers *crashtest.Countdown, proposes bool) {
	for ctx.Err() == nil {
		undecided := 0
		for _, room := range c.rooms() {
			if room.State == agent.StateRefused || room.Outcome != agreement.OutcomePending {
				continue
			}
			undecided++
			if room.State == agent.StateOpen && room.Decision == "" {
				c.agree(ctx, room, answers)
			}
		}
		if proposes && undecided == 0 {
			c.propose(ctx, answers)
		}
		time.Sleep(25 * time.Millisecond)
	}
}

func (c *correspondent) agree(ctx context.Context, room agent.Summary, answers *crashtest.Countdown) {
	act, err := c.agent.Decide(ctx, agent.DecideRequest{
		ID: room.AgreementID, Action: agreement.ActionAgree, Digest: room.Digest, WaitSeconds: patient,
	})
	switch {
	case err != nil && (strings.Contains(err.Error(), "decided already: agree") || strings.Contains(err.Error(), "closed: reached")):
		// its answer came after the list
	case err != nil:
		c.unlessEnded(ctx, err)
	case act.State == agent.CommandAccepted:
		c.accepted[room.AgreementID] = act.Seq
		answers.Answer()
	}
}

func (c *correspondent) propose(ctx context.Context, answers *crashtest.Countdown) {
	p, err := c.agent.Propose(ctx, agent.ProposeRequest{
		Title: "Read access", Objective: "Both may read the archive.", Must: []string{"Name the reader."},
		Deadline: canonical.At(time.Now().Add(2 * time.Hour)), With: []string{c.peer}, WaitSeconds: patient,
	})
	if err != nil {
		c.unlessEnded(ctx, err)
	} else if p.State == agent.StateOpen {
		answers.Answer()
	}
}

func (c *correspondent) unlessEnded(ctx context.Context, err error) {
	if ctx.Err() == nil {
		c.t.Errorf("%s: %v", c.name, err)
	}
}

// rooms are the agreements of the agent.
func (c *correspondent) rooms() []agent.Summary {
	list, err := c.agent.Agreements(context.Background(), agent.Empty{})
	if err != nil {
		c.t.Errorf("%s: %v", c.name, err)
		return nil
	}
	return list.Agreements
}

// pending counts rooms without an outcome and messages on their way.
func (c *correspondent) pending() int {
	n := 0
	for _, room := range c.rooms() {
		if room.Outcome != agreement.OutcomeReached {
			n++
		}
	}
	out, err := c.agent.Outbox(context.Background(), agent.OutboxRequest{})
	if err != nil {
		c.t.Errorf("%s: %v", c.name, err)
		return n + 1
	}
	for _, m := range out.Messages {
		if m.Type != message.TypeAgreementPropose { // a venue answers it and never acknowledges a stranger
			n++
		}
	}
	return n
}

// report logs what is not settled.
func (c *correspondent) report() {
	for _, room := range c.rooms() {
		if room.Outcome != agreement.OutcomeReached {
			c.t.Logf("%s: room %s is %s, outcome %s, decision %q", c.name, room.AgreementID, room.State, room.Outcome, room.Decision)
		}
	}
	out, err := c.agent.Outbox(context.Background(), agent.OutboxRequest{})
	if err != nil {
		c.t.Log(err)
		return
	}
	for _, m := range out.Messages {
		c.t.Logf("%s: message %s (%s) is %s: %s, tried %d times", c.name, m.ID, m.Type, m.State, m.Reason, m.Tried)
	}
}
