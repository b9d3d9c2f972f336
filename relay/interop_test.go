package relay_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNostrToolsClientPublishesFindsAndAuthenticates needs node and "npm ci" in testdata/npm.
func TestNostrToolsClientPublishesFindsAndAuthenticates(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	dir := filepath.Join("..", "testdata", "npm")
	if _, err := os.Stat(filepath.Join(dir, "relay.mjs")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "nostr-tools")); err != nil {
		t.Skip("nostr-tools is not installed: run npm ci in testdata/npm")
	}
	cmd := exec.CommandContext(t.Context(), node, "relay.mjs", start(t).URL)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running nostr-tools: %v", err)
	}
	var got struct {
		Card, Wrap       bool
		Refusal, Invalid string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("reading %q: %v", out, err)
	}
	if !got.Card || !got.Wrap {
		t.Errorf("card found: %v, wrap found: %v", got.Card, got.Wrap)
	}
	if !strings.HasPrefix(got.Refusal, "auth-required: ") || !strings.HasPrefix(got.Invalid, "invalid: ") {
		t.Errorf("refusals are %q and %q", got.Refusal, got.Invalid)
	}
}
