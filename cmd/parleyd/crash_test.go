package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/wellknown"
)

// TestCrashChild is the server that the test below kills.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	if err := run(context.Background(), []string{"-c", parent.Args[0], "-log.level", "error"}, os.Stdout, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

// TestAKilledServerKeepsWhatItAcknowledged kills relay and venue in one process
// after a seeded number of answers of the venue, again and again, while two
// agents write to each other, propose and decide. In the end every text that was
// taken is there once, every room has reached its outcome and both hold a bundle
// that proves it.
func TestAKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Run("sqlite and pebble", func(t *testing.T) { killServers(t, "") })
	t.Run("postgres", func(t *testing.T) { killServers(t, databasetest.NewPostgres(t)) })
}

func killServers(t *testing.T, database string) {
	drill := crashtest.NewDrill(t)
	config, origin := crashConfig(t, database)
	alice, bob := newCorrespondent(t, "alice"), newCorrespondent(t, "bob")
	both := []*correspondent{alice, bob}
	child := startCrashChild(t, config, origin)
	introduce(t, origin, alice, bob)
	for point := range drill.Points {
		if point > 0 {
			child = startCrashChild(t, config, origin)
		}
		answers := drill.Answers(4)
		ctx, stop := context.WithCancel(t.Context())
		for _, c := range both {
			c.start(t, point)
			c.work.Go(func() { c.write(ctx) })
			c.work.Go(func() { c.decide(ctx, answers, c == alice) })
		}
		child.KillAfter(t, answers)
		stop()
		for _, c := range both {
			c.stop()
		}
		if t.Failed() {
			return
		}
	}
	startCrashChild(t, config, origin)
	ctx, stop := context.WithCancel(t.Context())
	for _, c := range both {
		c.start(t, drill.Points)
		c.work.Go(func() { c.decide(ctx, new(crashtest.Countdown), false) })
	}
	rooms := settled(t, alice, bob)
	stop()
	alice.work.Wait()
	bob.work.Wait()
	checkTexts(t, alice, bob)
	checkTexts(t, bob, alice)
	for _, room := range rooms {
		checkOutcome(t, room, alice, bob)
	}
	for _, c := range both {
		c.stop()
	}
	t.Logf("%d points, %d texts taken, %d rooms with %d decisions accepted before the end, seed %d", drill.Points,
		len(alice.taken)+len(bob.taken), len(rooms), len(alice.accepted)+len(bob.accepted), drill.Seed)
}

// crashConfig writes the configuration of a server on ports that stay the same,
// and returns its path and the server's origin.
func crashConfig(t *testing.T, database string) (path, origin string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	folder := t.TempDir()
	text := fmt.Sprintf("data: %s\nlisten: %s\nmetrics: {listen: \"\"}\nmqttbridge: {broker: {listen: \"127.0.0.1:0\"}}\nvenue: {daily_cap: 10000}\n",
		filepath.Join(folder, "data"), l.Addr())
	if database != "" {
		address, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := address.User.Password()
		address.User = url.User(address.User.Username())
		file := filepath.Join(folder, "password")
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("database: %s\ndatabase_password_file: %s\nrelay: {store: database}\n", address, file)
	}
	path = filepath.Join(folder, "parley.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, "http://" + l.Addr().String()
}

// startCrashChild starts the server and waits until it answers.
func startCrashChild(t *testing.T, config, origin string) *crashtest.Child {
	t.Helper()
	child := crashtest.Start(t, "TestCrashChild", config)
	for range 6000 {
		if answer, err := http.Get(origin + wellknown.Path); err == nil {
			answer.Body.Close()
			return child
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not answer")
	return nil
}

// introduce pins the server and makes the two contacts of each other.
func introduce(t *testing.T, origin string, alice, bob *correspondent) {
	t.Helper()
	var opened []*agent.Agent
	for _, c := range []*correspondent{alice, bob} {
		a, err := agent.New(t.Context(), agent.Options{Home: c.home, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: origin}); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, a)
	}
	for i, c := range []*correspondent{alice, bob} {
		c.peer = opened[1-i].PublicKey()
		if _, err := opened[i].AddContact(t.Context(), agent.ContactRequest{Who: c.peer}); err != nil {
			t.Fatal(err)
		}
	}
}

// settled waits until every room has its outcome at both and nothing is on its
// way, and returns the rooms.
func settled(t *testing.T, alice, bob *correspondent) []agent.Summary {
	t.Helper()
	var rooms []agent.Summary
	for range 1200 {
		rooms = alice.rooms()
		open := alice.pending() + bob.pending()
		if len(bob.rooms()) == len(rooms) && open == 0 {
			return rooms
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%d rooms and messages of alice are open, %d of bob", alice.pending(), bob.pending())
	return nil
}

// checkTexts reads what one wrote in the inbox of the other.
func checkTexts(t *testing.T, from, to *correspondent) {
	t.Helper()
	seen := make(map[string]int)
	for {
		inbox, err := to.agent.Inbox(t.Context(), agent.InboxRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(inbox.Texts) == 0 {
			break
		}
		for _, text := range inbox.Texts {
			if seen[text.Text]++; seen[text.Text] > 1 {
				t.Errorf("%s got %q %d times", to.name, text.Text, seen[text.Text])
			}
		}
	}
	for _, text := range from.taken {
		if seen[text] == 0 {
			t.Errorf("%q of %s was taken and is not with %s", text, from.name, to.name)
		}
	}
}

// checkOutcome compares a room as its two members have it.
func checkOutcome(t *testing.T, room agent.Summary, both ...*correspondent) {
	t.Helper()
	var consensus string
	for _, c := range both {
		q := agent.ReviewRequest{ID: room.AgreementID, Until: agreement.OutcomeReached, WaitSeconds: patient}
		review, err := c.agent.Review(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		agreed := make(map[string]int)
		for _, e := range review.Events {
			if e.Action == agreement.ActionAgree {
				agreed[e.ParticipantID]++
			}
		}
		if len(review.Events) != 3 || agreed["p1"] != 1 || agreed["p2"] != 1 {
			t.Errorf("%s has %d events and %v decisions in room %s", c.name, len(review.Events), agreed, room.AgreementID)
		}
		if seq := c.accepted[room.AgreementID]; seq > 0 && review.Events[seq-1].ParticipantID != review.Me {
			t.Errorf("%s was told that event %d of room %s is its own", c.name, seq, room.AgreementID)
		}
		bundle, err := os.ReadFile(filepath.Join(review.Folder, "bundle.json"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := agent.Verify(bundle, nil)
		if err != nil || v.Digest != room.Digest || consensus != "" && v.ConsensusDigest != consensus {
			t.Errorf("%s holds a bundle of room %s: %+v, %v", c.name, room.AgreementID, v, err)
			continue
		}
		consensus = v.ConsensusDigest
	}
}
