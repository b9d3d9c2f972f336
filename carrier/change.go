package carrier

import (
	"context"
	"sync"
)

// Change tells that a stored row is new or in another state.
type Change struct {
	Box       Box    `json:"box"`
	Seq       int64  `json:"seq"`        // of the row; 0 for a contact
	Peer      string `json:"peer"`       // sender, recipient or contact, hex
	MessageID string `json:"message_id"` // empty for a contact
	Type      string `json:"type"`       // of the message; empty for a contact
	State     State  `json:"state"`      // after the change; empty for a contact
}

// Box is what a Change belongs to.
type Box string

// Boxes of a Change.
const (
	BoxInbox    Box = "inbox" // the request box too: StateRequest
	BoxOutbox   Box = "outbox"
	BoxContacts Box = "contacts"
)

// changeBuffer is how far a reader of Subscribe may fall behind.
const changeBuffer = 256

// Subscribe streams what changes from now on, after it is committed. Two
// changes of one row may come in the wrong order: read the row for its state.
// The channel is closed when ctx ends, and when its reader falls 256 changes
// behind: read the boxes again and subscribe anew.
func (e *Engine) Subscribe(ctx context.Context) <-chan Change { return e.changes.subscribe(ctx) }

// broadcast hands changes to any number of readers without waiting for one.
type broadcast struct {
	mu      sync.Mutex
	readers map[chan Change]func() bool // to the function that stops watching its context
}

func newBroadcast() *broadcast { return &broadcast{readers: make(map[chan Change]func() bool)} }

func (b *broadcast) subscribe(ctx context.Context) <-chan Change {
	c := make(chan Change, changeBuffer)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers[c] = context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(c)
	})
	return c
}

// drop ends a subscription; the caller holds mu.
func (b *broadcast) drop(c chan Change) {
	if stop, open := b.readers[c]; open {
		stop()
		delete(b.readers, c)
		close(c)
	}
}

func (b *broadcast) send(changes ...Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.readers {
		for _, change := range changes {
			select {
			case c <- change:
				continue
			default:
				b.drop(c)
			}
			break
		}
	}
}
