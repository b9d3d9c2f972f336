package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/agent/doctor"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/wellknown"
)

// carried is a server with a mailbox and a broker beside its relay.
func carried(t *testing.T) (*agenttest.Server, *httpstest.Server, *mqtttest.Broker) {
	t.Helper()
	server := agenttest.Start(t)
	mailbox := httpstest.Start(t, https.MailboxOptions{})
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{})
	server.Carry(t, wellknown.Carrier{Scheme: "https", Address: mailbox.Address()}, wellknown.Carrier{Scheme: "mqtt", Address: broker.URL})
	return server, mailbox, broker
}

// text sends a text and wants it acknowledged.
func text(t *testing.T, from *agent.Agent, to, words string) {
	t.Helper()
	sent, err := from.SendText(t.Context(), agent.SendRequest{To: to, Text: words, WaitSeconds: 60})
	if err != nil || sent.State != "acked" {
		t.Fatalf("%s: %+v, %v", words, sent, err)
	}
}

func TestTheCardNamesWhatTheServerOffers(t *testing.T) {
	t.Parallel()
	server, mailbox, broker := carried(t)
	alice := server.Running(t, agent.Options{})
	published, err := alice.PublishCard(t.Context(), agent.PublishCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range published.Card.Carriers {
		got = append(got, c.Scheme+" "+c.Address)
	}
	want := []string{"nostr " + server.Relay.URL, "https " + mailbox.Address(), "mqtt " + broker.URL + "/" + mqttbridge.InboxTopic(alice.PublicKey())}
	if !slices.Equal(got, want) {
		t.Errorf("the card names %q, want %q", got, want)
	}
}

// Each carrier alone carries a conversation: the relay refuses, then the mailbox is
// gone as well.
func TestATextFindsTheNextCarrierWhenOneFails(t *testing.T) {
	t.Parallel()
	server, mailbox, _ := carried(t)
	alice, bob := server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	for _, a := range []*agent.Agent{alice, bob} {
		if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	befriend(t, alice, bob, "alice", "bob")
	text(t, alice, "bob", "by the relay")
	server.Refuse(true)
	text(t, alice, "bob", "by the mailbox")
	mailbox.Stop()
	text(t, alice, "bob", "by the broker")
	text(t, bob, "alice", "and back")
	inbox, err := bob.Inbox(t.Context(), agent.InboxRequest{All: true})
	if err != nil || len(inbox.Texts) != 3 {
		t.Errorf("%d texts, want each once (%v)", len(inbox.Texts), err)
	}
}

func TestContactsAreToldTheirOwnTopics(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	push := ntfytest.Start(t, ntfytest.Options{Burst: -1, Tokens: map[string]string{"tk_hush": "bob"}})
	alice, bob := server.Running(t, agent.Options{}), server.Running(t, agent.Options{})
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("tk_hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	added, err := bob.AddCarrier(t.Context(), agent.AddCarrierRequest{Scheme: "ntfy", Address: push.URL, CarrierLogin: agent.CarrierLogin{TokenFile: secret}})
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := json.Marshal(added); err != nil || strings.Contains(string(shown), "hush") {
		t.Errorf("the answer shows a secret: %s, %v", shown, err)
	}
	if _, err := alice.AddCarrier(t.Context(), agent.AddCarrierRequest{Scheme: "ntfy", Address: push.URL}); err != nil {
		t.Fatal(err)
	}
	befriend(t, alice, bob, "alice", "bob")
	text(t, alice, "bob", "by the relay") // the addresses went before it or soon after
	for _, pair := range [][2]*agent.Agent{{alice, bob}, {bob, alice}} {
		eventually(t, "the other's topic", func() bool {
			addresses, err := agent.Resolve(t.Context(), pair[0], pair[1].PublicKey())
			return err == nil && slices.ContainsFunc(addresses, func(a string) bool { return strings.HasPrefix(a, "ntfy "+push.URL+"/") })
		})
	}
	server.Refuse(true)
	text(t, alice, "bob", "by a topic")
	if push.Published() == 0 {
		t.Error("no topic was written to")
	}
	if _, err := alice.RemoveContact(t.Context(), agent.ContactRequest{Who: "bob"}); err != nil {
		t.Fatal(err)
	}
	if addresses, err := agent.Resolve(t.Context(), alice, bob.PublicKey()); err != nil || slices.ContainsFunc(addresses, func(a string) bool { return strings.HasPrefix(a, "ntfy") }) {
		t.Errorf("addresses outlive the contact: %q, %v", addresses, err)
	}
}

func TestDoctor_saysWhichCarrierFails(t *testing.T) {
	t.Parallel()
	server, mailbox, _ := carried(t)
	push := ntfytest.Start(t, ntfytest.Unlimited)
	alice := server.Running(t, agent.Options{})
	if _, err := alice.AddCarrier(t.Context(), agent.AddCarrierRequest{Scheme: "ntfy", Address: push.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]doctor.Verdict{"carrier nostr": doctor.Good, "carrier https": doctor.Good, "carrier mqtt": doctor.Good, "carrier ntfy": doctor.Good, "card": doctor.Good}
	see := func() {
		t.Helper()
		r, err := alice.Doctor(t.Context(), agent.DoctorRequest{WaitSeconds: 30})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range r.Checks {
			if check.Verdict != want[check.Name] {
				t.Errorf("%s is %s: %s", check.Name, check.Verdict, check.Detail)
			}
		}
		if len(r.Checks) != len(want) {
			t.Errorf("%d checks, want %d", len(r.Checks), len(want))
		}
	}
	see()
	mailbox.Stop()
	want["carrier https"] = doctor.Bad
	see()
	if inbox, err := alice.Inbox(t.Context(), agent.InboxRequest{All: true}); err != nil || len(inbox.Texts) != 0 {
		t.Errorf("looking left %d texts (%v)", len(inbox.Texts), err)
	}
}

// An address that nothing can be reached at leaves a home that opens again.
func TestAUselessAddressLeavesTheHomeUsable(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	home := filepath.Join(t.TempDir(), "home")
	alice := server.Agent(t, agent.Options{Home: home})
	for _, address := range []string{"mqtts://broker.example:0", "mqtts://bro!ker.example"} {
		if _, err := alice.AddCarrier(t.Context(), agent.AddCarrierRequest{Scheme: "mqtt", Address: address}); err == nil {
			t.Errorf("%s was taken", address)
		}
	}
	server.Carry(t, wellknown.Carrier{Scheme: "mqtt", Address: "mqtts://parley.example"}, wellknown.Carrier{Scheme: "ntfy", Address: "https://bro!ker.example"})
	if _, err := alice.PinServer(t.Context(), agent.PinRequest{URL: server.URL}); err != nil {
		t.Fatalf("pinning: %v", err)
	}
	alice.Close()
	again, err := agent.New(t.Context(), agent.Options{Home: home})
	if err != nil {
		t.Fatalf("opening the home again: %v", err)
	}
	again.Close()
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !check(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// A command that does not stay is not offline because a broker is.
func TestACarrierBesideTheRelayThatIsDownIsNoOutage(t *testing.T) {
	t.Parallel()
	server, mailbox, broker := carried(t)
	alice := server.Agent(t, agent.Options{})
	mailbox.Stop()
	broker.Stop()
	if err := alice.Sync(t.Context()); err != nil {
		t.Errorf("mailbox and broker are down: %v", err)
	}
	server.Relay.Stop()
	if err := alice.Sync(t.Context()); err == nil {
		t.Error("nobody says that the relay is down")
	}
}
