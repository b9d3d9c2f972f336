package durable

import (
	"errors"
	"os"
	"syscall"
)

// WriteNew writes a new file of mode 0600, whole or not at all. Where one of
// that name exists, the error is fs.ErrExist. SyncFolder makes its name last.
func WriteNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SyncFolder makes the names in a folder last. A file system that cannot sync
// folders keeps their names by itself.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
