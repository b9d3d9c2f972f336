package nostr

import "time"

// SetClockPeriod makes a carrier look at its clock more often.
func SetClockPeriod(c *Carrier, period time.Duration) { c.clockPeriod = period }
