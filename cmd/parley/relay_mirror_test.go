package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// words splits a command line; single quotes hold words together.
func words(line string) (all []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(line, -1) {
		if strings.HasPrefix(m[0], "'") {
			m[0] = m[1]
		}
		all = append(all, m[0])
	}
	return all
}

// relayWithCards is a relay that holds a card.
func relayWithCards(t *testing.T) *relaytest.Server {
	t.Helper()
	s := relaytest.Start(t, relay.Options{})
	sk := nostr.GeneratePrivateKey()
	pubkey, err := nostr.GetPublicKey(sk)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ev, err := (&card.Card{PubKey: pubkey, Name: "default", Alt: "A card", Expires: now.Add(time.Hour)}).Event(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := ev.Sign(sk); err != nil {
		t.Fatal(err)
	}
	client, err := new(session).relays()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Publish(t.Context(), s.URL, &ev); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheCommandsOfTheOperatorsPageMoveEvents runs them in their order against
// two relays.
func TestTheCommandsOfTheOperatorsPageMoveEvents(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/operate-relay.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^    parley (relay (?:export|import|sync) .*)$`).FindAllStringSubmatch(string(doc), -1)
	if len(shown) < 5 {
		t.Fatalf("the page shows %d commands", len(shown))
	}
	from, to, dir := relayWithCards(t), relayWithCards(t), t.TempDir()
	for _, m := range shown {
		if strings.Contains(m[1], "--follow") {
			continue // it does not end
		}
		var args []string
		for _, w := range words(m[1]) {
			w = strings.NewReplacer("wss://relay.example", from.URL, "wss://other.example", to.URL).Replace(w)
			if strings.HasSuffix(w, ".jsonl") {
				w = filepath.Join(dir, w)
			}
			args = append(args, w)
		}
		var out, errOut bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errOut); code != exitOK {
			t.Errorf("parley %s: exit code %d\n%s%s", m[1], code, out.String(), errOut.String())
		}
	}
	// Both relays have both cards by now.
	for _, s := range []*relaytest.Server{from, to} {
		var out, errOut bytes.Buffer
		if code := run([]string{"relay", "export", s.URL}, nil, &out, &errOut); code != exitOK || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("exit code %d, %d events\n%s", code, strings.Count(out.String(), "\n"), errOut.String())
		}
	}
}

func TestASyncThatOneRelayRefusesTellsSoInItsExitCode(t *testing.T) {
	t.Parallel()
	from := relayWithCards(t)
	nobody := relaytest.Start(t, relay.Options{Policy: relay.Policy{Authors: []string{}}})
	var out, errOut bytes.Buffer
	if code := run([]string{"relay", "sync", from.URL, nobody.URL, "--json"}, nil, &out, &errOut); code != exitRefused {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errOut.String())
	}
	var report struct {
		To struct{ Refused map[string]int }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.To.Refused["restricted"] != 1 {
		t.Errorf("%s: %v", out.String(), err)
	}
}

func TestBarShowsHowMuchIsDone(t *testing.T) {
	t.Parallel()
	for done, want := range map[int64]string{
		0: "[........................]   0%  ", 50: "[############............]  50%  ", 100: "[########################] 100%  ", 150: "[########################] 100%  ",
	} {
		if got := bar(done, 100); got != want {
			t.Errorf("bar(%d) = %q", done, got)
		}
	}
	if got := bar(5, 0); got != "" {
		t.Errorf("without a whole: %q", got)
	}
}
