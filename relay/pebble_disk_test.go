package relay

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/disktest"
)

// diskPath names the folder of the store to the process of TestDiskChild.
const diskPath = "PARLEY_RELAY_DISK_PATH"

const diskEvents = 30 // of one writer of TestDiskChild, of three

// diskRecords are the events of one writer, the same in every process.
func diskRecords(writer int) (records []*Record) {
	rng := rand.New(rand.NewPCG(uint64(writer), 1))
	for range diskEvents {
		records = append(records, deletionRecord(rng))
	}
	return records
}

// TestDiskChild is the process whose disk fails in TestFailedDiskEndsTheProcess.
func TestDiskChild(t *testing.T) {
	path := os.Getenv(diskPath)
	if path == "" {
		t.Skip("runs as a process of TestFailedDiskEndsTheProcess")
	}
	store, err := openPebble(path, slog.New(slog.NewTextHandler(os.Stderr, nil)), vfs.Default)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store.reserve = 0
	var wait sync.WaitGroup
	for writer := range 3 {
		wait.Go(func() {
			for _, rec := range diskRecords(writer) {
				if _, err := store.Commit(t.Context(), []*Record{rec}, 10); err == nil {
					_, _ = os.Stdout.WriteString("ok " + rec.Event.ID + "\n")
				}
			}
		})
	}
	wait.Wait()
	if err := store.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runDiskChild lets the child write with a fault of its disk.
func runDiskChild(t *testing.T, fault disktest.Fault) (r *disktest.Recording, path, stderr string, code int) {
	t.Helper()
	root := disktest.Scratch(t)
	path = filepath.Join(root, "data", "relay")
	child := exec.Command(os.Args[0], "-test.run=^TestDiskChild$")
	child.Env = append(os.Environ(), diskPath+"="+path)
	var lines bytes.Buffer
	child.Stderr = &lines
	r, err := disktest.Record(t, root, child, fault)
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return r, path, lines.String(), code
}

// holds opens the store as a restart does and looks for what was answered up
// to a point of the recording.
func holds(t *testing.T, r *disktest.Recording, point int, path string) error {
	t.Helper()
	store, err := openPebble(path, nil, vfs.Default)
	if err != nil {
		return err
	}
	defer store.Close()
	known := map[string]*Record{}
	for writer := range 3 {
		for _, rec := range diskRecords(writer) {
			known[rec.Event.ID] = rec
		}
	}
	for _, line := range r.Output {
		id, found := strings.CutPrefix(line.Text, "ok ")
		if !found || line.At >= point {
			continue
		}
		if outcome, err := store.Check(t.Context(), known[id], 10); outcome != Duplicate || err != nil {
			return fmt.Errorf("event %s was answered and is %v: %w", id, outcome, err)
		}
	}
	return nil
}

// The system calls of the real disk fail one after the other. The process ends
// with a plain line, or goes on; what it had answered is there after the next
// start, and after a power cut at any moment.
func TestFailedDiskEndsTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes under strace")
	}
	drill := crashtest.NewDrill(t)
	ended, answered := 0, 0
	for range drill.Points {
		first := 1 + drill.IntN(30)
		fault := disktest.Fault{
			Calls: []string{"fdatasync", "fsync", "fdatasync,fsync"}[drill.IntN(3)],
			Errno: []string{"EIO", "ENOSPC", "EROFS"}[drill.IntN(3)],
			First: first, Last: first + drill.IntN(3),
		}
		r, path, stderr, code := runDiskChild(t, fault)
		answered += len(r.Output)
		switch {
		case code == 1 && strings.Contains(stderr, "the event store failed and ends the process"):
			ended++
		case code == 2 && strings.Contains(stderr, "fatal error: sync: unlock of unlocked mutex"):
			ended++ // Pebble panics without its lock, which nobody can contain
		case code == 1 && strings.Contains(stderr, "opening event store"):
		case code != 0:
			t.Errorf("%v: exit code %d: %s", fault, code, stderr)
		}
		for _, point := range []int{drill.IntN(r.Points() + 1), r.Points()} {
			for _, rng := range []*rand.Rand{nil, drill.Rand} {
				root := disktest.Scratch(t)
				r.Image(t, point, root, rng)
				if err := holds(t, r, point, filepath.Join(root, "data", "relay")); err != nil {
					t.Errorf("%v, cut at %d of %d, random part: %v: %v", fault, point, r.Points(), rng != nil, err)
				}
				_ = os.RemoveAll(root)
			}
		}
		if err := holds(t, r, r.Points(), path); err != nil {
			t.Errorf("%v, after the end: %v", fault, err)
		}
	}
	if ended == 0 {
		t.Error("no failure ended the process")
	}
	t.Logf("%d processes ended, %d lines of output", ended, answered)
}
