//go:build !unix

package keys

import "os"

// lock does nothing where flock does not exist: run one program at a time.
func lock(*os.File) error { return nil }
