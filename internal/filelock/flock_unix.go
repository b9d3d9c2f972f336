//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes the lock of an open file or returns ErrHeld at once. Closing the
// file gives it back.
func Try(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}

// Wait takes the lock of an open file once nobody else has it.
func Wait(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }
