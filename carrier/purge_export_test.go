package carrier

import "context"

// PurgeNow does what Run does from time to time.
func (e *Engine) PurgeNow(ctx context.Context) error { return e.purge(ctx) }
