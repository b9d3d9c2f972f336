package agent_test

import (
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
)

func TestAPublishedCardIsFoundByKeyAndByWord(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	about := "keeps the archive"
	published, err := alice.PublishCard(t.Context(), agent.PublishCardRequest{About: &about, Can: []string{"archive", "search"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range published.Relays {
		if !r.OK {
			t.Errorf("relay refused kind %d: %s", r.Kind, r.Reason)
		}
	}
	for name, query := range map[string]agent.FindRequest{
		"by key":        {Who: alice.PublicKey()},
		"by word":       {Words: []string{"archive"}},
		"by both words": {Words: []string{"search", "Archive"}},
		"all":           {},
	} {
		found, err := bob.FindCards(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(found.Cards) != 1 || found.Cards[0].PubKey != alice.PublicKey() || found.Cards[0].About != about {
			t.Errorf("%s: found %+v", name, found.Cards)
		}
	}
	found, err := bob.FindCards(t.Context(), agent.FindRequest{Words: []string{"archive", "cooking"}})
	if err != nil || len(found.Cards) != 0 {
		t.Errorf("a word the card lacks: %v, %v", found, err)
	}
}
