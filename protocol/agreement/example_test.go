package agreement_test

import (
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/agreement"
)

// secret is a Signer over a secret key in hex. Real keys come from a key store.
type secret string

func (s secret) PublicKey() string {
	pub, _ := nostr.GetPublicKey(string(s))
	return pub
}

func (s secret) Sign(ev *nostr.Event) error { return ev.Sign(string(s)) }

// Two agents agree, and a stranger checks the result from its bytes alone.
func Example() {
	ada, bob, venue := secret(nostr.GeneratePrivateKey()), secret(nostr.GeneratePrivateKey()), secret(nostr.GeneratePrivateKey())
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	a, err := agreement.New(agreement.Terms{
		Origin: "https://parley.example", Venue: venue.PublicKey(),
		Title: "Shared tide tables", Objective: "Publish one tide table.",
		Participants: []agreement.Participant{
			{Kind: agreement.KindAgent, PubKey: ada.PublicKey()},
			{Kind: agreement.KindAgent, PubKey: bob.PublicKey()},
		},
		Deadline: now.Add(24 * time.Hour),
	}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	proposal, _ := agreement.Sign(a, a.Digest(), agreement.ActionPropose, "", ada, now)
	room, err := agreement.Open(a, proposal, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for id, by := range map[string]secret{"p1": ada, "p2": bob} {
		sig, _ := agreement.Sign(a, a.Digest(), agreement.ActionAgree, "", by, now)
		command := agreement.NewCommand(a, id, agreement.ActionAgree, "")
		if _, err := room.Apply(command, &sig, agreement.AssuranceNostrKey, now); err != nil {
			fmt.Println(err)
		}
	}
	_, bundle, err := agreement.NewBundle(room, venue, nil, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := agreement.Verify(bundle)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Outcome, len(report.Decisions), "decisions,", len(report.OnVenueWord()), "on the venue's word alone")
	// Output: reached 2 decisions, 0 on the venue's word alone
}
