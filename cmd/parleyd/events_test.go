package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestEventCommands_ofTheManualAreRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate-relay.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/events.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^    (parleyd .*relay (?:export|import).*)$`).FindAllStringSubmatch(string(page), -1)
	if len(shown) < 2 {
		t.Fatalf("the page shows %d commands", len(shown))
	}
	for _, m := range shown {
		if !strings.Contains(string(script), "exec "+m[1]+"\n") {
			t.Errorf("docs/operate-relay.md shows %q, which testdata/events.txtar does not run", m[1])
		}
	}
}
