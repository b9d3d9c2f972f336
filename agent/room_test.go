package agent

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// offlineAgent is an agent with a pinned server that nothing answers for. The
// test hands it messages as the delivery engine would.
type offlineAgent struct {
	*Agent
	venue, initiator *keys.Nostr
	origin           string
}

func newOfflineAgent(t *testing.T) *offlineAgent {
	t.Helper()
	a, err := New(t.Context(), Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	o := &offlineAgent{Agent: a, venue: generate(t), initiator: generate(t), origin: "http://127.0.0.1:1"}
	err = a.storeServer(t.Context(), Server{Origin: o.origin, Venue: o.venue.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func generate(t *testing.T) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// fataler is what testing.T and rapid.T have in common here.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// tell hands the agent one message of the venue in a transaction of its own.
func (o *offlineAgent) tell(t fataler, body message.Body) error {
	t.Helper()
	m, err := message.New(body.Type(), o.venue.PublicKey(), o.PublicKey(), body, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return o.db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		switch body.(type) {
		case message.AgreementInvite:
			return o.takeInvite(ctx, tx, m)
		case message.AgreementEvent:
			return o.takeEvent(ctx, tx, m)
		case message.AgreementArtifact:
			return o.takeArtifact(ctx, tx, m)
		default:
			return o.takeResult(ctx, tx, m)
		}
	})
}

// proposal is a revision with the agent in it, and the initiator's signature.
func (o *offlineAgent) proposal(t fataler) (*agreement.Agreement, []byte, nostr.Event) {
	t.Helper()
	a, err := agreement.New(agreement.Terms{
		Origin: o.origin, Venue: o.venue.PublicKey(), Title: "Title", Objective: "Objective", Deadline: time.Now().Add(time.Hour),
		Participants: []agreement.Participant{
			{Kind: agreement.KindAgent, PubKey: o.initiator.PublicKey()},
			{Kind: agreement.KindAgent, PubKey: o.PublicKey()},
		},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := a.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := agreement.Sign(a, a.Digest(), agreement.ActionPropose, "", o.initiator, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a, data, signature
}

// invited is a room that the agent was honestly invited to, with n comments.
func (o *offlineAgent) invited(t fataler, n int) *agreement.Room {
	t.Helper()
	a, data, signature := o.proposal(t)
	r, err := agreement.Open(a, signature, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		_, err := r.Apply(agreement.NewCommand(a, "p1", agreement.ActionComment, "word"), nil, agreement.AssuranceNostrKey, time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := o.tell(t, message.AgreementInvite{Revision: string(data), Signature: signature}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (o *offlineAgent) withdraw(t fataler, r *agreement.Room) []byte {
	t.Helper()
	a := r.Agreement()
	signature, err := agreement.Sign(a, a.Digest(), agreement.ActionWithdraw, "", o.initiator, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(agreement.NewCommand(a, "p1", agreement.ActionWithdraw, ""), &signature, agreement.AssuranceNostrKey, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, data, err := agreement.NewBundle(r, o.venue, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// outcomeAfter is the outcome of a room after its first n events.
func outcomeAfter(t fataler, r *agreement.Room, n int) string {
	t.Helper()
	part, err := agreement.Replay(r.Agreement(), r.Events()[:n])
	if err != nil {
		t.Fatal(err)
	}
	return part.Outcome()
}

func eventBytes(t fataler, e agreement.Event) []byte {
	t.Helper()
	data, err := e.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (o *offlineAgent) known(t fataler, id string) []agreement.Event {
	t.Helper()
	v, err := o.review(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v.Events
}

// Whatever order events come in, and however often, the chain ends complete.
func TestEventsInAnyOrderAndRepeatedGiveTheSameChain(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := o.invited(rt, rapid.IntRange(0, 5).Draw(rt, "comments"))
		id, list := r.Agreement().AgreementID, r.Events()
		order := rapid.Permutation(append(indexes(len(list)), rapid.SliceOfN(rapid.IntRange(0, len(list)-1), 0, 4).Draw(rt, "again")...)).Draw(rt, "order")
		for _, i := range order {
			body := message.AgreementEvent{Event: jsontext.Value(eventBytes(rt, list[i])), Outcome: agreement.OutcomePending}
			if err := o.tell(rt, body); err != nil {
				rt.Fatal(err)
			}
		}
		known := o.known(rt, id)
		if len(known) != len(list) || known[len(known)-1].Hash() != r.Head() {
			rt.Fatalf("order %v gives %d of %d events", order, len(known), len(list))
		}
		if v, err := o.review(context.Background(), id); err != nil || len(v.Refusals) != 0 {
			rt.Fatalf("refused on the honest path: %+v, %v", v, err)
		}
	})
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A venue can only make up what the rules let it say on its word alone: talk.
// Whatever it changes, no act that needs a signature enters the chain.
func TestNoChangedActEntersTheChain(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := o.invited(rt, 3)
		id, list := r.Agreement().AgreementID, r.Events()
		honest := make(map[string]bool)
		for _, e := range list {
			honest[e.Hash()] = true
		}
		for range 4 {
			e := list[rapid.IntRange(0, len(list)-1).Draw(rt, "event")]
			rapid.SampledFrom(tamperings).Draw(rt, "change")(&e)
			err := o.tell(rt, message.AgreementEvent{Event: jsontext.Value(eventBytes(rt, e)), Outcome: agreement.OutcomePending})
			if err != nil && !errors.Is(err, errEarly) {
				rt.Fatal(err)
			}
			for _, known := range o.known(rt, id) {
				if talk := agreement.IsAdvisory(known.Action) && known.Signature == nil; !talk && !honest[known.Hash()] {
					rt.Fatalf("accepted %+v", known)
				}
			}
		}
		if v, err := o.review(context.Background(), id); err != nil || v.Outcome != agreement.OutcomePending {
			rt.Fatalf("outcome %s, %v", v.Outcome, err)
		}
	})
}

// tamperings change one thing in an event, or nothing at all.
var tamperings = []func(*agreement.Event){
	func(*agreement.Event) {},
	func(e *agreement.Event) { e.Seq++ },
	func(e *agreement.Event) { e.Prev = agreement.ZeroHash },
	func(e *agreement.Event) {
		e.Body = "other words"
		e.Action = agreement.ActionComment
		e.ParticipantID = "p2"
	},
	func(e *agreement.Event) { e.ParticipantID = "p2" },
	func(e *agreement.Event) { e.RevisionDigest = agreement.ZeroHash },
	func(e *agreement.Event) { e.Action, e.Body = agreement.ActionAgree, "" },
	func(e *agreement.Event) { e.At = canonical.At(e.At.Add(-time.Hour)) },
	func(e *agreement.Event) { e.Signature = nil; e.Assurance = agreement.AssuranceLocalOperator },
}

// No single changed byte of a revision passes, whatever else stays.
func TestAnyChangedByteOfARevisionIsRefused(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	agr, data, signature := o.proposal(t)
	for range 400 {
		changed := append([]byte(nil), data...)
		changed[rand.IntN(len(changed))] ^= 1 << rand.IntN(8)
		if r, reason, err := o.checkRevision(changed, signature, o.venue.PublicKey()); err == nil {
			t.Fatalf("accepted %s (%v, %s)", changed, r, reason)
		}
	}
	if _, _, err := o.checkRevision(data, signature, agr.Venue); err != nil {
		t.Errorf("the honest one: %v", err)
	}
}

func TestABundleFillsInTheEventsThatNeverCame(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	r := o.invited(t, 3)
	bundle := o.withdraw(t, r)
	body := message.AgreementArtifact{AgreementID: r.Agreement().AgreementID, Bundle: string(bundle)}
	for range 2 { // the second time changes nothing
		if err := o.tell(t, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.writeArtifacts(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := o.review(t.Context(), r.Agreement().AgreementID)
	if err != nil || len(v.Events) != 5 || v.Outcome != agreement.OutcomeNoConsensus || v.Folder == "" || len(v.Refusals) != 0 {
		t.Errorf("review = %+v, %v", v, err)
	}
	if got := outcomeAfter(t, r, 4); got != agreement.OutcomePending {
		t.Errorf("before the withdrawal: %s", got)
	}
}

func TestAnEventBeforeItsInvitationIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	agr, _, signature := o.proposal(t)
	r, err := agreement.Open(agr, signature, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	body := message.AgreementEvent{Event: jsontext.Value(eventBytes(t, r.Events()[0])), Outcome: agreement.OutcomePending}
	if err := o.tell(t, body); !errors.Is(err, errEarly) {
		t.Errorf("an early event: %v", err)
	}
	if err := o.tell(t, message.AgreementArtifact{AgreementID: agr.AgreementID, Bundle: "{}"}); !errors.Is(err, errEarly) {
		t.Errorf("an early bundle: %v", err)
	}
	o.now = func() time.Time { return time.Now().Add(2 * patience) }
	if err := o.tell(t, body); err != nil {
		t.Errorf("after the patience: %v", err)
	}
	list, err := o.Refusals(t.Context(), Empty{})
	if err != nil || len(list.Refusals) != 1 || list.Refusals[0].Reason != refusedUnknown {
		t.Errorf("refusals = %+v, %v", list, err)
	}
}

func TestAnAgreementIsPickedByABeginningThatFitsOne(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	if _, err := o.pick(t.Context(), ""); asError(err).Code != CodeNotFound {
		t.Errorf("none open: %v", err)
	}
	first := o.invited(t, 0).Agreement().AgreementID
	if r, err := o.pick(t.Context(), ""); err != nil || r.agreement.AgreementID != first {
		t.Errorf("one open: %v", err)
	}
	second := o.invited(t, 0).Agreement().AgreementID
	for text, want := range map[string]string{first: first, second[:35]: second} {
		if r, err := o.pick(t.Context(), text); err != nil || r.agreement.AgreementID != want {
			t.Errorf("%q picks %v, %v", text, r, err)
		}
	}
	for text, want := range map[string]Code{"": CodeInvalid, first[:4]: CodeInvalid, "ffff": CodeNotFound} {
		if _, err := o.pick(t.Context(), text); asError(err).Code != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAfterTheDeadlineNothingIsSigned(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	agr := o.invited(t, 0).Agreement()
	o.now = func() time.Time { return agr.Deadline.Time }
	_, err := o.Decide(t.Context(), DecideRequest{ID: agr.AgreementID, Action: agreement.ActionAgree, Digest: agr.Digest()})
	if asError(err).Code != CodeRefused {
		t.Errorf("err = %v", err)
	}
	list, err := o.Agreements(t.Context(), Empty{})
	if err != nil || !list.Agreements[0].Overdue {
		t.Errorf("agreements = %+v, %v", list, err)
	}
}

// A clock behind the venue's must not make a signature too early for the room.
func TestASlowClockDoesNotMakeADecisionTooEarly(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	room := o.invited(t, 0)
	r, err := o.pick(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	slow := room.LockedAt().Add(-time.Minute)
	if at, err := o.signingTime(t.Context(), r, slow); err != nil || at.Before(room.LockedAt()) {
		t.Errorf("signed at %v, locked at %v, %v", at, room.LockedAt(), err)
	}
	wrong := room.LockedAt().Add(-time.Hour)
	if at, err := o.signingTime(t.Context(), r, wrong); err != nil || !at.Equal(wrong) {
		t.Errorf("a clock that is wrong altogether is not hidden: %v, %v", at, err)
	}
}

func TestRefusalsAndNoticesAreBounded(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	m, err := message.New(message.TypeText, o.venue.PublicKey(), o.PublicKey(), message.Text{Text: "x"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	err = o.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for range keptNotices + 50 {
			if err := o.refuse(ctx, tx, m, "", refusedShape, errors.New("no")); err != nil {
				return err
			}
		}
		var refusals, notices int
		err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM agent_refusals), (SELECT count(*) FROM agent_notices)`).
			Scan(&refusals, &notices)
		if refusals != keptNotices || notices != keptNotices {
			t.Errorf("%d refusals, %d notices", refusals, notices)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Unsigned talk in the own name is possible by the rules, so it is pointed out.
func TestTalkInTheOwnNameThatIsNotSignedIsPointedOut(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	r := o.invited(t, 0)
	words, err := r.Apply(agreement.NewCommand(r.Agreement(), "p2", agreement.ActionComment, "never said"), nil,
		agreement.AssuranceNostrKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []agreement.Event{r.Events()[0], words} {
		if err := o.tell(t, message.AgreementEvent{Event: jsontext.Value(eventBytes(t, e)), Outcome: agreement.OutcomePending}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := o.review(t.Context(), r.Agreement().AgreementID)
	if err != nil || len(v.Warnings) != 1 {
		t.Errorf("warnings = %q, %v", v.Warnings, err)
	}
}
