package keys

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func kids(t *testing.T, dir *Dir, p Purpose, s State) (found []string) {
	t.Helper()
	files, err := dir.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Purpose == p && f.State == s {
			found = append(found, f.KID)
		}
	}
	return found
}

func TestRotate_makesTheNextKeyActiveAndKeepsTheOldOne(t *testing.T) {
	dir := openDir(t)
	old, err := dir.EnsureEd25519(Server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Rotate(Server); !errors.Is(err, ErrNoKey) {
		t.Errorf("rotating without a next key: %v", err)
	}
	next, err := dir.NextEd25519(Server)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := dir.NextEd25519(Server); err != nil || again.KID() != next.KID() {
		t.Errorf("the next key changed: %v, %v", again, err)
	}
	if active, err := dir.Ed25519(Server); err != nil || active.KID() != old.KID() {
		t.Errorf("before rotating: %v, %v", active, err)
	}
	file, err := dir.Rotate(Server)
	if err != nil || file.State != Active || file.KID != next.KID() {
		t.Errorf("Rotate = %v, %v", file, err)
	}
	if active, err := dir.EnsureEd25519(Server); err != nil || active.KID() != next.KID() {
		t.Errorf("after rotating: %v, %v", active, err)
	}
	files, err := dir.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		key, err := dir.OpenEd25519(file)
		if err != nil || key.KID() != file.KID {
			t.Errorf("opening the %s key %s: %v", file.State, file.KID, err)
		}
	}
	want := []string{"server." + next.KID(), "server." + old.KID() + ".retired"}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// The way to replace a server's key: retire it by hand and start again.
func TestEnsure_makesANewKeyWhereAllAreRetired(t *testing.T) {
	dir := openDir(t)
	old, err := dir.EnsureEd25519(Server)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir.Path(), "server."+old.KID())
	if err := os.Rename(path, path+".retired"); err != nil {
		t.Fatal(err)
	}
	if fresh, err := dir.EnsureEd25519(Server); err != nil || fresh.KID() == old.KID() {
		t.Errorf("EnsureEd25519 = %v, %v", fresh, err)
	}
	if got := kids(t, dir, Server, Retired); len(got) != 1 || got[0] != old.KID() {
		t.Errorf("retired %v", got)
	}
}

func TestNext_needsAnActiveKey(t *testing.T) {
	dir := openDir(t)
	if _, err := dir.NextNostr(Agent); !errors.Is(err, ErrNoKey) {
		t.Errorf("error %v", err)
	}
	if found := names(t, dir); len(found) != 0 {
		t.Errorf("files %v", found)
	}
}

func TestList_passesOverOtherNames(t *testing.T) {
	dir := openDir(t)
	for _, name := range []string{
		"agent.00000000.active", "agent.00000000.old", "agent.00000000.next.next", "agent.0000000g.next",
		"root.00000000.next", "agent", ".new-1", "agent.00000000.",
	} {
		if err := os.WriteFile(filepath.Join(dir.Path(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := dir.List(); err != nil || len(files) != 0 {
		t.Errorf("List = %v, %v", files, err)
	}
}

func TestImportNostr_isRefusedWhileARotationIsCutOff(t *testing.T) {
	dir := openDir(t)
	key, err := dir.EnsureNostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir.Path(), "agent."+key.KID()), filepath.Join(dir.Path(), "agent."+key.KID()+".next")); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.ImportNostr(Agent, vectorNSec); !errors.Is(err, ErrExists) {
		t.Errorf("error %v", err)
	}
	if ensured, err := dir.EnsureNostr(Agent); err != nil || ensured.KID() != key.KID() {
		t.Errorf("EnsureNostr = %v, %v", ensured, err)
	}
}

var errStopped = errors.New("stopped")

// TestRotation_stoppedAnywhereLeavesOneKeyInUse stops a chain of rotations
// before any of its changes, opens the folder anew and goes on: no key is
// lost, none is made twice, and the key in use is always the old or the new one.
func TestRotation_stoppedAnywhereLeavesOneKeyInUse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := t.TempDir()
		if err := os.Chmod(path, 0o700); err != nil {
			rt.Fatal(err)
		}
		dir, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		first, err := dir.EnsureNostr(Agent)
		if err != nil {
			rt.Fatal(err)
		}
		inUse, rotations := first.KID(), rapid.IntRange(1, 4).Draw(rt, "rotations")
		for range rotations {
			var next string
			for done := false; !done; {
				left := rapid.IntRange(0, 3).Draw(rt, "changes before the stop")
				dir, _ = Open(path)
				dir.fault = func() error {
					if left--; left < 0 {
						return errStopped
					}
					return nil
				}
				inUse, next, done = rotateOnce(rt, dir, inUse, next)
			}
			if inUse != next {
				rt.Fatalf("key %s in use after rotating to %s", inUse, next)
			}
		}
		if got := len(kids(t, dir, Agent, Retired)); got != rotations {
			rt.Errorf("%d retired keys after %d rotations", got, rotations)
		}
		if got := names(t, dir); len(got) != rotations+1 {
			rt.Errorf("files %v", got)
		}
	})
}

// rotateOnce tries one rotation. A stopped one tells which key is in use.
func rotateOnce(rt *rapid.T, dir *Dir, inUse, next string) (nowInUse, wanted string, done bool) {
	finished := func(err error) bool {
		if err != nil && !errors.Is(err, errStopped) {
			rt.Fatal(err)
		}
		return err == nil
	}
	if next == "" {
		key, err := dir.NextNostr(Agent)
		if !finished(err) {
			return inUse, "", false
		}
		next = key.KID()
	}
	_, err := dir.Rotate(Agent)
	done = finished(err)
	key, err := dir.Nostr(Agent)
	if err != nil {
		rt.Fatalf("opening after a stop: %v", err)
	}
	if kid := key.KID(); kid != inUse && kid != next {
		rt.Fatalf("key %s in use, neither %s nor %s", kid, inUse, next)
	}
	return key.KID(), next, done
}
