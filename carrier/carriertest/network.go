package carriertest

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/parleykit/parley/carrier"
)

// Network keeps every wrap that was sent over it, for ever.
type Network struct {
	mu     sync.Mutex
	log    []Entry
	sends  []Entry // also those that were lost or refused
	fault  func(carrier.Address, []byte) error
	lose   func(carrier.Address, []byte) bool
	change chan struct{} // closed and replaced when log grows
}

// Entry is one wrap at one address.
type Entry struct {
	To   carrier.Address
	Wrap []byte
}

// NewNetwork makes an empty network.
func NewNetwork() *Network { return &Network{change: make(chan struct{})} }

// Fail makes Send return what fault returns, unless that is nil. A nil fault
// ends it.
func (n *Network) Fail(fault func(to carrier.Address, wrap []byte) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = fault
}

// Lose makes wraps vanish, although Send reports success, where lose is true.
func (n *Network) Lose(lose func(to carrier.Address, wrap []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = lose
}

// Put delivers bytes to an address, as a hostile sender would.
func (n *Network) Put(to carrier.Address, wrap []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(Entry{to, wrap})
}

// put delivers; the caller holds mu.
func (n *Network) put(e Entry) {
	n.log = append(n.log, e)
	close(n.change)
	n.change = make(chan struct{})
}

// Sends lists every Send so far, also those that failed or were lost.
func (n *Network) Sends() []Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Entry(nil), n.sends...)
}

// Carrier makes a carrier of the given scheme that listens on addresses.
func (n *Network) Carrier(scheme string, addresses ...string) *Carrier {
	c := &Carrier{network: n, scheme: scheme, listens: make(map[carrier.Address]bool)}
	for _, address := range addresses {
		c.listens[carrier.Address{Scheme: scheme, Address: address}] = true
	}
	return c
}

// Carrier is one agent's access to the network.
type Carrier struct {
	network *Network
	scheme  string
	listens map[carrier.Address]bool
	// Frame is what MaxFrame returns.
	Frame int
}

// Scheme implements carrier.Carrier.
func (c *Carrier) Scheme() string { return c.scheme }

// MaxFrame implements carrier.Carrier.
func (c *Carrier) MaxFrame(carrier.Address) int { return c.Frame }

// Send implements carrier.Carrier.
func (c *Carrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to.Priority = 0
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sends = append(n.sends, Entry{to, wrap})
	if n.fault != nil {
		if err := n.fault(to, wrap); err != nil {
			return err
		}
	}
	if n.lose == nil || !n.lose(to, wrap) {
		n.put(Entry{to, wrap})
	}
	return nil
}

// Receive implements carrier.Carrier.
func (c *Carrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	next, err := c.read(ctx, from, handle)
	for err == nil {
		n := c.network
		n.mu.Lock()
		change, behind := n.change, next < len(n.log)
		n.mu.Unlock()
		if !behind {
			select {
			case <-change:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		next, err = c.read(ctx, carrier.Cursor(strconv.Itoa(next)), handle)
	}
	return err
}

// Poll implements carrier.Poller.
func (c *Carrier) Poll(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	_, err := c.read(ctx, from, handle)
	return err
}

// read hands on what lies after the cursor and returns the next position.
func (c *Carrier) read(ctx context.Context, from carrier.Cursor, handle carrier.Handler) (int, error) {
	start := 0
	if from != "" {
		var err error
		if start, err = strconv.Atoi(string(from)); err != nil {
			return 0, fmt.Errorf("cursor %q: %w", from, err)
		}
	}
	n := c.network
	n.mu.Lock()
	entries := n.log[start:]
	n.mu.Unlock()
	for i, e := range entries {
		if !c.listens[e.To] {
			continue
		}
		if err := handle(ctx, e.Wrap, carrier.Cursor(strconv.Itoa(start+i+1))); err != nil {
			return 0, err
		}
	}
	return start + len(entries), nil
}
