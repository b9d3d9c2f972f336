package agent_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// hostile is a venue that the test speaks for, with one honest agent, the
// victim, and an initiator whose key the test holds.
type hostile struct {
	*testing.T
	server    *agenttest.Server
	victim    *agent.Agent
	initiator *keys.Nostr
	asked     chan *message.Message // what the victim sends the venue
	queries   chan message.AgreementQuery
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{T: t, initiator: newKey(t), asked: make(chan *message.Message, 100), queries: make(chan message.AgreementQuery, 100)}
	h.server = agenttest.HostileVenue(t, h.take)
	h.victim = h.server.Running(t, agent.Options{})
	err := h.server.Engine.AddContact(t.Context(), carrier.Contact{PubKey: h.victim.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// take answers every question about a room with a refusal, and keeps the rest.
func (h *hostile) take(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	if in.Message.Type != message.TypeAgreementQuery {
		h.asked <- in.Message
		return nil
	}
	var query message.AgreementQuery
	if err := message.DecodeBody(in.Message, &query); err != nil {
		return err
	}
	h.queries <- query
	answer := message.AgreementResult{InReplyTo: in.Message.ID, Refusal: &message.Refusal{Code: agreement.CodeCap}}
	m, err := message.New(answer.Type(), in.Message.To, in.Message.From, answer, time.Now(), time.Hour)
	if err != nil {
		return err
	}
	return h.server.Engine.SendTx(ctx, tx, m)
}

func newKey(t *testing.T) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// agreement is a valid revision between the initiator and the given keys.
func (h *hostile) agreement(with ...string) *agreement.Agreement {
	h.Helper()
	roster := []agreement.Participant{{Kind: agreement.KindAgent, PubKey: h.initiator.PublicKey()}}
	for _, key := range with {
		roster = append(roster, agreement.Participant{Kind: agreement.KindAgent, PubKey: key})
	}
	a, err := agreement.New(agreement.Terms{
		Origin: h.server.URL, Venue: h.server.VenueKey.PublicKey(), Title: "Title", Objective: "Objective",
		Participants: roster, Deadline: time.Now().Add(time.Hour),
	}, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	return a
}

func (h *hostile) sign(a *agreement.Agreement, by agreement.Signer) nostr.Event {
	h.Helper()
	ev, err := agreement.Sign(a, a.Digest(), agreement.ActionPropose, "", by, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	return ev
}

func (h *hostile) bytes(a *agreement.Agreement) string {
	h.Helper()
	data, err := a.Canonical()
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

// send sends a body to the victim with the venue's key.
func (h *hostile) send(body message.Body) {
	h.Helper()
	m, err := message.New(body.Type(), h.server.VenueKey.PublicKey(), h.victim.PublicKey(), body, time.Now(), time.Hour)
	if err != nil {
		h.Fatal(err)
	}
	if err := h.server.Engine.Send(h.Context(), m); err != nil {
		h.Fatal(err)
	}
}

// refusal waits for the n-th refusal of the victim and returns the newest.
func (h *hostile) refusal(n int) agent.Refusal {
	h.Helper()
	for {
		r, err := h.victim.Refusals(h.Context(), agent.Empty{})
		if err != nil {
			h.Fatal(err)
		}
		if len(r.Refusals) >= n {
			return r.Refusals[0]
		}
		h.changed()
	}
}

// changed lets the victim work a little before the next look.
func (h *hostile) changed() {
	h.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-h.Context().Done():
		h.Fatal("nothing happened")
	}
}

func (h *hostile) agreements() []agent.Summary {
	h.Helper()
	list, err := h.victim.Agreements(h.Context(), agent.Empty{})
	if err != nil {
		h.Fatal(err)
	}
	return list.Agreements
}

// room opens an honest room with the victim in it and invites it.
func (h *hostile) room() *agreement.Room {
	h.Helper()
	a := h.agreement(h.victim.PublicKey())
	signature := h.sign(a, h.initiator)
	r, err := agreement.Open(a, signature, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	h.send(message.AgreementInvite{Revision: h.bytes(a), Signature: signature})
	if _, err := h.victim.Review(h.Context(), agent.ReviewRequest{ID: a.AgreementID, WaitSeconds: patient}); err != nil {
		h.Fatal(err)
	}
	return r
}

func (h *hostile) event(e agreement.Event, outcome string) message.AgreementEvent {
	h.Helper()
	data, err := e.Canonical()
	if err != nil {
		h.Fatal(err)
	}
	return message.AgreementEvent{Event: jsontext.Value(data), Outcome: outcome}
}

// seen waits until the victim has so many events of a room.
func (h *hostile) seen(id string, n int) *agent.Review {
	h.Helper()
	for {
		r, err := h.victim.Review(h.Context(), agent.ReviewRequest{ID: id})
		if err != nil {
			h.Fatal(err)
		}
		if len(r.Events) >= n {
			return r
		}
		h.changed()
	}
}

func TestAnInvitationThatDoesNotCheckIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	me := h.victim.PublicKey()
	good := h.agreement(me)
	text := h.bytes(good)
	signature := h.sign(good, h.initiator)
	other := h.agreement(newKey(t).PublicKey())
	elsewhere := h.agreement(me)
	elsewhere.Venue = newKey(t).PublicKey()
	changed := h.agreement(me)
	changed.Title = "Another title"
	endless := h.agreement(me)
	endless.Deadline = canonical.At(time.Now().Add(message.MaxLifetime + time.Hour))
	forged := signature
	forged.Sig = strings.Repeat("0", 128)
	for i, attempt := range []struct {
		name, reason, revision string
		signature              nostr.Event
	}{
		{"a byte of the revision is changed", "signature", strings.Replace(text, "Objective", "Objectivf", 1), signature},
		{"the signature is of another revision", "signature", h.bytes(changed), signature},
		{"the signature is forged", "signature", text, forged},
		{"somebody else signed", "signature", text, h.sign(good, newKey(t))},
		{"the venue signed", "signature", text, h.sign(good, h.server.VenueKey)},
		{"this key is not in the roster", "roster", h.bytes(other), h.sign(other, h.initiator)},
		{"another venue is named", "venue", h.bytes(elsewhere), h.sign(elsewhere, h.initiator)},
		{"the bytes are not canonical", "revision", strings.Replace(text, `":`, `": `, 1), signature},
		{"the deadline lies further ahead than any venue allows", "revision", h.bytes(endless), h.sign(endless, h.initiator)},
		{"it is no agreement", "revision", `{}`, signature},
	} {
		h.send(message.AgreementInvite{Revision: attempt.revision, Signature: attempt.signature})
		if r := h.refusal(i + 1); r.Reason != attempt.reason {
			t.Errorf("%s: refused for %s (%s), want %s", attempt.name, r.Reason, r.Detail, attempt.reason)
		}
		if list := h.agreements(); len(list) != 0 {
			t.Fatalf("%s: stored %+v", attempt.name, list)
		}
	}
	h.send(message.AgreementInvite{Revision: text, Signature: signature})
	if r, err := h.victim.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient}); err != nil || r.Digest != good.Digest() {
		t.Errorf("the honest one: %+v, %v", r, err)
	}
}

func TestASecondRevisionUnderAKnownIdIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	known := h.room().Agreement()
	second := *known
	second.Objective = "Something else"
	h.send(message.AgreementInvite{Revision: h.bytes(&second), Signature: h.sign(&second, h.initiator)})
	if r := h.refusal(1); r.Reason != "conflict" || r.AgreementID != known.AgreementID {
		t.Errorf("refusal = %+v", r)
	}
	if list := h.agreements(); len(list) != 1 || list[0].Digest != known.Digest() {
		t.Errorf("agreements = %+v", list)
	}
}

func TestAnInvitationFromAStrangerDoesNothing(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	friend := h.server.Running(t, agent.Options{})
	befriend(t, h.victim, friend, "victim", "friend")
	// A contact is not a venue: the agreement names the contact's key as one.
	a := h.agreement(h.victim.PublicKey())
	a.Venue = friend.PublicKey()
	body := message.AgreementInvite{Revision: h.bytes(a), Signature: h.sign(a, h.initiator)}
	agent.SendRaw(t, friend, h.victim.PublicKey(), body)
	if r := h.refusal(1); r.Reason != "venue" {
		t.Errorf("refusal = %+v", r)
	}
}

func TestAnEventThatDoesNotFollowIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	r := h.room()
	id := r.Agreement().AgreementID
	first := r.Events()[0]
	h.send(h.event(first, agreement.OutcomePending))
	h.seen(id, 1)

	unsigned := agreement.Event{
		Schema: first.Schema, AgreementID: id, Seq: 2, Prev: first.Hash(), At: first.At, ParticipantID: "p2",
		Action: agreement.ActionAgree, Revision: 1, RevisionDigest: r.Digest(), Assurance: agreement.AssuranceNostrKey,
	}
	words := unsigned
	words.Action, words.Body = agreement.ActionComment, "put into p2's mouth"
	words.Prev = agreement.ZeroHash
	early := unsigned
	early.ParticipantID, early.Action, early.Assurance = agreement.VenueID, agreement.ActionExpire, agreement.AssuranceLocalOperator
	retold := first
	retold.At = canonical.At(first.At.Add(time.Second))
	honest, err := r.Apply(agreement.NewCommand(r.Agreement(), "p1", agreement.ActionComment, "hello"), nil, agreement.AssuranceNostrKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i, attempt := range []struct {
		name, reason string
		event        agreement.Event
		outcome      string
	}{
		{"a decision without a signature", "chain", unsigned, agreement.OutcomePending},
		{"another prev", "chain", words, agreement.OutcomePending},
		{"expiry before the deadline", "chain", early, agreement.OutcomeExpired},
		{"the first event with another time", "conflict", retold, agreement.OutcomePending},
		{"an outcome that the events do not give", "chain", honest, agreement.OutcomeReached},
	} {
		h.send(h.event(attempt.event, attempt.outcome))
		if got := h.refusal(i + 1); got.Reason != attempt.reason {
			t.Errorf("%s: %+v, want %s", attempt.name, got, attempt.reason)
		}
	}
	h.send(h.event(honest, agreement.OutcomePending))
	if review := h.seen(id, 2); review.Outcome != agreement.OutcomePending || len(review.Refusals) != 5 {
		t.Errorf("review = %+v", review.Summary)
	}
}

func TestEventsOutOfOrderAreHeldAndTheMissingOneIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	r := h.room()
	<-h.queries // for the first event, when the invitation came
	for _, text := range []string{"one", "two", "three"} {
		_, err := r.Apply(agreement.NewCommand(r.Agreement(), "p1", agreement.ActionComment, text), nil, agreement.AssuranceNostrKey, time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	list := r.Events()
	for _, i := range []int{3, 0, 2} {
		h.send(h.event(list[i], agreement.OutcomePending))
	}
	if query := <-h.queries; query.AgreementID != r.Agreement().AgreementID || query.From < 1 || query.From > 2 {
		t.Errorf("asked %+v", query)
	}
	h.send(h.event(list[1], agreement.OutcomePending))
	if review := h.seen(r.Agreement().AgreementID, 4); review.Events[3].Body != "three" || len(review.Refusals) != 0 {
		t.Errorf("review = %+v", review)
	}
}

// closed is an honest room that the initiator has closed by withdrawing.
func (h *hostile) closed() (*agreement.Room, []byte) {
	h.Helper()
	r := h.room()
	a := r.Agreement()
	signature, err := agreement.Sign(a, a.Digest(), agreement.ActionWithdraw, "", h.initiator, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	_, err = r.Apply(agreement.NewCommand(a, "p1", agreement.ActionWithdraw, ""), &signature, agreement.AssuranceNostrKey, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	_, data, err := agreement.NewBundle(r, h.server.VenueKey, nil, time.Now())
	if err != nil {
		h.Fatal(err)
	}
	return r, data
}

func TestABundleThatDoesNotCheckIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	r, bundle := h.closed()
	id := r.Agreement().AgreementID
	_, foreign := h.closed()
	flipped := bytes.Replace(bundle, []byte("withdraw"), []byte("withdrew"), 1)
	for i, attempt := range []struct {
		name, reason string
		bundle       []byte
	}{
		{"a changed byte", "bundle", flipped},
		{"white space", "bundle", append([]byte(" "), bundle...)},
		{"the bundle of another agreement", "digest", foreign},
		{"no bundle", "bundle", []byte("{}")},
	} {
		h.send(message.AgreementArtifact{AgreementID: id, Bundle: string(attempt.bundle)})
		if got := h.refusal(i + 1); got.Reason != attempt.reason {
			t.Errorf("%s: %+v, want %s", attempt.name, got, attempt.reason)
		}
	}
	h.send(message.AgreementArtifact{AgreementID: id, Bundle: string(bundle)})
	review, err := h.victim.Review(t.Context(), agent.ReviewRequest{ID: id, Until: "no_consensus", WaitSeconds: patient})
	if err != nil || len(review.Events) != 2 {
		t.Fatalf("the honest bundle: %+v, %v", review, err)
	}
}

func TestABundleWithAnotherHistoryThanTheOneSeenIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	r, bundle := h.closed()
	a := r.Agreement()
	// The victim saw a comment; the bundle was made from a room without it.
	first := r.Events()[0]
	told, err := agreement.Replay(a, []agreement.Event{first})
	if err != nil {
		t.Fatal(err)
	}
	comment, err := told.Apply(agreement.NewCommand(a, "p1", agreement.ActionComment, "told"), nil, agreement.AssuranceNostrKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.send(h.event(first, agreement.OutcomePending))
	h.send(h.event(comment, agreement.OutcomePending))
	h.seen(a.AgreementID, 2)
	h.send(message.AgreementArtifact{AgreementID: a.AgreementID, Bundle: string(bundle)})
	if got := h.refusal(1); got.Reason != "conflict" {
		t.Errorf("refusal = %+v", got)
	}
}

func TestAnAnswerAboutAnotherActIsRefused(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	r := h.room()
	a := r.Agreement()
	h.send(h.event(r.Events()[0], agreement.OutcomePending))
	h.seen(a.AgreementID, 1)
	if _, err := h.victim.Decide(t.Context(), agent.DecideRequest{Action: "agree", Digest: a.Digest()}); err != nil {
		t.Fatal(err)
	}
	asked := <-h.asked
	// The initiator agreed; the venue passes that off as the victim's act.
	signature, err := agreement.Sign(a, a.Digest(), agreement.ActionAgree, "", h.initiator, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	event, err := r.Apply(agreement.NewCommand(a, "p1", agreement.ActionAgree, ""), &signature, agreement.AssuranceNostrKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	body := h.event(event, agreement.OutcomePending)
	h.send(message.AgreementResult{InReplyTo: asked.ID, AgreementID: a.AgreementID, Event: body.Event})
	if got := h.refusal(1); got.Reason != "chain" {
		t.Errorf("refusal = %+v", got)
	}
	h.send(message.AgreementResult{InReplyTo: a.AgreementID, AgreementID: a.AgreementID, Event: body.Event})
	if got := h.refusal(2); got.Reason != "unknown" {
		t.Errorf("refusal = %+v", got)
	}
	review, err := h.victim.Review(t.Context(), agent.ReviewRequest{})
	if err != nil || review.Commands[0].State != agent.CommandSent {
		t.Errorf("commands = %+v, %v", review, err)
	}
	// The same decision again is the same command, another one is refused.
	if act, err := h.victim.Decide(t.Context(), agent.DecideRequest{Action: "agree", Digest: a.Digest()}); err != nil || act.State != agent.CommandSent {
		t.Errorf("agreeing again: %+v, %v", act, err)
	}
	if _, err := h.victim.Decide(t.Context(), agent.DecideRequest{Action: "disagree", Digest: a.Digest()}); code(err) != agent.CodeRefused {
		t.Errorf("disagreeing meanwhile: %v", err)
	}
	data, err := json.Marshal(review.Commands)
	if err != nil || strings.Count(string(data), `"agree"`) != 1 {
		t.Errorf("commands = %s, %v", data, err)
	}
}

func TestARefusalOfTheVenueIsToldWithItsCode(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	go func() {
		asked := <-h.asked
		h.send(message.AgreementResult{InReplyTo: asked.ID, Refusal: &message.Refusal{Code: "cap", Detail: "too many today"}})
	}()
	_, err := h.victim.Propose(t.Context(), proposal(h.initiator.PublicKey()))
	if code(err) != agent.CodeRefused || !strings.Contains(err.Error(), "too many today") {
		t.Fatalf("err = %v", err)
	}
	if list := h.agreements(); len(list) != 1 || list[0].State != agent.StateRefused || list[0].Reason != "cap" {
		t.Errorf("agreements = %+v", list)
	}
}
