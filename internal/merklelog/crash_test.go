package merklelog_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/logproof"
)

// TestCrashChild is the process that the test below kills: four callers append
// entries and show checkpoints, and say so once they were answered.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	db := databasetest.OpenURL(t, parent.Args[0], database.Options{})
	life, err := strconv.Atoi(parent.Args[1])
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, db)
	ctx := context.Background()
	parent.Say("ready")
	for caller := range 4 {
		go func() {
			for i := 0; ; i++ {
				n := life<<20 | caller<<16 | i
				if err := db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return l.Append(ctx, tx, leaf(n)) }); err != nil {
					continue // killed servers and connections are for others to test
				}
				parent.Say("appended %d", n)
				if _, _, err := l.Integrate(ctx); err != nil {
					continue
				}
				if signed, err := l.Checkpoint(ctx); err == nil {
					parent.Say("signed %s", base64.StdEncoding.EncodeToString([]byte(signed)))
				}
			}
		}()
	}
	parent.Wait()
}

// history is what killed processes said.
type history struct {
	appended map[int]bool
	shown    map[int64]logproof.Checkpoint // by size
}

// read takes a line. Two trees under one size are the end.
func (h *history) read(t *testing.T, key logproof.Key, line string) {
	t.Helper()
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "appended":
		n, err := strconv.Atoi(rest)
		if err != nil {
			t.Fatal(err)
		}
		h.appended[n] = true
	case "signed":
		note, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := logproof.Open(string(note), logproof.Policy{Log: key})
		if err != nil {
			t.Fatal(err)
		}
		if before, found := h.shown[signed.Size]; found && before != signed.Checkpoint {
			t.Fatalf("two trees of size %d were signed", signed.Size)
		}
		h.shown[signed.Size] = signed.Checkpoint
	}
}

// However often a process is killed, what was appended is in the log once, and
// every checkpoint that anybody saw is a beginning of the log.
func TestKills_makeNoForkAndLoseNoEntry(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { killAgain(t, "sqlite:"+filepath.Join(t.TempDir(), "data", "parley.db")) })
	t.Run("postgres", func(t *testing.T) { killAgain(t, databasetest.NewPostgres(t)) })
}

func killAgain(t *testing.T, address string) {
	drill := crashtest.NewDrill(t)
	h := &history{appended: make(map[int]bool), shown: make(map[int64]logproof.Checkpoint)}
	key, err := logproof.LogKey(origin, secret("log").Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for life := range drill.Points {
		child := crashtest.Start(t, "TestCrashChild", address, fmt.Sprint(life))
		for child.Next(t) != "ready" {
		}
		answers := drill.Answers(1)
		for range drill.IntN(30) {
			h.read(t, key, child.Next(t))
		}
		answers.Answer() // leaves a moment more
		for _, line := range child.KillAfter(t, answers) {
			h.read(t, key, line)
		}
	}
	h.check(t, databasetest.OpenURL(t, address, database.Options{}))
}

// check compares what was said with what is there.
func (h *history) check(t *testing.T, db *database.DB) {
	t.Helper()
	l := newLog(t, db)
	there := make(map[string]bool)
	for _, leaf := range follow(t, db, l) {
		there[string(leaf)] = true
	}
	for n := range h.appended {
		if !there[string(leaf(n))] {
			t.Errorf("entry %d was acknowledged and is lost", n)
		}
	}
	newest := openCheckpoint(t, l).Checkpoint
	for size, c := range h.shown {
		path, err := l.Consistency(t.Context(), size, newest.Size)
		if err == nil {
			err = logproof.CheckConsistency(c, newest, path)
		}
		if err != nil {
			t.Errorf("the checkpoint of size %d is no beginning of the log: %v", size, err)
		}
	}
	if len(h.appended) == 0 || len(h.shown) == 0 {
		t.Error("nothing was done before the kills")
	}
	t.Logf("%d appended, %d checkpoints seen, %d entries", len(h.appended), len(h.shown), newest.Size)
}
