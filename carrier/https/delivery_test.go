package https_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
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

// A mailbox that is away when it is asked is asked again later; no message dies of it.
func TestAMailboxThatIsAwayIsAskedAgain(t *testing.T) {
	away := networktest.NewProxy(t, "")
	there := httpstest.Start(t, https.MailboxOptions{Origin: "http://" + away.Addr()})
	away.Point(there.Addr)
	away.Refuse(true)
	now := &clock{}
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	carriers, _ := reads(t, there.URL+"0", func(o *https.Options) { o.Inboxes, o.Now = nil, now.time })(key, databasetest.Open(t))
	to := carrier.Address{Scheme: https.Scheme, Address: there.Address()}
	if err := carriers[0].Send(t.Context(), to, wrapFor(t, key, sealed)); !errors.Is(err, carrier.ErrTransient) || errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("at first: %v", err)
	}
	away.Heal()
	var limited *carrier.RateLimited
	if err := carriers[0].Send(t.Context(), to, wrapFor(t, key, sealed)); !errors.As(err, &limited) || limited.After <= 0 {
		t.Errorf("soon after: %v", err)
	}
	now.ahead.Store(int64(25 * time.Hour))
	if err := carriers[0].Send(t.Context(), to, wrapFor(t, key, sealed)); err != nil {
		t.Errorf("a day later: %v", err)
	}
}

// clock runs as the system's, ahead by what a test says.
type clock struct{ ahead atomic.Int64 }

func (c *clock) time() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// A card that names somebody else's server causes one small request a day, over
// restarts, whoever it is about, and never an envelope.
func TestAVictimGetsOneSmallRequestADay(t *testing.T) {
	var gets, others atomic.Int64
	victim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet || len(body) > 0 {
			others.Add(1)
		}
		gets.Add(1)
		http.Error(w, "who are you?", http.StatusInternalServerError)
	}))
	defer victim.Close()
	db := databasetest.Open(t)
	now := &clock{}
	for _, day := range []int64{1, 2} {
		for range 3 { // restarts
			key, err := keys.GenerateNostr()
			if err != nil {
				t.Fatal(err)
			}
			c, err := https.New(t.Context(), https.Options{Signer: key, DB: db, Dialer: egress.New(egress.Options{AllowLoopback: true}), Now: now.time})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := c.Send(t.Context(), carrier.Address{Scheme: "https", Address: victim.URL + "/carrier/v1/envelopes"}, wrapFor(t, key, sealed)); err == nil {
					t.Error("the victim takes envelopes")
				}
			}
			c.Close()
		}
		if gets.Load() != day || others.Load() != 0 {
			t.Errorf("after %d days the victim got %d requests, %d of them no GET", day, gets.Load(), others.Load())
		}
		now.ahead.Add(int64(24*time.Hour + time.Second))
	}
	for i := range 20 { // many keys, many paths
		other, err := keys.GenerateNostr()
		if err != nil {
			t.Fatal(err)
		}
		c, err := https.New(t.Context(), https.Options{Signer: other, DB: db, Dialer: egress.New(egress.Options{AllowLoopback: true}), Now: now.time})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Send(t.Context(), carrier.Address{Scheme: "https", Address: fmt.Sprint(victim.URL, "/", i)}, wrapFor(t, other, ""))
		c.Close()
	}
	if more := gets.Load() - 2; more > 3 || others.Load() != 0 {
		t.Errorf("twenty keys and paths cause %d requests", more)
	}
}

// sealed is a recipient that several wraps are for.
const sealed = "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"

// wrapFor is an envelope for a recipient, "" for a new one.
func wrapFor(t testing.TB, from *keys.Nostr, recipient string) []byte {
	t.Helper()
	if recipient == "" {
		key, err := keys.GenerateNostr()
		if err != nil {
			t.Fatal(err)
		}
		recipient = key.PublicKey()
	}
	m, err := message.New(message.TypeText, from.PublicKey(), recipient, message.Text{Text: "hello"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wraps, err := envelope.Seal(m, from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return wraps[0].Bytes
}
