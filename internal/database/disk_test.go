package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/disktest"
)

// diskPath makes the test binary a program that writes jobs to the database it
// names and prints what it was told; diskSync is its value of synchronous.
const (
	diskPath = "PARLEY_DATABASE_DISK_PATH"
	diskJobs = "PARLEY_DATABASE_DISK_JOBS"
	diskSync = "PARLEY_DATABASE_DISK_SYNC"
)

var halves = fstest.MapFS{"00001_halves.sql": {Data: []byte(`-- +goose Up
CREATE TABLE halves (job INTEGER, half INTEGER, filler BLOB NOT NULL, PRIMARY KEY (job, half));
-- +goose Down
DROP TABLE halves;
`)}}

// bothHalves writes two rows, so that a job that is half there can be seen.
func bothHalves(job int) database.Func {
	return func(ctx context.Context, tx *sql.Tx) error {
		for half := range 2 {
			filler := strings.Repeat(strconv.Itoa(job)+" ", 200)
			if _, err := tx.ExecContext(ctx, "INSERT INTO halves (job, half, filler) VALUES ($1, $2, $3)", job, half, filler); err != nil {
				return err
			}
		}
		return nil
	}
}

// writeOnDisk opens the database twice and writes jobs from several
// goroutines, and more until one is taken. Lines: "start" before each opening, "ok JOB", "no
// JOB ERROR", "open ERROR".
func writeOnDisk(path string) {
	jobs, _ := strconv.Atoi(os.Getenv(diskJobs))
	for session := range 2 {
		db, err := openForWriting(path)
		for try := 0; err != nil && try < 100; try++ {
			say("open", told(err))
			db, err = openForWriting(path)
		}
		if err != nil {
			os.Exit(1)
		}
		writeJobs(db, session*jobs/2, jobs/2)
		for try := 0; try < 100 && !writeJob(db, 1000*(session+1)+try); try++ {
		}
		if err := db.Close(); err != nil {
			say("close", told(err))
		}
	}
}

func openForWriting(path string) (*database.DB, error) {
	say("start")
	db, err := database.Open(context.Background(), "sqlite:"+path, database.Options{Readers: 1})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		database.PragmaOfWriter(db, "wal_autocheckpoint=12"), // many checkpoints and new logs
		database.PragmaOfWriter(db, "synchronous="+os.Getenv(diskSync)),
		db.Migrate(context.Background(), "halves", halves),
	)
	if err != nil {
		_ = db.Close()
	}
	return db, err
}

func writeJobs(db *database.DB, from, jobs int) {
	const workers = 3
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for job := from + worker; job < from+jobs; job += workers {
				writeJob(db, job)
			}
		})
	}
	wait.Wait()
}

func writeJob(db *database.DB, job int) bool {
	run := db.Write
	if job%10 == 9 {
		run = db.Tx
	}
	if err := run(context.Background(), bothHalves(job)); err != nil {
		say("no", strconv.Itoa(job), told(err))
		return false
	}
	say("ok", strconv.Itoa(job))
	return true
}

// say prints a line with one write(2).
func say(words ...string) { _, _ = os.Stdout.WriteString(strings.Join(words, " ") + "\n") }

// told is what a caller can tell of an error.
func told(err error) string {
	switch {
	case errors.Is(err, database.ErrDiskFull):
		return "full"
	case errors.Is(err, database.ErrTransient):
		return "transient"
	}
	return "other: " + err.Error()
}

// recordJobs runs writeOnDisk under strace.
func recordJobs(t *testing.T, jobs int, synchronous string, faults ...disktest.Fault) (*disktest.Recording, string) {
	t.Helper()
	root := disktest.Scratch(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), diskPath+"="+filepath.Join(root, "some", "data", "parley.db"),
		diskJobs+"="+strconv.Itoa(jobs), diskSync+"="+synchronous, "GOMAXPROCS=1")
	child.Stderr = os.Stderr
	r, err := disktest.Record(t, root, child, faults...)
	if err != nil {
		t.Fatalf("the child: %v; %v", err, r.Output)
	}
	return r, filepath.Join(root, "some", "data", "parley.db")
}

