package relay

import (
	"fmt"
	"time"
)

// apart says how far a time lies from this server's clock, such as "2 days
// ahead of this server's clock": whoever reads it should look at a clock.
func apart(at, now time.Time) string {
	side, d := "ahead of", at.Sub(now)
	if d < 0 {
		side, d = "behind", -d
	}
	n, unit := int(d.Round(time.Minute)/time.Minute), "minute"
	switch {
	case d >= 36*time.Hour:
		n, unit = int((d+12*time.Hour)/(24*time.Hour)), "day"
	case d >= 90*time.Minute:
		n, unit = int(d.Round(time.Hour)/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s %s this server's clock", n, unit, side)
}
