package agreement

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

// model is a second, plain description of a room.
type model struct {
	n        int
	decided  map[int]string
	count    map[int]int
	outcome  string
	deadline time.Time
}

// expect is the code that a signed command gets, "" if it is accepted.
func (m *model) expect(n int, action string, now time.Time) string {
	limit := MaxEvents
	if _, done := m.decided[n]; IsAdvisory(action) && !done {
		limit--
	}
	switch {
	case m.outcome == OutcomeExpired, m.outcome == OutcomePending && !now.Before(m.deadline):
		return CodeExpired
	case m.outcome != OutcomePending:
		return CodeClosed
	case IsDecision(action) && m.decided[n] != "":
		return CodeAlreadyDecided
	case m.count[n] >= limit:
		return CodeEventLimit
	case action == ActionWithdraw && (n != 1 || len(m.decided) > 0):
		return CodeNotPermitted
	}
	return ""
}

func (m *model) accept(n int, action string) {
	m.count[n]++
	if IsDecision(action) {
		m.decided[n] = action
	}
	switch {
	case action == ActionDisagree:
		m.outcome = OutcomeDisagreed
	case action == ActionAbstain || action == ActionWithdraw:
		m.outcome = OutcomeNoConsensus
	case len(m.decided) == m.n:
		m.outcome = OutcomeReached
	}
}

// TestRoom_followsItsModel plays random rooms against the model and checks that
// the event list alone gives the same room, and a closed one a bundle that
// verifies.
func TestRoom_followsItsModel(t *testing.T) {
	actions := []string{
		ActionComment, ActionComment, ActionQuestion, ActionChangeRequest,
		ActionAgree, ActionAgree, ActionAgree, ActionAgree, ActionDisagree, ActionAbstain, ActionWithdraw,
	}
	rapid.Check(t, func(rt *rapid.T) {
		a := sample(rapid.IntRange(2, 4).Draw(rt, "n"))
		r := openRoom(t, a)
		m := &model{len(a.Participants), map[int]string{}, map[int]int{1: 1}, OutcomePending, a.Deadline.Time}
		now := start
		for range rapid.IntRange(0, 25).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4*3600).Draw(rt, "wait")) * time.Second)
			n := rapid.IntRange(1, m.n).Draw(rt, "who")
			action := rapid.SampledFrom(actions).Draw(rt, "action")
			body := ""
			if IsAdvisory(action) {
				body = rapid.StringN(1, 40, -1).Draw(rt, "body")
				if _, err := canonical.Marshal(body); err != nil {
					continue // no I-JSON text
				}
			}
			want := m.expect(n, action, now)
			_, err := act(r, n, action, body, now)
			wantCode(t, err, want)
			if want == "" {
				m.accept(n, action)
			}
			if rapid.Bool().Draw(rt, "tick") {
				if _, ok := r.Expire(now); ok {
					m.outcome = OutcomeExpired
				}
			}
			if r.Outcome() != m.outcome {
				rt.Fatalf("outcome %s, want %s", r.Outcome(), m.outcome)
			}
		}
		checkReplay(rt, r)
		if r.Closed() {
			checkVerifies(rt, r)
		}
	})
}

func checkReplay(t *rapid.T, r *Room) {
	again, err := Replay(r.agreement, r.Events())
	if err != nil {
		t.Fatal(err)
	}
	if again.Head() != r.Head() || again.Outcome() != r.Outcome() || again.Digest() != r.Digest() {
		t.Fatal("the events give another room")
	}
	for _, p := range r.agreement.Participants {
		_, was := r.Decision(p.ID)
		_, is := again.Decision(p.ID)
		if was != is || r.counts[p.ID] != again.counts[p.ID] || r.bytes[p.ID] != again.bytes[p.ID] {
			t.Fatalf("%s: another state", p.ID)
		}
	}
}

func checkVerifies(t *rapid.T, r *Room) {
	_, data, err := NewBundle(r, venueKey, nil, r.events[len(r.events)-1].At.Time)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Verify(data)
	if err != nil {
		t.Fatal(err)
	}
	if report.Outcome != r.Outcome() || report.Head != r.Head() || (report.ConsensusDigest != "") != (r.Outcome() == OutcomeReached) {
		t.Fatalf("%+v", report)
	}
}

// TestVerify_refusesEveryChangedByte changes, removes or adds one byte.
func TestVerify_refusesEveryChangedByte(t *testing.T) {
	_, data, err := NewBundle(reachedRoom(t, sample(2)), venueKey, nil, start.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(data); err != nil {
		t.Fatal(err)
	}
	refused := func(t interface{ Fatalf(string, ...any) }, changed []byte) {
		if _, err := Verify(changed); err == nil {
			t.Fatalf("accepted:\n%s", changed)
		}
	}
	for i := 0; i < len(data); i += 41 {
		changed := bytes.Clone(data)
		changed[i] ^= 0x20 // other case in hex and text
		refused(t, changed)
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			changed := bytes.Clone(data)
			changed[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "xor"))
			refused(t, changed)
		case 1:
			refused(t, append(bytes.Clone(data[:i]), data[i+1:]...))
		case 2:
			changed := append(bytes.Clone(data[:i]), byte(rapid.IntRange(0, 255).Draw(t, "byte")))
			refused(t, append(changed, data[i:]...))
		}
	})
}
