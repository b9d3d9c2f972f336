package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/protocol/agreement"
)

// TestCrashChild is the daemon that the test below kills.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	a, err := agent.New(context.Background(), agent.Options{Home: parent.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestAKilledDaemonKeepsWhatItAnswered kills the daemon of alice after a seeded
// number of answers on its socket, again and again, while her owner sends texts
// to bob, comments and decides. What was answered arrives once; saying the same
// decision again makes no second one.
func TestAKilledDaemonKeepsWhatItAnswered(t *testing.T) {
	t.Parallel()
	drill := crashtest.NewDrill(t)
	server := agenttest.Start(t)
	bob := server.Running(t, agent.Options{})
	o := newOwner(t, server, bob)
	var peer *agent.Agent
	for point := range drill.Points {
		if point%20 == 0 { // as many rooms as a venue opens for one key in a day
			peer = server.Running(t, agent.Options{})
		}
		o.open = append(o.open, o.room(peer))
		child, client := o.start()
		answers := drill.Answers(24)
		var all sync.WaitGroup
		all.Go(func() { o.sendTexts(client, answers) })
		all.Go(func() { o.decide(client, answers) })
		child.KillAfter(t, answers)
		all.Wait()
		client.Close()
		if t.Failed() {
			return
		}
	}
	_, client := o.start()
	defer client.Close()
	o.check(client)
	t.Logf("%d points, %d texts and %d comments answered, %d rooms decided, seed %d",
		drill.Points, len(o.texts), len(o.comments), len(o.rooms), drill.Seed)
}

// crashRoom is an agreement of alice with a peer that has agreed already.
type crashRoom struct {
	id, digest string
	peer       *agent.Agent
	decided    bool // alice was told to agree, whether or not that was answered
	answers    int  // to that
}

// owner speaks to alice's daemon and remembers what it answered.
type owner struct {
	t     *testing.T
	home  string
	alice string // public key
	bob   *agent.Agent
	rooms []*crashRoom
	open  []*crashRoom // of them, those where alice is still told to agree

	mu       sync.Mutex
	said     int               // texts and comments, each of them another one
	texts    map[string]string // answered, by message id
	comments map[string]bool   // answered
}

