package agent_test

import (
	"errors"
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
)

// befriend makes two agents contacts of each other.
func befriend(t *testing.T, a, b *agent.Agent, nameOfA, nameOfB string) {
	t.Helper()
	if _, err := a.AddContact(t.Context(), agent.ContactRequest{Who: b.PublicKey(), Name: nameOfB}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AddContact(t.Context(), agent.ContactRequest{Who: a.PublicKey(), Name: nameOfA}); err != nil {
		t.Fatal(err)
	}
}

// code is the code of an error, "" for nil.
func code(err error) agent.Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.Code
	}
	return "no code: " + agent.Code(err.Error())
}

func TestATextToAContactIsAcknowledgedAndReadOnce(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	sent, err := alice.SendText(t.Context(), agent.SendRequest{To: "bob", Text: "good morning", WaitSeconds: 30})
	if err != nil || sent.State != "acked" {
		t.Fatalf("delivery = %+v, %v", sent, err)
	}
	inbox, err := bob.Inbox(t.Context(), agent.InboxRequest{WaitSeconds: 30})
	if err != nil || len(inbox.Texts) != 1 {
		t.Fatalf("inbox = %+v, %v", inbox, err)
	}
	if got := inbox.Texts[0]; got.Text != "good morning" || got.Name != "alice" || got.ID != sent.ID || !got.New {
		t.Errorf("text = %+v", got)
	}
	for query, want := range map[agent.InboxRequest]int{
		{}: 0, {All: true}: 1, {All: true, From: "alice"}: 1, {All: true, From: server.VenueKey.PublicKey()}: 0,
	} {
		again, err := bob.Inbox(t.Context(), query)
		if err != nil || len(again.Texts) != want {
			t.Errorf("%+v shows %d texts, want %d (%v)", query, len(again.Texts), want, err)
		}
	}
}

func TestAStrangerWaitsInTheRequestBoxUntilAccepted(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	stranger, bob := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	sent, err := stranger.SendText(t.Context(), agent.SendRequest{To: bob.PublicKey(), Text: "hello \x1b[2J"})
	if err != nil || sent.State != "sent" {
		t.Fatalf("delivery = %+v, %v", sent, err)
	}
	if err := bob.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	inbox, err := bob.Inbox(t.Context(), agent.InboxRequest{})
	if err != nil || len(inbox.Texts) != 0 || inbox.Requests != 1 {
		t.Fatalf("before accepting: %+v, %v", inbox, err)
	}
	requests, err := bob.Requests(t.Context(), agent.Empty{})
	if err != nil || len(requests.Requests) != 1 || requests.Requests[0].Text != "hello \x1b[2J" {
		t.Fatalf("requests = %+v, %v", requests, err)
	}
	if _, err := bob.AcceptContact(t.Context(), agent.ContactRequest{Who: stranger.PublicKey(), Name: "new"}); err != nil {
		t.Fatal(err)
	}
	inbox, err = bob.Inbox(t.Context(), agent.InboxRequest{From: "new"})
	if err != nil || len(inbox.Texts) != 1 || inbox.Requests != 0 {
		t.Fatalf("after accepting: %+v, %v", inbox, err)
	}
	if _, err := bob.AcceptContact(t.Context(), agent.ContactRequest{Who: server.VenueKey.PublicKey()}); code(err) != agent.CodeNotFound {
		t.Errorf("accepting who has not written: %v", err)
	}
}

func TestPetnamesAreUniqueAndNeverLookLikeKeys(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob, carol := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	for name, want := range map[string]agent.Code{
		"bob":             agent.CodeRefused,
		"npub1carol":      agent.CodeInvalid,
		bob.PublicKey():   agent.CodeInvalid,
		"two\nlines":      agent.CodeInvalid,
		"\u202ereversed":  agent.CodeInvalid,
		" space":          agent.CodeInvalid,
		"carol \u00e9 日本": "",
	} {
		_, err := alice.AddContact(t.Context(), agent.ContactRequest{Who: carol.PublicKey(), Name: name})
		if code(err) != want {
			t.Errorf("petname %q: %v, want %q", name, err, want)
		}
	}
	if _, err := alice.AddContact(t.Context(), agent.ContactRequest{Who: alice.PublicKey()}); code(err) != agent.CodeInvalid {
		t.Errorf("the own key as a contact: %v", err)
	}
	if _, err := alice.RemoveContact(t.Context(), agent.ContactRequest{Who: "bob"}); err != nil {
		t.Error(err)
	}
	if _, err := alice.SendText(t.Context(), agent.SendRequest{To: "bob", Text: "x"}); code(err) != agent.CodeNotFound {
		t.Errorf("sending to a removed petname: %v", err)
	}
}
