package keys

import (
	"errors"
	"os"
	"testing"
	"time"
)

var retiredAt = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func TestRotateAt_datesRetiredKeysLatestFirst(t *testing.T) {
	dir := openDir(t)
	if _, err := dir.EnsureEd25519(Server); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.EnsureEd25519(Issuer); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.RotateAt(Issuer, retiredAt); !errors.Is(err, ErrNoKey) {
		t.Errorf("rotating without a next key: %v", err)
	}
	var want []string
	for i := range 3 {
		active, err := dir.Ed25519(Issuer)
		if err != nil {
			t.Fatal(err)
		}
		want = append([]string{active.KID()}, want...)
		next, err := dir.NextEd25519(Issuer)
		if err != nil {
			t.Fatal(err)
		}
		file, err := dir.RotateAt(Issuer, retiredAt.Add(time.Duration(i)*time.Hour))
		if err != nil || file.KID != next.KID() || file.State != Active {
			t.Fatalf("RotateAt = %+v, %v", file, err)
		}
	}
	if _, err := dir.NextEd25519(Server); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.RotateAt(Server, retiredAt); err != nil {
		t.Fatal(err)
	}
	retired, err := dir.Retirements(Issuer)
	if err != nil || len(retired) != len(want) {
		t.Fatalf("%v, %v", retired, err)
	}
	for i, r := range retired {
		if at := retiredAt.Add(time.Duration(2-i) * time.Hour); r.KID != want[i] || !r.At.Equal(at) || r.State != Retired {
			t.Errorf("retirement %d is %s at %v, want %s at %v", i, r.KID, r.At, want[i], at)
		}
	}
}

var errCut = errors.New("cut off")

// Wherever the rotation stops, a key that is retired is retired since then and
// not since it was made; the rotation can be completed.
func TestRotateAt_retiresNoKeyBeforeItsTimeIsSet(t *testing.T) {
	for cut := 0; ; cut++ {
		dir := openDir(t)
		old, err := dir.EnsureEd25519(Issuer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dir.NextEd25519(Issuer); err != nil {
			t.Fatal(err)
		}
		made := retiredAt.Add(-1000 * time.Hour)
		file, err := dir.only(Issuer, Active)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file.Path, made, made); err != nil {
			t.Fatal(err)
		}
		steps := 0
		dir.fault = func() error {
			if steps++; steps > cut {
				return errCut
			}
			return nil
		}
		_, err = dir.RotateAt(Issuer, retiredAt)
		dir.fault = nil
		if err == nil {
			if cut != 3 {
				t.Errorf("%d steps, want 3: date, retire, activate", cut)
			}
			return
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		for range 2 { // as it is, and completed
			retired, err := dir.Retirements(Issuer)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range retired {
				if r.KID != old.KID() || !r.At.Equal(retiredAt) {
					t.Errorf("cut after %d steps: %s retired at %v", cut, r.KID, r.At)
				}
			}
			if _, err := dir.RotateAt(Issuer, retiredAt); err != nil && !errors.Is(err, ErrNoKey) {
				t.Fatal(err)
			}
		}
		if active, err := dir.Ed25519(Issuer); err != nil || active.KID() == old.KID() {
			t.Errorf("cut after %d steps: %v is active after all, %v", cut, active, err)
		}
	}
}
