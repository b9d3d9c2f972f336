package ntfybridge

import (
	"io"
	"time"
)

// LookEvery changes how often a carrier looks whether a stream is silent.
func (c *Carrier) LookEvery(d time.Duration) { c.ear.look = d }

// SilentAfter changes after how much silence it gives a stream up.
func (c *Carrier) SilentAfter(d time.Duration) { c.ear.silence = d }

// ReadStream reads a stream to its end, and returns how many events and faults
// were in it, and the longest text of one.
func ReadStream(body io.Reader) (events, faults, longest int) {
	s := newStream(io.NopCloser(body), time.Now)
	for {
		e, err := s.next()
		if err != nil {
			return events, faults, longest
		}
		if e.dropped != "" {
			faults++
			continue
		}
		events++
		if data, err := e.body(); err == nil {
			longest = max(longest, len(data))
			kindOf(data)
		}
	}
}
