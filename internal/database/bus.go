package database

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// busChannel is the one channel of PostgreSQL that carries all notices, as
// "channel payload", so that a new listener needs no statement of its own.
const busChannel = "parley"

// listening starts the goroutine that keeps a connection for notices.
func (p *postgres) listening() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return ErrClosed
	}
	p.bus.Do(func() {
		go func() {
			defer close(p.busDone)
			p.keepListening(p.busCtx)
		}()
	})
	return nil
}

// keepListening connects again for as long as ctx lives.
func (p *postgres) keepListening(ctx context.Context) {
	delay := 50 * time.Millisecond
	for ctx.Err() == nil {
		begun := time.Now()
		err := p.hear(ctx)
		p.hub.connect(false)
		if ctx.Err() != nil {
			return
		}
		p.logger.WarnContext(ctx, "no notices from the database", "err", err)
		if time.Since(begun) > time.Minute {
			delay = 50 * time.Millisecond
		}
		if !pause(ctx, delay) {
			return
		}
		delay = min(2*delay, 5*time.Second)
	}
}

// hear hands on notices until the connection fails.
func (p *postgres) hear(ctx context.Context) error {
	config := p.config.Copy()
	if err := p.authenticate(ctx, config); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	starting, cancel := context.WithTimeout(ctx, p.opts.Heartbeat)
	_, err = conn.Exec(starting, "LISTEN "+busChannel)
	cancel()
	if err != nil {
		return err
	}
	p.hub.connect(true)
	for {
		if err := p.hearOnce(ctx, conn); err != nil {
			return err
		}
	}
}

// hearOnce waits for one notice; after a silent Heartbeat it asks the server
// for a sign of life.
func (p *postgres) hearOnce(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, p.opts.Heartbeat)
	defer cancel()
	got, err := conn.WaitForNotification(waiting)
	if err == nil {
		if channel, payload, found := strings.Cut(got.Payload, " "); found {
			p.hub.publish(notice{channel, payload})
		}
		return nil
	}
	if ctx.Err() != nil || conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	asking, stop := context.WithTimeout(ctx, p.opts.Heartbeat)
	defer stop()
	return conn.Ping(asking)
}
