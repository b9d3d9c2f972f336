package carrier

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Address is one place where an agent can be reached.
type Address struct {
	Scheme   string `json:"scheme"`   // of the carrier: nostr, mqtt, ntfy, https, mailto
	Address  string `json:"address"`  // as the scheme writes it
	Priority int    `json:"priority"` // lower first
}

// Cursor is how far a carrier has read, in the carrier's own words; at most
// MaxCursor bytes. The empty cursor reads all that is stored upstream.
type Cursor string

// MaxCursor bounds a Cursor, in bytes.
const MaxCursor = 256

// Handler takes one wrap or frame that a carrier received; a carrier with
// several topics or connections names the one by WithInlet. It returns nil only when the
// wrap or frame is durably stored or of no use (forged, expired, repeated), and only
// then may the carrier acknowledge it upstream. The cursor is stored in the
// wrap's transaction; an empty wrap moves the cursor alone. A Handler is safe
// for concurrent use.
type Handler func(ctx context.Context, wrap []byte, next Cursor) error

// Carrier moves the bytes of wraps. It is bound to the addresses it listens on
// when it is made.
type Carrier interface {
	// Scheme names the carrier in addresses and metrics.
	Scheme() string
	// MaxFrame is the most bytes one Send to the address takes; 0 is no limit.
	// The Engine cuts what is longer into frames, a carrier never does.
	MaxFrame(to Address) int
	// Send gives one wrap, or one frame of it where it is longer than MaxFrame,
	// to the address, unchanged. nil means that the other
	// side took it. Errors wrap ErrPermanent or ErrTransient, or are a
	// *RateLimited; any other error counts as transient.
	Send(ctx context.Context, to Address, wrap []byte) error
	// Receive reads wraps from after the cursor and hands them to handle until
	// ctx ends, reconnecting by itself. An error before that makes the Engine
	// call it again with the newest stored cursor.
	Receive(ctx context.Context, from Cursor, handle Handler) error
}

// TextCarrier is a Carrier of which some addresses take text alone. Frames for
// those are written in text mode; wraps are text as they are.
type TextCarrier interface {
	TextOnly(to Address) bool
}

// Poller is a Carrier that can also read once what is stored upstream and
// return. Engine.Sync uses it.
type Poller interface {
	// Poll is Receive that ends when nothing stored is left.
	Poll(ctx context.Context, from Cursor, handle Handler) error
}

// Errors of Carrier.Send and of Options.Handle.
var (
	ErrPermanent = errors.New("carrier: permanent failure") // trying again cannot help
	ErrTransient = errors.New("carrier: transient failure") // trying again may help
	// ErrRecipient beside ErrTransient means that the address answered and that
	// only this recipient has to wait, such as for room in a full box.
	ErrRecipient = errors.New("carrier: refused for this recipient")
)

// RateLimited is a transient failure that says when to try again.
type RateLimited struct {
	After time.Duration // from now; not positive means unknown
}

// Error implements error.
func (e *RateLimited) Error() string {
	if e.After <= 0 {
		return "carrier: rate limited"
	}
	return fmt.Sprintf("carrier: rate limited, try again after %s", e.After)
}

// Is makes a RateLimited an ErrTransient.
func (e *RateLimited) Is(target error) bool { return target == ErrTransient }

// Errors of the Engine.
var (
	ErrNotFound   = errors.New("carrier: not found")         // no such contact, request or row
	ErrExists     = errors.New("carrier: message id in use") // another message of this id went to the same recipient
	ErrOutboxFull = errors.New("carrier: outbox full")       // too many or too large messages wait
	ErrPeerFull   = errors.New("carrier: recipient's share of the outbox full")
	ErrSender     = errors.New("carrier: not from this agent") // Send of a message from another key
	ErrRunning    = errors.New("carrier: already running")     // a second Run
	errCursor     = errors.New("carrier: cursor too long")
)
