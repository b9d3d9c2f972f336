//go:build unix

package keys

import (
	"os"
	"syscall"
)

// lock waits for the exclusive lock of file; closing the file releases it.
func lock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }
