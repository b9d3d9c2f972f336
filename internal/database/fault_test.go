package database_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/disktest"
)

// faultAt fails a few of the system calls that a database makes. The first
// numbers are the syncs of its beginning, one by one; the others are random.
func faultAt(number int, rng *rand.Rand) disktest.Fault {
	errno := []string{"EIO", "ENOSPC", "EROFS"}[rng.IntN(3)]
	if number < 16 {
		return disktest.Fault{Calls: "fsync", Errno: errno, First: number + 1, Last: number + 1}
	}
	first := 1 + rng.IntN(50)
	calls := []string{"pwrite64", "fsync", "pwrite64,fsync,ftruncate"}[rng.IntN(3)]
	return disktest.Fault{Calls: calls, Errno: errno, First: first, Last: first + rng.IntN(8)}
}

// While the disk fails, jobs are refused by name; afterwards the same process
// goes on. What was acknowledged is there after the end of the process, and
// after a power cut at any moment until the file is opened again: that reads
// the log as the page cache has it, and may go on behind a part that is not on
// the disk, which only a start of the machine in between shows. An fsync that succeeds after one that
// failed covers only what was written after the failure, so nothing that was
// written before may have been acknowledged.
func TestFailingDisk_isToldAndLosesNoAcknowledgedJob(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes under strace")
	}
	drill := crashtest.NewDrill(t)
	rng := drill.Rand
	var injected, refused, acknowledged int
	for number := range drill.Points {
		fault := faultAt(number, rng)
		r, path := recordJobs(t, 24, "FULL", fault)
		injected += r.Injected
		told := answers(t, r, fault)
		refused += told["no"] + told["open"]
		acknowledged += told["ok"]
		if last := r.Output[len(r.Output)-1].Text; r.Injected > 0 && !strings.HasPrefix(last, "ok") && !strings.HasPrefix(last, "close") {
			t.Errorf("%v: did not recover: %s", fault, last)
		}
		for _, point := range append(cuts(r, drill.Points/20, rng), reopened(r)) {
			point = min(point, reopened(r))
			if err := afterCut(t, r, point, nil); err != nil {
				t.Errorf("%v, cut at %d of %d, nothing lasts that was not synced: %v", fault, point, r.Points(), err)
			}
			if err := afterCut(t, r, point, rng); err != nil {
				t.Errorf("%v, cut at %d of %d, a part lasts: %v", fault, point, r.Points(), err)
			}
		}
		if err := checkHalves(t, path, acknowledgedAt(r, r.Points())); err != nil {
			t.Errorf("%v, after the end: %v", fault, err)
		}
	}
	t.Logf("%d calls failed, %d acknowledged, %d refused", injected, acknowledged, refused)
	if refused == 0 {
		t.Error("no job met a failure")
	}
}

// reopened is the point of the first opening after a failure, or the end.
func reopened(r *disktest.Recording) int {
	for _, line := range r.Output {
		if r.Injected > 0 && line.Text == "start" && line.At > r.FirstFault {
			return line.At
		}
	}
	return r.Points()
}

// answers counts the lines by their first word; an error without a name is a
// fault of the test's subject.
func answers(t *testing.T, r *disktest.Recording, fault disktest.Fault) map[string]int {
	t.Helper()
	told := map[string]int{}
	for _, line := range r.Output {
		words := strings.Fields(line.Text)
		told[words[0]]++
		if words[0] != "ok" && slices.Contains(words, "other:") {
			t.Errorf("%v: %s", fault, line.Text)
		}
	}
	return told
}
