package nostr

import (
	"context"
	"fmt"
	"time"

	"github.com/parleykit/parley/carrier"
)

// pooled is the place of one relay's connection.
type pooled struct {
	dialing chan struct{} // holds a token while nobody dials
	conn    *connection   // guarded by Client.mu
	users   int           // guarded by Client.mu; who dials counts too
	idle    *time.Timer   // guarded by Client.mu; closes an unused connection
}

// acquire returns the connection to a relay, dialing at most once at a time.
// Every success needs a release.
func (c *Client) acquire(ctx context.Context, url string) (*connection, error) {
	p, err := c.enter(url)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.dialing:
		defer func() { p.dialing <- struct{}{} }()
	case <-ctx.Done():
		c.leave(url, p)
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	conn := p.conn
	c.mu.Unlock()
	if conn != nil && conn.ctx.Err() == nil {
		return conn, nil
	}
	conn, err = c.connect(ctx, url)
	if err != nil {
		c.leave(url, p)
		return nil, err
	}
	c.mu.Lock()
	p.conn = conn
	c.mu.Unlock()
	return conn, nil
}

// enter counts one more user of a relay's place, making room when all places
// are taken.
func (c *Client) enter(url string) (*pooled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pool[url]
	if p == nil {
		if len(c.pool) >= c.opts.Connections && !c.evict() {
			return nil, fmt.Errorf("%w: %d connections to relays are in use", carrier.ErrTransient, len(c.pool))
		}
		p = &pooled{dialing: make(chan struct{}, 1)}
		p.dialing <- struct{}{}
		c.pool[url] = p
	}
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	p.users++
	return p, nil
}

// evict gives up one unused place; the caller holds mu.
func (c *Client) evict() bool {
	for url, p := range c.pool {
		if p.users == 0 {
			c.drop(url, p)
			return true
		}
	}
	return false
}

// drop closes a place; the caller holds mu.
func (c *Client) drop(url string, p *pooled) {
	if p.idle != nil {
		p.idle.Stop()
	}
	if p.conn != nil {
		p.conn.close(errClosed)
	}
	delete(c.pool, url)
}

func (c *Client) release(conn *connection) {
	c.mu.Lock()
	p := c.pool[conn.url]
	c.mu.Unlock()
	if p != nil {
		c.leave(conn.url, p)
	}
}

// leave counts one user less. The last one starts the clock.
func (c *Client) leave(url string, p *pooled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.users--; p.users > 0 || c.pool[url] != p {
		return
	}
	if p.conn == nil || p.conn.ctx.Err() != nil {
		c.drop(url, p)
		return
	}
	p.idle = time.AfterFunc(c.opts.IdleTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.users == 0 && c.pool[url] == p {
			c.drop(url, p)
		}
	})
}

// closeIdle drops every place; those in use fail.
func (c *Client) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for url, p := range c.pool {
		c.drop(url, p)
	}
}
