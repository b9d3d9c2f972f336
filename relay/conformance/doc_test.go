package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/relay/conformance"
)

var update = flag.Bool("update", false, "write the list of checks into docs/relay.md")

const (
	document = "../../docs/relay.md"
	begin    = "<!-- checks: written by go test ./relay/conformance -run Documented -update -->\n"
	end      = "<!-- end of checks -->\n"
)

func TestChecksAreDocumented(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the list of checks", document)
	}
	want := table()
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", document, diff)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| check | NIP | for | what holds |\n|---|---|---|---|\n")
	for _, c := range conformance.Checks() {
		level := string(c.Level)
		if c.Level == conformance.Conditional {
			level = fmt.Sprintf("NIP-%02d", c.Needs)
		}
		fmt.Fprintf(&b, "| `%s` | %02d | %s | %s |\n", c.Name, c.NIP, level, c.Property)
	}
	return b.String() + "\n"
}
