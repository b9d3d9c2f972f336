package bridge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// shortLease is what killed holders have.
const shortLease = 2 * time.Second

// folder is a side that reads the files of one folder by name and appends the ids of
// what is written to a file beside them, so that it outlives its process.
type folder struct {
	name, dir string
	parent    *crashtest.Parent
}

func (f folder) Name() string { return f.name }

func (f folder) Read(ctx context.Context, _ carrier.Cursor, handle func(context.Context, []byte, carrier.Cursor) error) error {
	for ctx.Err() == nil {
		files, err := filepath.Glob(filepath.Join(f.dir, f.name, "*.json"))
		if err != nil {
			return err
		}
		for _, file := range files { // all of them, again and again
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := handle(ctx, data, ""); err != nil {
				return err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

func (f folder) Write(_ context.Context, item bridge.Item) error {
	out, err := os.OpenFile(filepath.Join(f.dir, f.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = fmt.Fprintln(out, os.Getpid(), item.ID)
	if f.parent != nil {
		f.parent.Say("%s", item.ID)
	}
	return err
}

// written counts how often each process wrote each item, by the item's id.
func (f folder) written(t *testing.T) map[string]map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, f.name+".log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	times := map[string]map[string]int{}
	for line := range strings.Lines(string(data)) {
		process, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if times[id] == nil {
			times[id] = map[string]int{}
		}
		times[id][process]++
	}
	return times
}

// TestBridgeChild runs a bridge between two folders until it is killed.
func TestBridgeChild(t *testing.T) {
	parent := crashtest.Begin(t)
	address, holder, dir := parent.Args[0], parent.Args[1], parent.Args[2]
	br, err := bridge.New(t.Context(), bridge.Options{
		DB: databasetest.OpenURL(t, address, database.Options{}), Name: "pair", Holder: holder, Lease: shortLease,
		A: folder{"a", dir, parent}, B: folder{"b", dir, parent},
	})
	if err != nil {
		t.Fatal(err)
	}
	parent.Say("ready")
	if err := br.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestKilledHoldersLoseNothingAndRepeatOnceACrash kills the holder of a bridge again
// and again, while it writes; the next begins under its name or another one.
func TestKilledHoldersLoseNothingAndRepeatOnceACrash(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		killHolders(t, "sqlite:"+filepath.Join(t.TempDir(), "data", "bridge.db"), []string{"one"})
	})
	t.Run("postgres", func(t *testing.T) { killHolders(t, databasetest.NewPostgres(t), []string{"one", "two"}) })
}

func killHolders(t *testing.T, address string, holders []string) {
	dir := t.TempDir()
	for _, side := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, side), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(holder string) *crashtest.Child {
		child := crashtest.Start(t, "TestBridgeChild", address, holder, dir)
		child.Next(t)
		return child
	}
	var other *crashtest.Child
	if len(holders) > 1 {
		other = begin(holders[1])
		other.Kill(t) // it leaves a lease that nobody renews
	}
	total := 0
	const kills = 4
	for range kills {
		child := begin(holders[0])
		for range 10 {
			data := wrap(t, total)
			if err := os.WriteFile(filepath.Join(dir, "a", idOf(t, data)+".json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			total++
		}
		for range 5 {
			child.Next(t)
		}
		child.Kill(t)
	}
	last := begin(holders[len(holders)-1])
	side := folder{name: "b", dir: dir}
	eventually(t, "not everything was moved", func() bool { return len(side.written(t)) == total })
	last.Kill(t)
	repeated := 0
	for id, processes := range side.written(t) {
		for _, n := range processes {
			if n > 1 {
				t.Errorf("one process wrote %s %d times", id, n)
			}
		}
		repeated += len(processes) - 1
	}
	if back := (folder{name: "a", dir: dir}).written(t); len(back) > 0 {
		t.Errorf("%d items came back", len(back))
	}
	t.Logf("%d items, %d kills, %d repetitions", total, kills+len(holders), repeated)
}