// acknowledgedAt is what had been acknowledged at a point of a recording.
func acknowledgedAt(r *disktest.Recording, point int) (jobs []int) {
	for _, line := range r.Output {
		if id, found := strings.CutPrefix(line.Text, "ok "); found && line.At < point {
			job, _ := strconv.Atoi(id)
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// cuts are points of a recording: half of them right after an answer.
func cuts(r *disktest.Recording, n int, rng *rand.Rand) (points []int) {
	for i := range n {
		point := rng.IntN(r.Points() + 1)
		if i%2 == 0 {
			point = r.Output[rng.IntN(len(r.Output))].At + 1
		}
		points = append(points, point)
	}
	return points
}

// afterCut opens the disk as a power cut left it and reports what is wrong.
func afterCut(t *testing.T, r *disktest.Recording, point int, rng *rand.Rand) error {
	t.Helper()
	root := disktest.Scratch(t)
	defer os.RemoveAll(root)
	r.Image(t, point, root, rng)
	path := filepath.Join(root, "some", "data", "parley.db")
	_ = os.Remove(path + "-shm") // memory of processes that are gone
	return checkHalves(t, path, acknowledgedAt(r, point))
}

// checkHalves opens the database as a restart does: every acknowledged job is
// there, none is half there, the file is whole, and it can be written to.
func checkHalves(t *testing.T, path string, acknowledged []int) error {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+path, database.Options{Readers: 1})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(t.Context(), "halves", halves); err != nil {
		return err
	}
	count := map[int]int{}
	err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var check string
		if err := tx.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			return fmt.Errorf("integrity %q: %w", check, err)
		}
		rows, err := tx.QueryContext(ctx, "SELECT job, count(*) FROM halves GROUP BY job")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var job, n int
			if err := rows.Scan(&job, &n); err != nil {
				return err
			}
			count[job] = n
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for job, n := range count {
		if n != 2 {
			return fmt.Errorf("job %d is half there", job)
		}
	}
	for _, job := range acknowledged {
		if count[job] == 0 {
			return fmt.Errorf("job %d of %d acknowledged is missing", job, len(acknowledged))
		}
	}
	return db.Write(t.Context(), bothHalves(1_000_000))
}

func TestAcknowledgedJobs_surviveAPowerCut(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a process under strace")
	}
	drill := crashtest.NewDrill(t)
	r, _ := recordJobs(t, 4*drill.Points, "FULL")
	rng := drill.Rand
	for _, point := range cuts(r, drill.Points, rng) {
		if err := afterCut(t, r, point, nil); err != nil {
			t.Errorf("cut at %d of %d, nothing lasts that was not synced: %v", point, r.Points(), err)
		}
		if err := afterCut(t, r, point, rng); err != nil {
			t.Errorf("cut at %d of %d, a part lasts: %v", point, r.Points(), err)
		}
	}
	t.Logf("%d acknowledged, %d points", len(acknowledgedAt(r, r.Points())), r.Points())
}

// Without a sync before each answer the test above must find a lost job, or it
// would prove nothing.
func TestPowerCut_findsAnAnswerBeforeItsSync(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a process under strace")
	}
	for _, synchronous := range []string{"OFF", "NORMAL"} {
		r, _ := recordJobs(t, 60, synchronous)
		lost := 0
		for _, line := range r.Output[len(r.Output)/2-5 : len(r.Output)/2+5] {
			if err := afterCut(t, r, line.At+1, nil); err != nil {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("synchronous=%s: no job was found lost", synchronous)
		}
		t.Logf("synchronous=%s: %d of 10 cuts lose a job", synchronous, lost)
	}
}
