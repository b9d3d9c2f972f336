package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parleykit/parley/internal/filelock"
)

// lockName is the file in the data folder that the one server locks.
const lockName = "parleyd.lock"

// errDataInUse says that another process has the data folder.
var errDataInUse = errors.New("another parleyd uses the data folder")

// lockData takes the data folder for this process; closing the file gives it
// back. A folder with an unfinished restore is refused.
func lockData(data string) (*os.File, error) {
	if _, err := os.Lstat(filepath.Join(data, restoreFolder)); err == nil {
		return nil, fmt.Errorf("a restore into %s was cut off; empty the folder and restore again", data)
	}
	file, err := os.OpenFile(filepath.Join(data, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := filelock.Try(file); err != nil {
		file.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, fmt.Errorf("%w %s", errDataInUse, data)
		}
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return file, nil
}
