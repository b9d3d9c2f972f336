package venue_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/venue"
)

// crashDatabase tells the test binary that it is the process to be killed.
const crashDatabase = "PARLEY_TEST_CRASH_DATABASE"

// A venue that is killed between and within transactions has lost nothing that
// it reported, keeps no half of a command, and goes on where it was.
func TestVenue_killedKeepsEveryRoomIntact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "parley.db")
	told := make(map[string]int64) // the newest seq reported for each room
	for life := range 3 {
		killAfter(t, path, 5+7*life, told)
	}
	h := &house{t: t, db: databasetest.OpenAt(t, path), key: newKey(t), clock: newClock(), outbox: new(outbox)}
	h.venue = h.newVenue()
	rooms := 0
	h.eachRoom(func(id, outcome, head string, bundle bool) {
		rooms++
		room := h.stored(id)
		if room.Outcome() != outcome || room.Head() != head || room.Closed() != bundle {
			t.Errorf("room %s: row and events disagree", id)
		}
		if n := int64(len(room.Events())); n < told[id] {
			t.Errorf("room %s: event %d was reported, %d are stored", id, told[id], n)
		}
		if room.Closed() {
			h.bundleOf(id)
		}
		delete(told, id)
	})
	if len(told) != 0 || rooms < 3 {
		t.Errorf("%d rooms are there, %d reported ones are gone", rooms, len(told))
	}
}

// killAfter starts a process that works on the database, and kills it once it
// has reported that many events.
func killAfter(t *testing.T, path string, events int, told map[string]int64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), crashDatabase+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < events && lines.Scan(); n++ {
		var id string
		var seq int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &id, &seq); err != nil {
			t.Fatalf("child said %q", lines.Text())
		}
		told[id] = seq
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it still said before it died
		var id string
		var seq int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &id, &seq); err == nil {
			told[id] = seq
		}
	}
	child.Wait() //nolint:errcheck // It was killed.
}

// TestCrashChild is the process of the test above; alone it does nothing.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashDatabase)
	if path == "" {
		t.Skip("runs as the child of TestVenue_killedKeepsEveryRoomIntact")
	}
	db, err := database.Open(t.Context(), "sqlite:"+path, database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, db: db, key: newKey(t), clock: newClock(), outbox: new(outbox)}
	h.venue = h.newVenue()
	for {
		p := h.open(h.newParty(3))
		fmt.Printf("%s 1\n", p.a.AgreementID)
		for _, id := range []string{"p1", "p2", "p3"} {
			report(t, h.do(p, id, agreement.ActionComment, "still here"))
			report(t, h.do(p, id, agreement.ActionAgree, ""))
		}
	}
}

func report(t *testing.T, result *venue.Result) {
	t.Helper()
	wantAccepted(t, result)
	e, err := agreement.ParseEvent(result.Event)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s %d\n", e.AgreementID, e.Seq)
}

// eachRoom visits the rows of all rooms.
func (h *house) eachRoom(visit func(id, outcome, head string, bundle bool)) {
	h.t.Helper()
	type row struct {
		id, outcome, head string
		bundle            bool
	}
	var all []row
	err := h.db.View(h.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT agreement, outcome, head, bundle IS NOT NULL FROM venue_rooms")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := rows.Scan(&r.id, &r.outcome, &r.head, &r.bundle); err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range all {
		visit(r.id, r.outcome, r.head, r.bundle)
	}
}
