//go:build !unix

package main

import "os"

// lockFile does nothing where flock does not exist: run one server at a time.
func lockFile(*os.File) error { return nil }
