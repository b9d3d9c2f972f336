package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestCommandsOfTheRelayPageAreRun(t *testing.T) {
	doc, err := os.ReadFile("../../docs/relay.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/relay.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^    (parley .*)$`).FindAllStringSubmatch(string(doc), -1)
	if len(shown) == 0 {
		t.Fatal("docs/relay.md shows no command")
	}
	for _, m := range shown {
		command := strings.ReplaceAll(m[1], "ws://127.0.0.1:8417", "$RELAY")
		if !strings.Contains(string(script), "exec "+command+"\n") {
			t.Errorf("docs/relay.md shows %q, which testdata/relay.txtar does not run", m[1])
		}
	}
}
