package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/mirror"
)

// mixture is a file with every kind of line, and what becomes of its lines in
// an empty target. Over the wire the relay's own words say the same.
func mixture(t *testing.T) (file []byte, want mirror.Summary, kept []*nostr.Event) {
	a := newAuthor(t)
	good := a.cards("good", 3)
	old, replaced := a.card("twice", time.Hour), a.card("twice", time.Minute)
	gone := a.card("gone", time.Hour)
	deletion := a.sign(nostr.Event{Kind: 5, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", gone.ID}}})
	expired := a.sign(nostr.Event{Kind: 0, CreatedAt: nostr.Now() - 60, Tags: nostr.Tags{{"expiration", fmt.Sprint(nostr.Now() - 30)}}})
	forged, moved := *a.card("forged", 0), *a.card("moved", 0)
	forged.Sig = good[0].Sig
	moved.Content = "other"
	strange := a.sign(nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Tags: nostr.Tags{}})
	formless := a.sign(nostr.Event{Kind: 30417, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"d", "x"}}})
	events := append(good, good[0], replaced, old, deletion, gone, expired, &forged, &moved, strange, formless)
	file = append(jsonLines(t, events...), "\n   \n{\"id\":1}\nnonsense\n"+strings.Repeat("x", mirror.DefaultMaxEvent+1)+"\n"...)
	want = mirror.Summary{
		Read: 16, Accepted: 5, Duplicate: 1, Stale: 1, Expired: 1, Deleted: 1,
		Refused: map[mirror.Outcome]int64{
			mirror.WrongSig: 1, mirror.WrongID: 1, mirror.Blocked: 1, mirror.Invalid: 1, mirror.Malformed: 3,
		},
	}
	return file, want, append(good, replaced, deletion)
}

func TestEveryLineOfAFileIsCountedAsWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	file, want, kept := mixture(t)
	store := newStore(t)
	served := serve(t, relay.Options{})
	for name, target := range map[string]struct {
		mirror.Target
		store relay.Store
	}{
		"offline":       {&relay.Importer{Store: store}, store},
		"over the wire": {served.Wire, served.store},
	} {
		if diff := cmp.Diff(want, importInto(t, target, file)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if diff := cmp.Diff(idsOf(kept...), stored(t, target.store)); diff != "" {
			t.Errorf("%s: stored:\n%s", name, diff)
		}
	}
}

// cutOff is a target that fails after some batches.
type cutOff struct {
	mirror.Target
	left int
	seen map[string]int
}

func (c *cutOff) Put(ctx context.Context, events []mirror.Event) ([]mirror.Outcome, error) {
	if c.left--; c.left < 0 {
		return nil, errors.New("cut off")
	}
	for _, ev := range events {
		c.seen[ev.ID]++
	}
	return c.Target.Put(ctx, events)
}

func TestAnImportThatWasCutOffGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	events := a.cards("x", 800)
	path := filepath.Join(t.TempDir(), "cards.jsonl")
	if err := os.WriteFile(path, jsonLines(t, events...), 0o600); err != nil {
		t.Fatal(err)
	}
	store := newStore(t)
	target := &cutOff{Target: &relay.Importer{Store: store}, left: 2, seen: map[string]int{}}
	run := func() (mirror.Summary, int64, error) {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		journal, err := mirror.OpenJournal(file, "a store")
		if err != nil {
			t.Fatal(err)
		}
		begin := journal.Offset()
		sum, err := mirror.Import(t.Context(), mirror.ImportOptions{Input: file, Target: target, Journal: journal})
		return sum, begin, err
	}
	if sum, _, err := run(); err == nil || sum.Read != 512 {
		t.Fatalf("first run: %+v, %v, want an error after 512 events", sum, err)
	}
	target.left = 1
	if sum, _, err := run(); err == nil || sum.Read != 768 {
		t.Fatalf("second run: %+v, %v, want an error after 768 events", sum, err)
	}
	target.left = 100
	sum, begin, err := run()
	if err != nil || begin == 0 || sum.Read != 800 || sum.Accepted != 800 {
		t.Errorf("last run from %d: %+v, %v, want 800 accepted in all together", begin, sum, err)
	}
	for id, n := range target.seen {
		if n != 1 {
			t.Errorf("%s was offered %d times", id, n)
		}
	}
	if diff := cmp.Diff(idsOf(events...), stored(t, store)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(path + mirror.JournalSuffix); !os.IsNotExist(err) {
		t.Errorf("the journal is still there: %v", err)
	}
}

