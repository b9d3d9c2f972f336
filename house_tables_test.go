package parley

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/venue"
)

// stored are the tables that the parts declare, under the heading of
// docs/retention.md that shows them.
func stored() map[string][]retention.Table {
	return map[string][]retention.Table{
		"server": slices.Concat(relay.Retention(), venue.Retention(), carrier.Retention(), https.Retention(), bridge.Retention(), merklelog.Retention()),
		"agent":  agent.Retention(),
	}
}

var update = flag.Bool("update", false, "write the tables of docs/retention.md anew")

// createdTable is how a migration makes a table.
var createdTable = regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?(\w+)`)

func TestEveryTableHasALifetimeAndIsInTheManual(t *testing.T) {
	declared := make(map[string]bool)
	for heading, tables := range stored() {
		for _, table := range tables {
			if declared[table.Name] || table.Name == "" || table.Holds == "" || table.Lifetime == "" {
				t.Errorf("table %q is declared twice, or without what it holds and for how long", table.Name)
			}
			declared[table.Name] = true
		}
		checkManual(t, heading, tables)
	}
	for _, name := range migratedTables(t) {
		if !declared[name] {
			t.Errorf("a migration makes %s, which no Retention declares", name)
		}
		delete(declared, name)
	}
	for name := range declared {
		t.Errorf("%s is declared, and no migration makes it", name)
	}
}

// migratedTables are the names of all tables, each once.
func migratedTables(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*/migrations/*.sql", "*/*/migrations/*.sql"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range createdTable.FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkManual holds one table of docs/retention.md against the declarations.
func checkManual(t *testing.T, heading string, tables []retention.Table) {
	t.Helper()
	page, err := os.ReadFile("docs/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, table := range tables {
		person := "–"
		switch {
		case table.Blank != "":
			person = "emptied"
		case table.Person != "" || table.Erase != "":
			person = "erased"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", table.Name, table.Holds, table.Lifetime, person)
	}
	before, after, _ := strings.Cut(string(page), "<!-- tables: "+heading+" -->\n")
	block, rest, found := strings.Cut(after, "<!-- end -->")
	head := strings.SplitN(block, "\n", 3) // the names of the columns and a line
	if !found || len(head) < 3 {
		t.Fatalf("docs/retention.md has no table of the %s", heading)
	}
	if head[2] == want.String() {
		return
	}
	t.Errorf("docs/retention.md does not say what the %s declares; run go test . -update", heading)
	if *update {
		text := before + "<!-- tables: " + heading + " -->\n" + head[0] + "\n" + head[1] + "\n" + want.String() + "<!-- end -->" + rest
		if err := os.WriteFile("docs/retention.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
