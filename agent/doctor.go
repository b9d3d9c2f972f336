package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleykit/parley/agent/doctor"
	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
)

// probeWait is how long an envelope to oneself may take, when nothing else is asked.
const probeWait = 20 * time.Second

// DoctorRequest says how long to wait for each carrier; 0 is 20 seconds.
type DoctorRequest struct {
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// DoctorResponse is what was found, a check for each carrier and one for the card.
type DoctorResponse struct {
	Checks []doctor.Check `json:"checks"`
}

// Doctor sends an envelope to this agent over each of its carriers, at the same time,
// and looks which come back. Nothing of it is kept.
func (a *Agent) Doctor(ctx context.Context, q DoctorRequest) (*DoctorResponse, error) {
	wait, err := waitTime(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	if wait == 0 {
		wait = probeWait
	}
	l, err := a.online()
	if err != nil {
		return nil, err
	}
	if !a.isWorking() {
		a.startWorking()
		defer a.stopWorking()
	}
	if err := a.listenToTopics(ctx, l); err != nil {
		return nil, err
	}
	checks := make([]doctor.Check, len(l.own), len(l.own)+1)
	var group sync.WaitGroup
	for i, c := range l.own {
		group.Go(func() { checks[i] = a.probe(ctx, l, c, wait) })
	}
	group.Wait()
	return &DoctorResponse{append(checks, a.checkCard(ctx))}, nil
}

// probe is the check of one carrier.
func (a *Agent) probe(ctx context.Context, l *link, c OwnCarrier, wait time.Duration) doctor.Check {
	check := doctor.Check{Name: "carrier " + c.Scheme, Verdict: doctor.Bad}
	to := carrier.Address{Scheme: c.Scheme, Address: c.Address}
	if c.Scheme == ntfybridge.Scheme {
		secret, err := a.topicSecret(ctx)
		if err != nil {
			check.Detail = err.Error()
			return check
		}
		to.Address = topicAt(secret, c.Address, a.key.PublicKey(), ntfybridge.Epoch(a.now()))
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	began := time.Now()
	sent, err := a.probeUntilHeard(ctx, l, to)
	switch {
	case err == nil:
		check.Verdict = doctor.Good
		check.Detail = fmt.Sprintf("%s brought it back within %s", c.Address, time.Since(began).Round(time.Millisecond))
	case sent:
		check.Detail = fmt.Sprintf("%s took it and did not bring it back within %s", c.Address, wait)
		check.Hint = "can this agent read there? `parley run` logs what a carrier says"
	default:
		check.Detail = c.Address + ": " + outage(err)
		check.Hint = "is it up, and does it serve this key? The others go on without it"
	}
	return check
}

// probeUntilHeard repeats a probe that a broker did not take because this agent has
// only just begun to listen there.
func (a *Agent) probeUntilHeard(ctx context.Context, l *link, to carrier.Address) (sent bool, err error) {
	for {
		sent, err = l.engine.Probe(ctx, to)
		if err == nil || sent || to.Scheme != mqttbridge.Scheme || !errors.Is(err, carrier.ErrTransient) {
			return sent, err
		}
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return sent, err
		}
	}
}

// checkCard looks whether others can learn how this agent is reached.
func (a *Agent) checkCard(ctx context.Context) doctor.Check {
	check := doctor.Check{Name: "card", Verdict: doctor.Warning, Hint: "parley card publish --about TEXT"}
	own, err := a.freshCard(ctx, a.key.PublicKey())
	switch {
	case err != nil && !errors.Is(err, errNoCard):
		check.Detail, check.Hint = outage(err), "is the relay up?"
		return check
	case own == nil || err != nil:
		check.Detail = "no card is published: only who knows a relay of this agent reaches it"
		return check
	case own.Expired:
		check.Detail = "the card has expired"
		return check
	}
	if other, err := a.cardNamesOthers(ctx, own); err != nil || other {
		check.Detail = "the card names other carriers than this agent has now"
		return check
	}
	return doctor.Check{Name: "card", Verdict: doctor.Good, Detail: "published, valid until " + own.ExpiresAt.String()}
}
