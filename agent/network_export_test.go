package agent

import "time"

// SetRelayTimeout shortens what commands wait for a relay, until the next pin.
func SetRelayTimeout(a *Agent, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link.timeout = d
}
