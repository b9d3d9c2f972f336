//go:build !linux

package disktest

import "errors"

func mount(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func free(string) (int64, error) { return 0, errors.ErrUnsupported }
