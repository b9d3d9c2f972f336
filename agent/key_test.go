package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/card"
)

// reopen closes an agent and opens its home anew.
func reopen(t *testing.T, a *agent.Agent, now ...func() time.Time) *agent.Agent {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	opts := agent.Options{Home: a.Home()}
	if len(now) > 0 {
		opts.Now = now[0]
	}
	again, err := agent.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

func states(t *testing.T, home string) (list []string) {
	t.Helper()
	ring, err := agent.ReadKeys(home, "")
	if err != nil {
		t.Fatal(err)
	}
	found, err := ring.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range found {
		list = append(list, k.State)
	}
	return list
}

func keyDir(t *testing.T, a *agent.Agent) *keys.Dir {
	t.Helper()
	dir, err := keys.Open(filepath.Join(a.Home(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestASuccessionIsToldByBothCards(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a, b := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	r, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	old := a.PublicKey()
	a = reopen(t, a)
	if a.PublicKey() == old {
		t.Fatal("the key is the old one")
	}
	shown, err := b.ShowCard(t.Context(), agent.ShowCardRequest{Who: r.Old})
	if err != nil || shown.Moved != a.PublicKey() || !shown.MoveProven {
		t.Errorf("old card %+v, %v", shown, err)
	}
	if life := shown.ExpiresAt.Sub(shown.CreatedAt.Time); life != card.MaxLifetime {
		t.Errorf("the last card of the old key lives %v", life)
	}
	own, err := a.ShowCard(t.Context(), agent.ShowCardRequest{})
	if err != nil || own.Previous != old {
		t.Errorf("new card %+v, %v", own, err)
	}
	again, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{})
	if err != nil || again.Old != r.New || again.New == r.New {
		t.Fatalf("a second succession: %+v, %v", again, err)
	}
	middle, err := b.ShowCard(t.Context(), agent.ShowCardRequest{Who: r.New})
	if err != nil || middle.Previous != old || middle.Moved == "" || !middle.MoveProven {
		t.Errorf("the card between: %+v, %v", middle, err)
	}
}

// A succession may stop after each of its durable steps. Opening the home and
// asking again ends with one new key, never with a third.
func TestASuccessionStoppedAnywhereIsCompleted(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	for name, stop := range map[string]func(t *testing.T, a *agent.Agent){
		"the next key is stored": func(t *testing.T, a *agent.Agent) {
			if _, err := keyDir(t, a).NextNostr(keys.Agent); err != nil {
				t.Fatal(err)
			}
		},
		"the cards are published": func(t *testing.T, a *agent.Agent) { agent.StopMove(t, a, agent.StopPublished) },
		"it is recorded":          func(t *testing.T, a *agent.Agent) { agent.StopMove(t, a, agent.StopRecorded) },
		"the old key is retired": func(t *testing.T, a *agent.Agent) {
			agent.StopMove(t, a, agent.StopRecorded)
			files, err := keyDir(t, a).List()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if f.State == keys.Active {
					if err := os.Rename(f.Path, f.Path+".retired"); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"the new key is in use": func(t *testing.T, a *agent.Agent) {
			agent.StopMove(t, a, agent.StopRecorded)
			if _, err := keyDir(t, a).Rotate(keys.Agent); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := server.Agent(t, agent.Options{})
			old := a.PublicKey()
			stop(t, a)
			a = reopen(t, a)
			r, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{})
			if err != nil {
				t.Fatal(err)
			}
			a = reopen(t, a)
			status, err := a.Status(t.Context(), agent.Empty{})
			if err != nil || status.NPub != r.New || a.PublicKey() == old {
				t.Errorf("in use %+v, %v; want %s", status, err, r.New)
			}
			if got := states(t, a.Home()); len(got) != 2 {
				t.Errorf("keys %v", got)
			}
			shown, err := a.ShowCard(t.Context(), agent.ShowCardRequest{Who: old})
			if err != nil || shown.Moved != a.PublicKey() || !shown.MoveProven {
				t.Errorf("old card %+v, %v", shown, err)
			}
		})
	}
}

func TestASuccessionNeedsARelayThatTakesTheCards(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	a, err := agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{}); code(err) != agent.CodeUnavailable {
		t.Errorf("err = %v", err)
	}
	if key, err := keyDir(t, a).Nostr(keys.Agent); err != nil || key.PublicKey() != a.PublicKey() {
		t.Errorf("the key in use changed: %v, %v", key, err)
	}
}

// Somebody else cannot make a contact move: only the card of the key itself and
// that of its successor together are a move.
func TestAMoveThatOneSideTellsIsNotProven(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a, b := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AddContact(t.Context(), agent.ContactRequest{Who: a.PublicKey(), Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	thief, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	publish := func(key *keys.Nostr, previous, moved string) {
		t.Helper()
		now := time.Now()
		c := card.Card{Name: card.DefaultName, Alt: "x", Expires: now.Add(time.Hour), Previous: previous, Moved: moved}
		ev, err := c.Event(now)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		if err := agent.Publish(t, a, server.Relay.URL, &ev); err != nil {
			t.Fatal(err)
		}
	}
	publish(thief, a.PublicKey(), "")
	if _, err := b.AcceptContact(t.Context(), agent.ContactRequest{Who: thief.PublicKey()}); code(err) != agent.CodeNotFound {
		t.Errorf("a claimed predecessor: %v", err)
	}
	mallory, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	publish(mallory, "", a.PublicKey())
	shown, err := b.ShowCard(t.Context(), agent.ShowCardRequest{Who: mallory.PublicKey()})
	if err != nil || shown.Moved != a.PublicKey() || shown.MoveProven {
		t.Errorf("a claimed successor: %+v, %v", shown, err)
	}
	list, err := b.Contacts(t.Context(), agent.Empty{})
	if err != nil || len(list.Contacts) != 2 { // the venue and alice
		t.Errorf("contacts %+v, %v", list, err)
	}
}

// Two keys that name each other as successors do not send a reader in circles.
func TestAMoveInCirclesEnds(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a := server.Agent(t, agent.Options{})
	pair := make([]*keys.Nostr, 2)
	for i := range pair {
		var err error
		if pair[i], err = keys.GenerateNostr(); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range pair {
		other := pair[1-i].PublicKey()
		now := time.Now()
		ev, err := (&card.Card{Name: card.DefaultName, Alt: "x", Expires: now.Add(time.Hour), Previous: other, Moved: other}).Event(now)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		if err := agent.Publish(t, a, server.Relay.URL, &ev); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := a.ShowCard(t.Context(), agent.ShowCardRequest{Who: pair[0].PublicKey()})
	if err != nil || !shown.MoveProven {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestARevokedCardIsGoneAndTheRelayListToo(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a, b := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RevokeKey(t.Context(), agent.Empty{}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*agent.Agent{a, b} {
		if _, err := x.ShowCard(t.Context(), agent.ShowCardRequest{Who: a.PublicKey()}); code(err) != agent.CodeNotFound {
			t.Errorf("err = %v", err)
		}
	}
	kinds := []int{card.Kind, nostr.KindRelayListMetadata}
	left, err := agent.Query(t, b, server.Relay.URL, nostr.Filter{Kinds: kinds, Authors: []string{a.PublicKey()}})
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A relay that keeps a deleted card must not make the agent publish it again.
func TestARevokedCardThatComesBackIsNotRefreshed(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	now := time.Now()
	a := server.Agent(t, agent.Options{Now: func() time.Time { return now }})
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{ExpiresSeconds: 600}); err != nil {
		t.Fatal(err)
	}
	kept, err := agent.Query(t, a, server.Relay.URL, nostr.Filter{Kinds: []int{card.Kind}, Authors: []string{a.PublicKey()}})
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	if _, err := a.RevokeKey(t.Context(), agent.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Remember(t, a, kept[0]); err != nil {
		t.Fatal(err)
	}
	now = now.Add(599 * time.Second)
	if err := agent.RefreshOnce(t, a); err != nil {
		t.Fatal(err)
	}
	if left, err := agent.Query(t, a, server.Relay.URL, nostr.Filter{Kinds: []int{card.Kind}, Authors: []string{a.PublicKey()}}); err != nil || len(left) != 0 {
		t.Errorf("published again: %v, %v", left, err)
	}
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
		t.Errorf("publishing on purpose: %v", err)
	}
}

func TestAPassphraseIsNeverInAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "passphrase")
	if err := os.WriteFile(file, []byte("open sesame\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := agent.New(t.Context(), agent.Options{Home: filepath.Join(dir, "home"), Create: true, PassphraseFile: file})
	if code(err) != agent.CodeInvalid || strings.Contains(err.Error(), "sesame") {
		t.Errorf("err = %v", err)
	}
	if _, err := agent.OpenKeys(filepath.Join(dir, "home"), file); code(err) != agent.CodeInvalid {
		t.Errorf("err = %v", err)
	}
}
