package agent_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// nameHost answers for one name as a host of NIP-05.
func nameHost(t *testing.T, answer http.HandlerFunc) (host string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func namesOf(name, pubkey string, relays ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wellknown.NamesPath || r.FormValue("name") != name {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(wellknown.Names{
			Names: map[string]string{name: pubkey}, Relays: map[string][]string{pubkey: relays},
		})
	}
}

func TestACardIsFoundByNameAtTheRelayTheHostNames(t *testing.T) {
	t.Parallel()
	// Alice's card lies on her server only; Bob uses another one.
	hers, his := agenttest.Start(t), agenttest.Start(t)
	alice, bob := hers.Agent(t, agent.Options{}), his.Agent(t, agent.Options{})
	about := "keeps the archive"
	if _, err := alice.PublishCard(t.Context(), agent.PublishCardRequest{About: &about}); err != nil {
		t.Fatal(err)
	}
	if found, err := bob.FindCards(t.Context(), agent.FindRequest{Who: alice.PublicKey()}); err != nil || len(found.Cards) != 0 {
		t.Fatalf("by key: %+v, %v, want none on the own relay", found, err)
	}
	host := nameHost(t, namesOf("alice", alice.PublicKey(), "nonsense", "ws://relay.example", hers.Relay.URL))
	for _, who := range []string{"alice@" + host, "ALICE@" + host} {
		found, err := bob.FindCards(t.Context(), agent.FindRequest{Who: who})
		if err != nil || len(found.Cards) != 1 || found.Cards[0].PubKey != alice.PublicKey() || found.Cards[0].About != about {
			t.Errorf("%s: %+v, %v", who, found, err)
		}
	}
	// Without a named relay the own ones are asked.
	host = nameHost(t, namesOf("bob", bob.PublicKey()))
	if _, err := bob.PublishCard(t.Context(), agent.PublishCardRequest{About: &about}); err != nil {
		t.Fatal(err)
	}
	found, err := bob.FindCards(t.Context(), agent.FindRequest{Who: "bob@" + host})
	if err != nil || len(found.Cards) != 1 || found.Cards[0].PubKey != bob.PublicKey() {
		t.Errorf("on the own relay: %+v, %v", found, err)
	}
}

func TestANameWhoseHostAnswersWrongIsRefusedAndNoRedirectFollowed(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	bob := server.Agent(t, agent.Options{})
	var followed atomic.Bool
	elsewhere := nameHost(t, func(w http.ResponseWriter, r *http.Request) {
		followed.Store(true)
		namesOf("alice", bob.PublicKey())(w, r)
	})
	answers := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere+r.URL.RequestURI(), http.StatusFound)
		},
		"nonsense":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"another name": namesOf("carol", bob.PublicKey()),
		"no key":       namesOf("alice", "npub1x"),
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(" ", wellknown.MaxNamesSize+10)))
		},
	}
	for name, answer := range answers {
		_, err := bob.FindCards(t.Context(), agent.FindRequest{Who: "alice@" + nameHost(t, answer)})
		e, _ := errors.AsType[*agent.Error](err)
		if e == nil || e.Code != agent.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if followed.Load() {
		t.Error("the redirect was followed")
	}
	for _, who := range []string{"alice@", "@host", "a b@host", "alice@host/path"} {
		_, err := bob.FindCards(t.Context(), agent.FindRequest{Who: who})
		if e, _ := errors.AsType[*agent.Error](err); e == nil || e.Code != agent.CodeInvalid {
			t.Errorf("%q: %v", who, err)
		}
	}
}

func TestANamedRelayThatIsSilentIsNoFailure(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	bob := server.Agent(t, agent.Options{})
	gone := relaytest.Start(t, relay.Options{})
	gone.Stop()
	host := nameHost(t, namesOf("bob", bob.PublicKey(), gone.URL))
	found, err := bob.FindCards(t.Context(), agent.FindRequest{Who: "bob@" + host})
	if err != nil || len(found.Cards) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
