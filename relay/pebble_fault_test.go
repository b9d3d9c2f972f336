package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/disktest"
)

// stopInstead makes the end of the process the end of the goroutine that asks
// for it; ended is closed by the first.
func stopInstead(t *testing.T) (ended chan struct{}) {
	t.Helper()
	ended = make(chan struct{})
	var once sync.Once
	before := exit
	exit = func(int) {
		once.Do(func() { close(ended) })
		runtime.Goexit()
	}
	t.Cleanup(func() { exit = before })
	return ended
}

// deletionRecord is an event that no other one takes the place of.
func deletionRecord(rng *rand.Rand) *Record {
	rec := randomRecord(rng)
	rec.Event.Kind, rec.Event.Tags, rec.Expires = kindDeletion, nostr.Tags{}, 0
	rec.Event.Content = strings.Repeat("x", rng.IntN(8<<10))
	rec.JSON = appendEvent(nil, rec.Event)
	return rec
}

// faultyDisk fails one change of the disk, the one of the number when.
type faultyDisk struct {
	when  atomic.Int64
	errno syscall.Errno
	seen  atomic.Int64
}

func (d *faultyDisk) String() string { return fmt.Sprintf("%v at change %d", d.errno, d.when.Load()) }

// MaybeError implements errorfs.Injector.
func (d *faultyDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileWrite, errorfs.OpCreate, errorfs.OpRename, errorfs.OpReuseForWrite:
		if d.seen.Add(1) == d.when.Load() {
			return d.errno
		}
	}
	return nil
}

// commitAll sends one event after the other until the store ends, and one that
// was refused again. What was answered is returned.
func commitAll(store *pebbleStore, rng *rand.Rand, n int) (answered []*Record) {
	done := make(chan struct{})
	go func() { // the store may end this goroutine
		defer close(done)
		for range n {
			rec := deletionRecord(rng)
			outcomes, err := store.Commit(context.Background(), []*Record{rec}, 10)
			if err == nil && outcomes[0] == Stored {
				answered = append(answered, rec)
			} else if outcome, err := store.Check(context.Background(), rec, 10); err == nil && outcome == Duplicate {
				answered = append(answered, rec)
			}
		}
	}()
	<-done
	return answered
}

// A failed sync leaves events in the store that are not on the disk, and no
// later sync puts them there. So nothing is answered after it but from a store
// that was opened again.
func TestFailedDiskEndsTheStoreAndLosesNoAnswer(t *testing.T) {
	drill := crashtest.NewDrill(t)
	rng, endings := drill.Rand, 0
	for range drill.Points {
		ended := stopInstead(t)
		fs := vfs.NewCrashableMem()
		disk := &faultyDisk{errno: []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}[rng.IntN(3)]}
		store, err := openPebble("store", nil, errorfs.Wrap(fs, disk))
		if err != nil {
			t.Fatal(err)
		}
		disk.seen.Store(0)
		disk.when.Store(1 + rng.Int64N(120))
		answered := commitAll(store, rng, 40)
		after, err := openPebble("store", nil, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(2) * 50, RNG: rng}))
		if err != nil {
			t.Fatalf("%v: %v", disk, err)
		}
		for i, rec := range answered {
			if outcome, err := after.Check(t.Context(), rec, 10); outcome != Duplicate || err != nil {
				t.Errorf("%v: event %d of %d answered is %v, %v", disk, i, len(answered), outcome, err)
			}
		}
		after.Close()
		select {
		case <-ended:
			endings++
		default:
			if disk.seen.Load() >= disk.when.Load() && len(answered) < 40 {
				t.Errorf("%v: %d of 40 events were answered, and the store goes on", disk, len(answered))
			}
			store.Close()
		}
	}
	if endings == 0 {
		t.Error("no failure ended a store")
	}
	t.Logf("%d stores ended", endings)
}

// slowDisk lets no sync end while it is held.
type slowDisk struct {
	held   sync.Mutex
	synced atomic.Int64
}

func (d *slowDisk) String() string { return "slow" }

// MaybeError implements errorfs.Injector.
func (d *slowDisk) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
		d.held.Lock()
		defer d.held.Unlock()
		d.synced.Add(1)
	}
	return nil
}

// "OK true, duplicate" promises as much as "OK true".
func TestDuplicateIsAnsweredAfterTheSyncOfItsEvent(t *testing.T) {
	disk := new(slowDisk)
	store, err := openPebble("store", nil, errorfs.Wrap(vfs.NewMem(), disk))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rec := deletionRecord(rand.New(rand.NewPCG(1, 1)))
	disk.held.Lock()
	before := disk.synced.Load()
	committed, checked := make(chan error, 1), make(chan int64, 1)
	go func() {
		_, err := store.Commit(context.Background(), []*Record{rec}, 10)
		committed <- err
	}()
	for len(query(t, store, nostr.Filter{IDs: []string{rec.Event.ID}}, 0)) == 0 {
		runtime.Gosched() // until the event is to be seen
	}
	go func() {
		if outcome, err := store.Check(context.Background(), rec, 10); outcome != Duplicate || err != nil {
			t.Errorf("got %v, %v", outcome, err)
		}
		checked <- disk.synced.Load()
	}()
	for range 20 { // time for an answer that comes too early
		time.Sleep(time.Millisecond)
	}
	disk.held.Unlock()
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	if at := <-checked; at == before {
		t.Error("answered before the sync")
	}
}

func TestFullDiskIsRefusedUntilThereIsSpace(t *testing.T) {
	volume := disktest.Mount(t, 96<<20)
	store, err := openPebble(volume.Path+"/store", slog.New(slog.DiscardHandler), vfs.Default)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	first, second := deletionRecord(rng), deletionRecord(rng)
	commit(t, store, first)
	volume.Fill(t, diskReserve-1<<20)
	if _, err := store.Commit(t.Context(), []*Record{second}, 10); !errors.Is(err, ErrDiskFull) {
		t.Errorf("got %v, want ErrDiskFull", err)
	}
	if outcome, err := store.Check(t.Context(), second, 10); outcome != Stored || err != nil {
		t.Errorf("after the refusal: %v, %v", outcome, err)
	}
	if got := query(t, store, nostr.Filter{}, 0); len(got) != 1 {
		t.Errorf("%d events can be read, want 1", len(got))
	}
	volume.Empty(t)
	if got := commit(t, store, second); got[0] != Stored {
		t.Errorf("with space again: %v", got)
	}
}