func TestAJournalOfAnotherFileOrTargetDoesNotCount(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	path := filepath.Join(t.TempDir(), "cards.jsonl")
	content := jsonLines(t, a.cards("x", 300)...)
	target := &cutOff{Target: &relay.Importer{Store: newStore(t)}, seen: map[string]int{}}
	begin := func(content []byte, name string, batches int) int64 {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		journal, err := mirror.OpenJournal(file, name)
		if err != nil {
			t.Fatal(err)
		}
		offset := journal.Offset()
		target.left = batches
		_, _ = mirror.Import(t.Context(), mirror.ImportOptions{Input: file, Target: target, Journal: journal})
		return offset
	}
	begin(content, "one", 1)
	if begin(content, "one", 0) == 0 {
		t.Error("the same file and target begin anew")
	}
	if begin(content, "another", 1) != 0 {
		t.Error("another target goes on")
	}
	if begin(jsonLines(t, a.cards("y", 300)...), "another", 0) != 0 {
		t.Error("another content goes on")
	}
	if begin([]byte("short\n"), "another", 1) != 0 {
		t.Error("a shorter file goes on")
	}
}

func TestAnImportEndsWithItsContextEvenWhenTheInputHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	_, err = mirror.Import(ctx, mirror.ImportOptions{Input: reader, Target: &relay.Importer{Store: newStore(t)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Import = %v", err)
	}
}

func TestWrapsGoFromStoreToStoreWithTheirQuota(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	from, to := newStore(t), newStore(t)
	wraps := []*nostr.Event{a.wrap(), a.wrap(), a.card("x", 0)}
	wraps[1] = a.sign(nostr.Event{Kind: 1059, CreatedAt: nostr.Now() - 5, Tags: nostr.Tags{{"p", a.key.PublicKey()}}})
	fill(t, from, wraps...)
	var file bytes.Buffer
	done, err := mirror.Export(&file, relay.Export(t.Context(), from, nostr.Filter{}, time.Now()), nil)
	if err != nil || done.Events != 3 || done.Bytes != int64(file.Len()) {
		t.Fatalf("Export = %+v, %v", done, err)
	}
	sum := importInto(t, &relay.Importer{Store: to, WrapQuota: 1}, file.Bytes())
	if sum.Accepted != 2 || sum.Refused[mirror.RateLimited] != 1 {
		t.Errorf("with room for one wrap: %+v", sum)
	}
}

// FuzzImport: whatever a file holds, every line that is not blank is counted
// once, and nothing that is not signed is stored.
func FuzzImport(f *testing.F) {
	f.Add([]byte("{}\n\n[1]\n"), 64)
	f.Add([]byte("a\r\n\x00\nb"), 1)
	f.Fuzz(func(t *testing.T, file []byte, limit int) {
		if limit < 1 || limit > 1<<16 {
			return
		}
		lines := int64(0)
		for line := range bytes.Lines(file) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines++
			}
		}
		target := &cutOff{seen: map[string]int{}}
		sum, err := mirror.Import(t.Context(), mirror.ImportOptions{Input: bytes.NewReader(file), Target: target, MaxEvent: limit})
		if err != nil || sum.Read < lines || sum.RefusedTotal() != sum.Read {
			t.Fatalf("%d lines: %+v, %v", lines, sum, err)
		}
	})
}
