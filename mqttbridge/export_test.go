package mqttbridge

import (
	"context"
	"time"
)

// WriteEvent is Write of the parts of an item.
func (s *Side) WriteEvent(ctx context.Context, kind int, pubkey, recipient, d string, event []byte, expires time.Time) error {
	return s.write(ctx, kind, pubkey, recipient, d, event, expires)
}
