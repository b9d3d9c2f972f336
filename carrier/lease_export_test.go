package carrier

import (
	"context"
	"time"
)

// LeaseTime is how long a message is one process's.
const LeaseTime = leaseTime

// SetPoll sets how often a process looks for what others left. Call it before
// Run.
func (e *Engine) SetPoll(d time.Duration) { e.pollPeriod = d }

// RenewLeases renews at once.
func (e *Engine) RenewLeases(ctx context.Context) error { return e.renewLeases(ctx) }
