//go:build !unix

package filelock

import "os"

// Try does nothing where flock is missing.
func Try(*os.File) error { return nil }

// Wait does nothing where flock is missing.
func Wait(*os.File) error { return nil }
