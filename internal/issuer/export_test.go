package issuer

import "time"

// SetTimeout shortens how long a resolver waits for all documents of an origin.
func (r *Resolver) SetTimeout(total time.Duration) { r.fetcher.total = total }

// Lifetime is lifetime.
func Lifetime(cacheControl string) time.Duration { return lifetime(cacheControl) }

// The bounds of Lifetime, and the pause between two questions.
const (
	KeepLeast = keepLeast
	KeepMost  = keepMost
	AskPause  = askPause
	CallBurst = callBurst
)
