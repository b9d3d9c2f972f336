package https_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/networktest"
)

// reads makes an agent that reads the mailbox at an origin.
func reads(t testing.TB, origin string, change ...func(*https.Options)) func(*keys.Nostr, *database.DB) ([]carrier.Carrier, []carrier.Address) {
	return func(key *keys.Nostr, db *database.DB) ([]carrier.Carrier, []carrier.Address) {
		opts := https.Options{
			Inboxes: []string{origin}, Signer: key, DB: db, Dialer: egress.New(egress.Options{AllowLoopback: true}),
			Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond},
		}
		for _, c := range change {
			c(&opts)
		}
		c, err := https.New(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return []carrier.Carrier{c}, []carrier.Address{{Scheme: https.Scheme, Address: origin + https.EnvelopesPath}}
	}
}

func TestTwoAgentsTalkOverTheirMailboxes(t *testing.T) {
	a, b := httpstest.Start(t, https.MailboxOptions{}), httpstest.Start(t, https.MailboxOptions{})
	w := carriertest.NewWorld(t)
	alice, bob := w.Add(reads(t, a.URL)), w.Add(reads(t, b.URL))
	carriertest.Befriend(t, alice, bob)
	there, back := carriertest.NewThread(alice, bob), carriertest.NewThread(bob, alice)
	there.Say(150, "hello")
	there.Say(1, strings.Repeat("a long one ", 300))
	back.Say(20, "hello")
	there.WantAcked(t)
	back.WantAcked(t)
}

// Whatever happens to the connections, nothing is lost, nothing is processed twice,
// and a thread keeps its order.
func TestFaultsBetweenAgentAndMailboxLoseNothing(t *testing.T) {
	for _, point := range networktest.Points() {
		t.Run(point.String(), func(t *testing.T) {
			proxy := networktest.NewProxy(t, "")
			server := httpstest.Start(t, https.MailboxOptions{Origin: "http://" + proxy.Addr()})
			proxy.Point(server.Addr)
			w := carriertest.NewWorld(t)
			alice, bob := w.Add(reads(t, "http://"+proxy.Addr())), w.Add(reads(t, "http://"+proxy.Addr()))
			carriertest.Befriend(t, alice, bob)
			thread := carriertest.NewThread(alice, bob)
			thread.Say(1+point.Rand.IntN(5), "before")
			time.Sleep(time.Duration(point.Rand.IntN(50)) * time.Millisecond)
			point.Fault.Begin(proxy)
			thread.Say(1+point.Rand.IntN(5), "during")
			time.Sleep(time.Duration(point.Rand.IntN(300)) * time.Millisecond)
			proxy.Heal()
			thread.Say(1+point.Rand.IntN(5), "after")
			thread.WantAcked(t)
		})
	}
}