func newOwner(t *testing.T, server *agenttest.Server, bob *agent.Agent) *owner {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	a, err := agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: server.URL}); err != nil {
		t.Fatal(err)
	}
	befriend(t, a, bob, "alice", "bob")
	o := &owner{
		t: t, home: home, alice: a.PublicKey(), bob: bob, texts: make(map[string]string), comments: make(map[string]bool),
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// start starts the daemon and waits until its socket answers.
func (o *owner) start() (*crashtest.Child, *agent.Client) {
	o.t.Helper()
	child := crashtest.Start(o.t, "TestCrashChild", o.home)
	for range 6000 {
		client, err := agent.Dial(o.t.Context(), o.home)
		if err == nil {
			return child, client
		}
		if !errors.Is(err, agent.ErrNoDaemon) {
			o.t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	o.t.Fatal("the daemon does not answer")
	return nil, nil
}

// room opens another agreement, to which the peer agrees.
func (o *owner) room(peer *agent.Agent) *crashRoom {
	o.t.Helper()
	p, err := peer.Propose(o.t.Context(), proposal(o.alice))
	if err != nil || p.State != agent.StateOpen {
		o.t.Fatalf("proposal = %+v, %v", p, err)
	}
	q := agent.DecideRequest{ID: p.AgreementID, Action: "agree", Digest: p.Digest, WaitSeconds: patient}
	if _, err := peer.Decide(o.t.Context(), q); err != nil {
		o.t.Fatal(err)
	}
	r := &crashRoom{id: p.AgreementID, digest: p.Digest, peer: peer}
	o.rooms = append(o.rooms, r)
	return r
}

// fresh is a text that was never said before.
func (o *owner) fresh() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said++
	return fmt.Sprint("text ", o.said)
}

// alive reports whether the daemon answered, in whatever way.
func (o *owner) alive(err error) bool { return code(err) != agent.CodeUnavailable }

// sendTexts sends to bob until the daemon dies.
func (o *owner) sendTexts(client *agent.Client, answers *crashtest.Countdown) {
	for {
		text := o.fresh()
		var d agent.Delivery
		err := client.Call(context.Background(), "message.send", agent.SendRequest{To: "bob", Text: text}, &d)
		if !o.alive(err) {
			return
		}
		if err != nil {
			o.t.Errorf("message.send: %v", err)
			return
		}
		o.mu.Lock()
		o.texts[d.ID] = text
		o.mu.Unlock()
		answers.Answer()
	}
}

// decide comments and agrees in every open room until the daemon dies. It says
// a decision three times, and again in the next life when no answer came.
func (o *owner) decide(client *agent.Client, answers *crashtest.Countdown) {
	for len(o.open) > 0 {
		for _, r := range o.open {
			if !o.awaitRoom(client, r) || !r.decided && !o.comment(client, r, answers) || !o.agree(client, r, answers) {
				return
			}
		}
		o.open = slices.DeleteFunc(o.open, func(r *crashRoom) bool { return r.answers >= 3 })
	}
}

// awaitRoom waits for the invitation; false when the daemon died.
func (o *owner) awaitRoom(client *agent.Client, r *crashRoom) bool {
	var review agent.Review
	err := client.Call(context.Background(), "agreement.review", agent.ReviewRequest{ID: r.id, WaitSeconds: patient}, &review)
	if err != nil && o.alive(err) {
		o.t.Errorf("agreement.review: %v", err)
	}
	return err == nil
}

func (o *owner) comment(client *agent.Client, r *crashRoom, answers *crashtest.Countdown) bool {
	text := o.fresh()
	var act agent.Act
	err := client.Call(context.Background(), "agreement.comment",
		agent.CommentRequest{ID: r.id, Kind: agreement.ActionComment, Text: text}, &act)
	if err != nil {
		if o.alive(err) {
			o.t.Errorf("agreement.comment: %v", err)
		}
		return false
	}
	o.mu.Lock()
	o.comments[text] = true
	o.mu.Unlock()
	answers.Answer()
	return true
}

// agree tells alice to agree, once more if she was told before.
func (o *owner) agree(client *agent.Client, r *crashRoom, answers *crashtest.Countdown) bool {
	again := r.decided
	r.decided = true
	var act agent.Act
	err := client.Call(context.Background(), "agreement.decide",
		agent.DecideRequest{ID: r.id, Action: agreement.ActionAgree, Digest: r.digest}, &act)
	switch {
	case !o.alive(err):
		return false
	case err == nil && act.Action != agreement.ActionAgree,
		err != nil && !(again && code(err) == agent.CodeRefused && saysAgreed(err)):
		o.t.Errorf("agreement.decide (again: %v): %+v, %v", again, act, err)
		return false
	}
	r.answers++
	answers.Answer()
	return true
}

// saysAgreed reports whether a refusal names what was decided before.
func saysAgreed(err error) bool {
	return strings.Contains(err.Error(), "decided already: agree") || strings.Contains(err.Error(), "closed: reached")
}

// check decides what is open, lets everything arrive and compares it with what
// was answered.
func (o *owner) check(client *agent.Client) {
	never := new(crashtest.Countdown)
	for _, r := range o.rooms {
		if !o.awaitRoom(client, r) || !o.agree(client, r, never) {
			o.t.Fatal("the daemon died by itself")
		}
	}
	left := make(map[string]bool)
	for text := range o.comments {
		left[text] = true
	}
	for _, r := range o.rooms {
		o.checkRoom(client, r, left)
	}
	for text := range left {
		o.t.Errorf("the comment %q was answered and is in no room", text)
	}
	o.checkTexts(client)
}

// checkRoom takes the comments that it finds out of left.
func (o *owner) checkRoom(client *agent.Client, r *crashRoom, left map[string]bool) {
	o.t.Helper()
	q := agent.ReviewRequest{ID: r.id, Until: agreement.OutcomeReached, WaitSeconds: patient}
	theirs, err := r.peer.Review(o.t.Context(), q)
	if err != nil {
		o.t.Fatal(err)
	}
	var mine agent.Review
	if err := client.Call(o.t.Context(), "agreement.review", q, &mine); err != nil {
		o.t.Fatal(err)
	}
	counts, commands := make(map[string]int), make(map[string]int)
	for _, e := range theirs.Events {
		counts[e.ParticipantID+" "+e.Action+" "+e.Body]++
		delete(left, e.Body)
	}
	for event, times := range counts {
		if times != 1 {
			o.t.Errorf("room %s: %d times %q", r.id, times, event)
		}
	}
	for _, c := range mine.Commands {
		commands[c.Action]++
	}
	if counts["p2 agree "] != 1 || commands[agreement.ActionAgree] != 1 {
		o.t.Errorf("room %s: %d decisions, of %d asked for", r.id, counts["p2 agree "], commands[agreement.ActionAgree])
	}
	bundle, err := os.ReadFile(filepath.Join(mine.Folder, "bundle.json"))
	if err != nil {
		o.t.Fatal(err)
	}
	if v, err := agent.Verify(bundle, nil); err != nil || v.Outcome != agreement.OutcomeReached {
		o.t.Errorf("room %s: bundle %+v, %v", r.id, v, err)
	}
}

// checkTexts waits until nothing is on its way and reads bob's inbox.
func (o *owner) checkTexts(client *agent.Client) {
	o.t.Helper()
	for range 6000 {
		var out agent.OutboxResponse
		if err := client.Call(o.t.Context(), "outbox.list", agent.OutboxRequest{}, &out); err != nil {
			o.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	seen := make(map[string]int) // by text
	for {
		inbox, err := o.bob.Inbox(o.t.Context(), agent.InboxRequest{})
		if err != nil {
			o.t.Fatal(err)
		}
		if len(inbox.Texts) == 0 {
			break
		}
		for _, text := range inbox.Texts {
			if seen[text.Text]++; seen[text.Text] > 1 {
				o.t.Errorf("%q arrived %d times", text.Text, seen[text.Text])
			}
			if want, answered := o.texts[text.ID]; answered && want != text.Text {
				o.t.Errorf("message %s says %q, not %q", text.ID, text.Text, want)
			}
		}
	}
	for id, text := range o.texts {
		if seen[text] == 0 {
			o.t.Errorf("%q was answered (message %s) and did not arrive", text, id)
		}
	}
}
