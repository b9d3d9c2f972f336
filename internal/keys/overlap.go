package keys

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Retirement is a retired key and since when it is.
type Retirement struct {
	File
	At time.Time // the time of the file, which RotateAt has set
}

// RotateAt is Rotate for keys that others go on trusting for a while: the time
// of the retired key's file says since when it is retired. It is set before the
// key retires, so that no crash leaves a retired key with an earlier time; a
// copy that does not keep the times of files makes it a later one.
func (d *Dir) RotateAt(p Purpose, now time.Time) (File, error) {
	if _, err := d.Next(p); err != nil {
		return File{}, err
	}
	active, err := d.only(p, Active)
	if err == nil {
		err = d.stamp(active, now)
	}
	if err != nil && !errors.Is(err, ErrNoKey) { // without one a rotation was cut off
		return File{}, err
	}
	return d.Rotate(p)
}

// stamp sets the time of a file durably.
func (d *Dir) stamp(f File, now time.Time) error {
	if err := d.before(); err != nil {
		return err
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return fmt.Errorf("dating key: %w", err)
	}
	err = os.Chtimes(f.Path, time.Time{}, now)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("dating key: %w", err)
	}
	return nil
}

// Retirements names the retired keys of a purpose, the latest first.
func (d *Dir) Retirements(p Purpose) ([]Retirement, error) {
	files, err := d.List()
	if err != nil {
		return nil, err
	}
	var retired []Retirement
	for _, f := range files {
		if f.Purpose != p || f.State != Retired {
			continue
		}
		info, err := os.Stat(f.Path)
		if err != nil {
			return nil, fmt.Errorf("dating key: %w", err)
		}
		retired = append(retired, Retirement{File: f, At: info.ModTime()})
	}
	slices.SortStableFunc(retired, func(a, b Retirement) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.KID, b.KID))
	})
	return retired, nil
}
