package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/card"
)

// holders are the files of a home in which text stands.
func holders(t *testing.T, home, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(text)) {
			names = append(names, entry.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func say(t *testing.T, from *agent.Agent, to, text string) {
	t.Helper()
	d, err := from.SendText(t.Context(), agent.SendRequest{To: to, Text: text, WaitSeconds: patient})
	if err != nil || d.State != "acked" {
		t.Fatalf("%q: %+v, %v", text, d, err)
	}
}

func erase(t *testing.T, a *agent.Agent, q agent.EraseRequest) *agent.PersonErased {
	t.Helper()
	erased, err := a.ErasePerson(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return erased
}

func TestAnErasedPersonLeavesNoByteInTheHome(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob, carol := server.Running(t, agent.Options{}), server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	if _, err := bob.PublishCard(t.Context(), agent.PublishCardRequest{About: new("bobcard of bobcard")}); err != nil {
		t.Fatal(err)
	}
	befriend(t, alice, bob, "alice", "bobpetname")
	befriend(t, alice, carol, "alice", "carol")
	say(t, bob, "alice", "bobtext, said to alice")
	say(t, alice, "bobpetname", "alicetext, said to bob")
	say(t, carol, "alice", "caroltext, said to alice")
	traces := []string{"bobtext", "alicetext", "bobpetname", "bobcard", bob.PublicKey()}
	for _, text := range traces {
		if len(holders(t, alice.Home(), text)) == 0 {
			t.Fatalf("%q is in no file before the erase: the search finds nothing", text)
		}
	}
	erased := erase(t, alice, agent.EraseRequest{Who: "bobpetname"})
	for _, table := range []string{"agent_texts", "agent_cards", "agent_notices", "carrier_contacts", "carrier_inbox", "carrier_outbox"} {
		if erased.Removed[table] == 0 {
			t.Errorf("nothing went from %s: %v", table, erased.Removed)
		}
	}
	for _, text := range traces {
		if names := holders(t, alice.Home(), text); len(names) > 0 {
			t.Errorf("%q is still in %v", text, names)
		}
	}
	if again := erase(t, alice, agent.EraseRequest{Who: bob.PublicKey()}); len(again.Removed) > 0 || again.Kept > 0 {
		t.Errorf("a second erase took %v", again)
	}
	inbox, err := alice.Inbox(t.Context(), agent.InboxRequest{All: true})
	if err != nil || len(inbox.Texts) != 1 || !strings.HasPrefix(inbox.Texts[0].Text, "caroltext") {
		t.Errorf("left are %+v, %v, want carol's text", inbox, err)
	}
}

func TestExportHasEveryRowAboutAPerson(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	say(t, bob, "alice", "bobtext, said to alice")
	say(t, alice, "bob", "alicetext, said to bob")
	tables := func(who string) (list []string) {
		t.Helper()
		err := alice.ExportPerson(t.Context(), agent.PersonRequest{Who: who}, func(line []byte) error {
			var row agent.PersonRow
			if err := json.Unmarshal(line, &row); err != nil {
				t.Errorf("row %s: %v", line, err)
			}
			if row.Table == "agent_texts" && !strings.Contains(string(row.Row), `"text":"bobtext, said to alice"`) {
				t.Errorf("text %s", row.Row)
			}
			list = append(list, row.Table)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Compact(list)
	}
	found := tables("bob")
	for _, table := range []string{"agent_texts", "agent_notices", "carrier_contacts", "carrier_inbox", "carrier_outbox"} {
		if !slices.Contains(found, table) {
			t.Errorf("no row of %s, only of %v", table, found)
		}
	}
	erase(t, alice, agent.EraseRequest{Who: "bob"})
	if left := tables(bob.PublicKey()); len(left) > 0 {
		t.Errorf("after the erase there are rows of %v", left)
	}
}

func TestAnExportIsReadRowByRowAndNoPartOfOnePassesForTheWhole(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	say(t, bob, "alice", "one")
	say(t, bob, "alice", "two")
	enough, read := errors.New("enough"), 0
	stop := func([]byte) error { read++; return enough }
	if err := alice.ExportPerson(t.Context(), agent.PersonRequest{Who: "bob"}, stop); !errors.Is(err, enough) || read != 1 {
		t.Errorf("a reader that stops got %d rows, %v", read, err)
	}
	client, err := agent.Dial(t.Context(), alice.Home())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var whole, part int
	if err := client.Stream(t.Context(), "person.export", agent.PersonRequest{Who: "bob"}, func([]byte) error { whole++; return nil }); err != nil || whole < 4 {
		t.Errorf("the daemon gives %d rows, %v", whole, err)
	}
	agent.Damage(t, alice, "DROP TABLE carrier_routes") // read last
	err = client.Stream(t.Context(), "person.export", agent.PersonRequest{Who: "bob"}, func([]byte) error { part++; return nil })
	if code(err) != agent.CodeUnavailable {
		t.Errorf("an export that broke off after %d rows: %v", part, err)
	}
	if err := client.Stream(t.Context(), "person.export", agent.PersonRequest{Who: "nobody"}, stop); code(err) != agent.CodeNotFound {
		t.Errorf("an unknown petname: %v", err)
	}
}

func TestAnErasureWaitsForOpenAgreementsAndKeepsClosedOnesUnlessAsked(t *testing.T) {
	t.Parallel()
	_, alice, bob, _ := meet(t)
	p := propose(t, alice)
	_, err := alice.ErasePerson(t.Context(), agent.EraseRequest{Who: "bob", Agreements: true})
	if code(err) != agent.CodeRefused || !strings.Contains(err.Error(), p.AgreementID) {
		t.Fatalf("with an open agreement: %v", err)
	}
	if list, err := alice.Contacts(t.Context(), agent.Empty{}); err != nil || len(list.Contacts) != 3 {
		t.Errorf("a refused erase changed the contacts: %+v, %v", list, err)
	}
	if _, err := bob.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Decide(t.Context(), agent.DecideRequest{Action: "disagree", Digest: p.Digest, WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	done, err := alice.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "disagreed", WaitSeconds: patient})
	if err != nil {
		t.Fatal(err)
	}

	if erased := erase(t, alice, agent.EraseRequest{Who: "bob"}); erased.Kept != 1 {
		t.Errorf("kept %d agreements, want 1", erased.Kept)
	}
	if names := holders(t, done.Folder, bob.PublicKey()); len(names) == 0 {
		t.Error("the files of a kept agreement are gone")
	}
	if len(holders(t, alice.Home(), bob.PublicKey())) == 0 {
		t.Error("the evidence lost a participant")
	}

	erased := erase(t, alice, agent.EraseRequest{Who: bob.PublicKey(), Agreements: true})
	if erased.Kept != 0 || erased.Removed["agent_rooms"] != 1 || erased.Removed["agent_events"] == 0 || erased.Removed["agent_artifacts"] != 1 {
		t.Errorf("erased %+v", erased)
	}
	for _, text := range []string{p.Title, p.AgreementID, bob.PublicKey()} {
		if names := holders(t, alice.Home(), text); len(names) > 0 {
			t.Errorf("%q is still in %v", text, names)
		}
	}
	if _, err := os.Stat(done.Folder); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	if list, err := alice.Agreements(t.Context(), agent.Empty{}); err != nil || len(list.Agreements) != 0 {
		t.Errorf("agreements = %+v, %v", list, err)
	}
}

func TestAnErasureThatWasCutOffIsCompletedAtTheNextStart(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Agent(t, agent.Options{}), server.Running(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	draft := proposal("bob")
	draft.WaitSeconds = patient
	p, err := alice.Propose(t.Context(), draft)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Review(t.Context(), agent.ReviewRequest{WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Decide(t.Context(), agent.DecideRequest{Action: "disagree", Digest: p.Digest, WaitSeconds: patient}); err != nil {
		t.Fatal(err)
	}
	done, err := alice.Review(t.Context(), agent.ReviewRequest{ID: p.AgreementID, Until: "disagreed", WaitSeconds: patient})
	if err != nil {
		t.Fatal(err)
	}
	if err := alice.Sync(t.Context()); err != nil { // what still waits for the venue is delivered first, and stays until then
		t.Fatal(err)
	}
	agent.EraseUpToTheCommit(t, alice, agent.EraseRequest{Who: "bob", Agreements: true})
	if _, err := os.Stat(filepath.Join(done.Folder, "bundle.json")); err != nil {
		t.Fatalf("files went before the commit was safe: %v", err)
	}
	alice = reopen(t, alice)
	if _, err := os.Stat(done.Folder); !os.IsNotExist(err) {
		t.Errorf("the folder is there after a restart: %v", err)
	}
	for _, text := range []string{p.Title, p.AgreementID, bob.PublicKey()} {
		if names := holders(t, alice.Home(), text); len(names) > 0 {
			t.Errorf("%q is still in %v", text, names)
		}
	}
}

func TestWhatAnAgentNeedsIsNotErased(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a := server.Agent(t, agent.Options{})
	old := a.PublicKey()
	if _, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{}); err != nil {
		t.Fatal(err)
	}
	a = reopen(t, a)
	for name, who := range map[string]string{"itself": a.PublicKey(), "its former key": old, "its venue": server.VenueKey.PublicKey()} {
		if _, err := a.ErasePerson(t.Context(), agent.EraseRequest{Who: who}); code(err) != agent.CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.ErasePerson(t.Context(), agent.EraseRequest{Who: "nobody"}); code(err) != agent.CodeNotFound {
		t.Errorf("an unknown petname: %v", err)
	}
}

func TestStrangersCardsAreForgottenWhenNoOlderOneIsValid(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	var ahead atomic.Int64
	start := time.Now()
	now := func() time.Time { return start.Add(time.Duration(ahead.Load())) }
	a := server.Agent(t, agent.Options{Now: now})
	stranger, friend := newKey(t), newKey(t)
	sign := func(key *keys.Nostr, at time.Time) *nostr.Event {
		t.Helper()
		c := card.Card{
			Name: card.DefaultName, Alt: "a card", Expires: at.Add(card.MaxLifetime), Protocols: []string{"parley/1"},
			Carriers: []card.Carrier{{Scheme: card.SchemeNostr, Address: server.Relay.URL}},
		}
		ev, err := c.Event(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		return &ev
	}
	older := sign(stranger, start.Add(-time.Minute))
	for _, key := range []*keys.Nostr{stranger, friend} {
		if _, err := agent.Remember(t, a, sign(key, start)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.AddContact(t.Context(), agent.ContactRequest{Who: friend.PublicKey()}); err != nil {
		t.Fatal(err)
	}
	known := func(key *keys.Nostr) bool {
		t.Helper()
		if err := agent.ForgetCards(t, a); err != nil {
			t.Fatal(err)
		}
		return agent.Knows(t, a, key.PublicKey())
	}
	if ahead.Store(int64(card.MaxLifetime)); !known(stranger) {
		t.Error("a card was forgotten although an older one may be valid")
	}
	if ahead.Store(int64(card.MaxLifetime + 2*time.Second)); known(stranger) {
		t.Error("a stranger's card is kept for ever")
	}
	if _, err := agent.Remember(t, a, older); err == nil {
		t.Error("an older card came back")
	}
	if !known(friend) {
		t.Error("a contact's card was forgotten")
	}
}

func TestAnErasedSuccessorIsInNoNote(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a, b := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	if _, err := b.AddContact(t.Context(), agent.ContactRequest{Who: a.PublicKey(), Name: "a"}); err != nil {
		t.Fatal(err)
	}
	moved, err := a.SucceedKey(t.Context(), agent.SucceedKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.AcceptContact(t.Context(), agent.ContactRequest{Who: moved.New}); err != nil {
		t.Fatal(err)
	}
	if len(holders(t, b.Home(), moved.New)) == 0 {
		t.Fatal("the note of the old contact does not name the new key")
	}
	erase(t, b, agent.EraseRequest{Who: moved.New})
	if names := holders(t, b.Home(), moved.New); len(names) > 0 {
		t.Errorf("the new key is still named in %v", names)
	}
}
