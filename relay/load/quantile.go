package load

import (
	"slices"
	"time"
)

// latencies are how long each operation took.
type latencies []time.Duration

// quantile returns the time that a share q of the operations stays within, 0 of
// none.
func (l latencies) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[min(int(q*float64(len(l))), len(l)-1)]
}
