package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
)

func TestRelay_ofTwoServersOnOneDatabaseHoldsTheSameEvents(t *testing.T) {
	address, err := url.Parse(databasetest.NewPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := address.User.Password()
	passwordFile := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address.User = url.User(address.User.Username())
	change := func(cfg *config.Config) {
		cfg.Database, cfg.DatabasePasswordFile = address.String(), passwordFile
		cfg.Relay.Store, cfg.Venue.Enabled = config.StoreDatabase, false
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
	a, b := startServer(t, change), startServer(t, change)
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{AllowLoopback: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	profile := nostr.Event{Kind: nostr.KindProfileMetadata, CreatedAt: nostr.Now(), Content: "{}", Tags: nostr.Tags{}}
	if err := key.Sign(&profile); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Publish(ctx, a.http.Origin().WebSocket()+"/", &profile); err != nil {
		t.Fatal(err)
	}
	found, err := client.Query(ctx, b.http.Origin().WebSocket()+"/", nostr.Filter{Authors: []string{key.PublicKey()}, Limit: 5})
	if err != nil || len(found) != 1 || found[0].ID != profile.ID {
		t.Errorf("the other server has %v, %v", found, err)
	}
	if entries, err := os.ReadDir(filepath.Join(a.cfg.Data, "relay")); err == nil {
		t.Errorf("events lie in the data folder as well: %v", entries)
	}
}

// balancer is the proxy in front of several servers: each connection goes to
// the next one that takes it.
type balancer struct {
	listener net.Listener
	servers  []string // host:port
	next     atomic.Int64
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &balancer{listener: l}
}

func (b *balancer) origin() string { return "http://" + b.listener.Addr().String() }

// run passes connections on to the servers.
func (b *balancer) run() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.pass(client)
	}
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	for range b.servers {
		server, err := net.Dial("tcp", b.servers[int(b.next.Add(1))%len(b.servers)])
		if err != nil {
			continue
		}
		defer server.Close()
		go func() {
			defer client.Close()
			_, _ = io.Copy(client, server)
		}()
		_, _ = io.Copy(server, client)
		return
	}
}

// join makes the configuration of one more server of the balancer's origin,
// with the keys of the first, and returns its path.
func (b *balancer) join(t *testing.T, database, first string) (config string) {
	t.Helper()
	config, own := crashConfig(t, database)
	file, err := os.OpenFile(config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "origin: %s\n", b.origin()); err != nil {
		t.Fatal(err)
	}
	b.servers = append(b.servers, own[len("http://"):])
	if first != "" {
		copyKeys(t, filepath.Join(filepath.Dir(first), "data", "keys"), filepath.Join(filepath.Dir(config), "data", "keys"))
	}
	return config
}

func copyKeys(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil || len(entries) == 0 {
		t.Fatalf("no keys in %s: %v", from, err)
	}
	for _, e := range entries {
		key, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoServersOfOneOriginGoOnWhenOneIsKilled runs two whole servers on one
// PostgreSQL behind one origin, while two agents write to each other, propose
// and decide. One of the servers is killed after a seeded number of answers; the
// other alone brings every room to its outcome, also what the dead one had
// begun. Then the dead one comes back and the other is killed.
func TestTwoServersOfOneOriginGoOnWhenOneIsKilled(t *testing.T) {
	drill, database, front := crashtest.NewDrill(t), databasetest.NewPostgres(t), newBalancer(t)
	var configs []string
	var servers []*crashtest.Child
	for i := range 2 {
		first := ""
		if i > 0 {
			first = configs[0]
		}
		configs = append(configs, front.join(t, database, first))
		servers = append(servers, startCrashChild(t, configs[i], "http://"+front.servers[i]))
	}
	go front.run()
	alice, bob := newCorrespondent(t, "alice"), newCorrespondent(t, "bob")
	both := []*correspondent{alice, bob}
	introduce(t, front.origin(), alice, bob)
	for _, c := range both {
		c.start(t, 0)
	}
	kills := drill.Points / 10
	for kill := range kills {
		answers := drill.Answers(8)
		ctx, stop := context.WithCancel(t.Context())
		for _, c := range both {
			c.work.Go(func() { c.write(ctx) })
			c.work.Go(func() { c.decide(ctx, answers, c == alice) })
		}
		servers[kill%2].KillAfter(t, answers)
		stop()
		aloneSettles(t, alice, bob)
		servers[kill%2] = startCrashChild(t, configs[kill%2], "http://"+front.servers[kill%2])
		if t.Failed() {
			return
		}
	}
	rooms := settled(t, alice, bob)
	checkTexts(t, alice, bob)
	checkTexts(t, bob, alice)
	for _, room := range rooms {
		checkOutcome(t, room, alice, bob)
	}
	for _, c := range both {
		c.stop()
	}
	t.Logf("%d kills, %d texts taken, %d rooms, seed %d", kills, len(alice.taken)+len(bob.taken), len(rooms), drill.Seed)
}

// aloneSettles lets the server that is left open one more room and bring all to
// their outcome.
func aloneSettles(t *testing.T, alice, bob *correspondent) {
	t.Helper()
	uncounted := new(crashtest.Countdown)
	ctx, stop := context.WithCancel(t.Context())
	for _, c := range []*correspondent{alice, bob} {
		c.work.Wait()
		c.work.Go(func() { c.decide(ctx, uncounted, false) })
	}
	alice.propose(ctx, uncounted)
	settled(t, alice, bob)
	stop()
	for _, c := range []*correspondent{alice, bob} {
		c.work.Wait()
	}
}

func TestClusterManual_showsAConfigurationThatIsValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Relay.Store != config.StoreDatabase || cfg.Database == "" || !cfg.Venue.Enabled {
		t.Errorf("the servers of docs/operate-cluster.md do not share everything: %+v", cfg)
	}
}
