package disktest

import (
	"fmt"
	"syscall"
)

func mount(path string, bytes int) error {
	return syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", bytes))
}

func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }

// free is the space left in bytes.
func free(path string) (int64, error) {
	var stat syscall.Statfs_t
	err := syscall.Statfs(path, &stat)
	return int64(stat.Bavail) * stat.Bsize, err
}
