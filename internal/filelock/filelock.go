package filelock

import "errors"

// ErrHeld is a lock that somebody else has.
var ErrHeld = errors.New("filelock: held by another")
