package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/canonical"
)

const patient = 60 // seconds that a test waits for what must happen

func proposal(with ...string) agent.ProposeRequest {
	return agent.ProposeRequest{
		Title: "Read access", Objective: "Bob and Carol may read the archive.", Must: []string{"Name the reader."},
		MustNot: []string{"Copies leave the archive."}, Deadline: canonical.At(time.Now().Add(time.Hour)),
		With: with, WaitSeconds: patient,
	}
}

// meet starts a server and three running agents, the first of which knows the
// others as bob and carol.
func meet(t *testing.T) (server *agenttest.Server, alice, bob, carol *agent.Agent) {
	t.Helper()
	server = agenttest.Start(t)
	alice, bob, carol = server.Running(t, agent.Options{}), server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	befriend(t, alice, carol, "alice", "carol")
	return server, alice, bob, carol
}

func propose(t *testing.T, a *agent.Agent) *agent.Proposal {
	t.Helper()
	p, err := a.Propose(t.Context(), proposal("bob", "carol"))
	if err != nil {
		t.Fatal(err)
	}
	if p.State != agent.StateOpen {
		t.Fatalf("the venue did not answer: %+v", p)
	}
	return p
}

func TestThreeAgentsReachAnAgreementAndHoldTheSameFiles(t *testing.T) {
	t.Parallel()
	_, alice, bob, carol := meet(t)
	p := propose(t, alice)
	for _, a := range []*agent.Agent{bob, carol, alice} {
		review, err := a.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient})
		if err != nil {
			t.Fatal(err)
		}
		if review.Digest != p.Digest || canonical.Digest([]byte(review.Revision)) != p.Digest {
			t.Fatalf("digest %s, proposed %s", review.Digest, p.Digest)
		}
		act, err := a.Decide(t.Context(), agent.DecideRequest{Action: "agree", Digest: "sha256:" + p.Digest, WaitSeconds: patient})
		if err != nil || act.State != agent.CommandAccepted {
			t.Fatalf("act = %+v, %v", act, err)
		}
	}
	var consensus []byte
	for _, a := range []*agent.Agent{alice, bob, carol} {
		review, err := a.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "reached", WaitSeconds: patient})
		if err != nil {
			t.Fatal(err)
		}
		checkFolder(t, review)
		data, err := os.ReadFile(filepath.Join(review.Folder, "CONSENSUS.md"))
		if err != nil {
			t.Fatal(err)
		}
		if consensus != nil && string(consensus) != string(data) {
			t.Errorf("two CONSENSUS.md differ: %s", cmp.Diff(string(consensus), string(data)))
		}
		consensus = data
		if len(review.Refusals) != 0 {
			t.Errorf("refused on the honest path: %+v", review.Refusals)
		}
	}
}

// checkFolder verifies the files of a closed agreement against each other.
func checkFolder(t *testing.T, review *agent.Review) {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(review.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if string(read("revision.json")) != review.Revision || string(read("revision.md")) != review.Markdown {
		t.Error("the files are not the revision that was reviewed")
	}
	v, err := agent.Verify(read("bundle.json"), read("CONSENSUS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if v.Digest != review.Digest || v.Outcome != agreement.OutcomeReached || v.OnVenueWord != 0 || len(v.Decisions) != 4 {
		t.Errorf("verification = %+v", v)
	}
	info, err := os.Stat(review.Folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", info, err)
	}
}

func TestAnotherDigestIsRefusedBeforeAnythingIsSigned(t *testing.T) {
	t.Parallel()
	_, alice, _, _ := meet(t)
	p := propose(t, alice)
	other := canonical.Digest([]byte("other"))
	_, err := alice.Decide(t.Context(), agent.DecideRequest{Action: "agree", Digest: other})
	if code(err) != agent.CodeRefused {
		t.Fatalf("another digest: %v", err)
	}
	for _, short := range []string{"", p.Digest[:63], p.Digest + "0", "sha256:" + p.Digest[:8]} {
		if _, err := alice.Decide(t.Context(), agent.DecideRequest{Action: "agree", Digest: short}); code(err) != agent.CodeInvalid {
			t.Errorf("digest %q: %v", short, err)
		}
	}
	review, err := alice.Review(t.Context(), agent.ReviewRequest{})
	if err != nil || len(review.Commands) != 1 || review.Decision != "" {
		t.Errorf("something was sent: %+v, %v", review, err)
	}
}

func TestOneDisagreementClosesTheRoomForAll(t *testing.T) {
	t.Parallel()
	_, alice, bob, carol := meet(t)
	p := propose(t, alice)
	if _, err := bob.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	act, err := bob.Comment(t.Context(), agent.CommentRequest{Kind: "question", Text: "who pays?", WaitSeconds: patient})
	if err != nil || act.State != agent.CommandAccepted {
		t.Fatalf("comment = %+v, %v", act, err)
	}
	act, err = bob.Decide(t.Context(), agent.DecideRequest{Action: "disagree", Digest: p.Digest, WaitSeconds: patient})
	if err != nil || act.Outcome != agreement.OutcomeDisagreed {
		t.Fatalf("act = %+v, %v", act, err)
	}
	if _, err := bob.Decide(t.Context(), agent.DecideRequest{ID: p.AgreementID, Action: "agree", Digest: p.Digest}); code(err) != agent.CodeRefused {
		t.Errorf("a second decision: %v", err)
	}
	_, err = carol.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "reached", WaitSeconds: patient})
	if code(err) != agent.CodeRefused {
		t.Errorf("waiting for reached in a disagreed room: %v", err)
	}
	review, err := alice.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "disagreed", WaitSeconds: patient})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(review.Folder, "CONSENSUS.md")); !os.IsNotExist(err) {
		t.Errorf("a disagreed room has a CONSENSUS.md: %v", err)
	}
	if len(review.Events) != 3 || review.Events[1].Body != "who pays?" {
		t.Errorf("events = %+v", review.Events)
	}
}

func TestTheInitiatorWithdrawsBeforeTheFirstDecision(t *testing.T) {
	t.Parallel()
	_, alice, bob, _ := meet(t)
	p := propose(t, alice)
	if _, err := bob.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Decide(t.Context(), agent.DecideRequest{Action: "withdraw", Digest: p.Digest, WaitSeconds: patient}); code(err) != agent.CodeRefused {
		t.Errorf("an invited one withdrew: %v", err)
	}
	act, err := alice.Decide(t.Context(), agent.DecideRequest{ID: p.AgreementID[:30], Action: "withdraw", Digest: p.Digest, WaitSeconds: patient})
	if err != nil || act.Outcome != agreement.OutcomeNoConsensus {
		t.Fatalf("act = %+v, %v", act, err)
	}
	_, err = bob.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "no_consensus", WaitSeconds: patient})
	if err != nil {
		t.Error(err)
	}
}
