package agent_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
)

func TestARequestWithAKeyIsDoneOnce(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	alice, bob := server.Agent(t, agent.Options{Now: now}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	send := agent.SendRequest{To: "bob", Text: "once", Key: "order-1234"}
	ids, group := make([]string, 4), sync.WaitGroup{}
	for i := range ids {
		group.Go(func() {
			d, err := alice.SendText(t.Context(), send)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = d.ID
		})
	}
	group.Wait()
	send.WaitSeconds = patient // is no part of what must be the same
	d, err := alice.SendText(t.Context(), send)
	if err != nil || d.State != "acked" {
		t.Fatalf("the same request later: %+v, %v", d, err)
	}
	for _, id := range ids {
		if id != d.ID {
			t.Errorf("the same request sent %v, then %s", ids, d.ID)
		}
	}

	draft := proposal("bob")
	draft.Key, draft.WaitSeconds = "proposal-1", patient
	first, err := alice.Propose(t.Context(), draft)
	if err != nil {
		t.Fatal(err)
	}
	again, err := alice.Propose(t.Context(), draft)
	if err != nil || again.AgreementID != first.AgreementID || again.Digest != first.Digest || again.State != agent.StateOpen {
		t.Errorf("the same proposal = %+v, %v, want that of %s", again, err, first.AgreementID)
	}
	if list, err := alice.Agreements(t.Context(), agent.Empty{}); err != nil || len(list.Agreements) != 1 {
		t.Errorf("agreements %+v, %v, want one", list, err)
	}

	other, crossed := send, draft
	other.Text, crossed.Key = "another text", send.Key
	if _, err := alice.SendText(t.Context(), other); code(err) != agent.CodeRefused {
		t.Errorf("another text under the key: %v", err)
	}
	if _, err := alice.Propose(t.Context(), crossed); code(err) != agent.CodeRefused {
		t.Errorf("a proposal under the key of a text: %v", err)
	}
	other.Key = "short"
	if _, err := alice.SendText(t.Context(), other); code(err) != agent.CodeInvalid {
		t.Errorf("a short key: %v", err)
	}

	ahead.Store(int64(32 * 24 * time.Hour))
	alice = reopen(t, alice, now)
	later, err := alice.SendText(t.Context(), agent.SendRequest{To: "bob", Text: "a month later", Key: send.Key})
	if err != nil || later.ID == d.ID {
		t.Errorf("the key a month later: %+v, %v", later, err)
	}
}

func TestAnErasureTakesTheKeysOfRequests(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Agent(t, agent.Options{}), newKey(t).PublicKey()
	if _, err := alice.SendText(t.Context(), agent.SendRequest{To: bob, Text: "hello", Key: "order-1234"}); err != nil {
		t.Fatal(err)
	}
	if erased := erase(t, alice, agent.EraseRequest{Who: bob}); erased.Removed["idempotency"] != 1 {
		t.Errorf("erased %v, want the key too", erased.Removed)
	}
	if names := holders(t, alice.Home(), "order-1234"); len(names) > 0 {
		t.Errorf("the key is still in %v", names)
	}
}
