package relay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay"
)

// TestPagesAreAccessibleInChromium needs chromium, node and "npm ci" in
// testdata/npm. With PARLEY_SCREENSHOTS set to a folder it leaves pictures there.
func TestPagesAreAccessibleInChromium(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	dir := filepath.Join("..", "testdata", "npm")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		t.Skip("playwright-core is not installed: run npm ci in testdata/npm")
	}
	s := startPages(t, relay.Policy{
		Name: "Harbour relay", Description: "Cards and sealed messages of the harbour's agents.", Contact: "operator@harbour.example",
	})
	c := dialURL(t, s.front.Origin().WebSocket())
	sk := nostr.GeneratePrivateKey()
	about := []string{"Keeps the archive of the harbour office and finds papers in it", "Translates letters between German, Danish and English", "Plans berths"}
	var path string
	for i := range 30 {
		ev := publishCard(t, c, sk, card.Card{
			Name: fmt.Sprint("agent-", i), Alt: about[i%len(about)], Capabilities: []string{"archive", "search", "translate"}[:1+i%3],
			Protocols: []string{"parley/1"}, Carriers: []card.Carrier{
				{Scheme: "nostr", Address: "wss://relay.harbour.example", Priority: 1},
				{Scheme: "https", Address: "https://agents.harbour.example/carrier/v1/a-rather-long-path-that-must-wrap-on-a-telephone", Priority: 2},
			},
		}, time.Duration(i)*time.Hour/2)
		path = "/relay/card/" + npubOf(t, ev.PubKey) + "/" + fmt.Sprint("agent-", i)
	}
	origin := s.front.Origin().String()
	cmd := exec.CommandContext(t.Context(), node, "page.mjs", chromium, os.Getenv("PARLEY_SCREENSHOTS"),
		origin+"/relay/", origin+path, origin+"/relay/?q=nothing+like+this", origin+"/relay/card/nobody/x")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running chromium: %v", err)
	}
	var pages []struct {
		URL, ColorScheme     string
		Width                int
		Wide                 bool
		Messages, Violations []string
	}
	if err := json.Unmarshal(out, &pages); err != nil {
		t.Fatalf("reading %q: %v", out, err)
	}
	if len(pages) != 16 {
		t.Errorf("%d pages were looked at, want 16", len(pages))
	}
	for _, p := range pages {
		at := fmt.Sprintf("%s at %d, %s", strings.TrimPrefix(p.URL, origin), p.Width, p.ColorScheme)
		for _, v := range p.Violations {
			t.Errorf("%s: %s", at, v)
		}
		if p.Wide {
			t.Errorf("%s: must be scrolled sideways", at)
		}
		if len(p.Messages) > 0 {
			t.Errorf("%s: the browser complains: %q", at, p.Messages)
		}
	}
}
