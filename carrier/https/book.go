package https

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/parleykit/parley/carrier"
)

// How long an answer to a challenge holds.
const (
	servesFor  = 7 * 24 * time.Hour
	refusesFor = 24 * time.Hour
)

// errUnserved is a permanent failure: the next answer is a day away.
var errUnserved = fmt.Errorf("%w: the address does not serve this recipient", carrier.ErrPermanent)

// asked reports whether an address serves a recipient, and asks it where nothing is
// known. One question is under way to a host at a time.
func (c *Carrier) asked(ctx context.Context, address, recipient string) error {
	host := hostOf(address)
	if err := c.enter(ctx, host); err != nil {
		return err
	}
	defer c.leave(host)
	serves, known, err := c.remembered(ctx, address, recipient)
	switch {
	case err != nil:
		return fmt.Errorf("%w: https: %w", carrier.ErrTransient, err)
	case known && serves:
		return nil
	case known:
		return errUnserved
	}
	err = c.ask(ctx, address, recipient)
	if err != nil && !errors.Is(err, carrier.ErrPermanent) {
		c.metrics.asked.WithLabelValues(askedFailed).Inc()
		// It may be a victim that does not answer at all: it is left alone, too.
		return errors.Join(err, c.remember(ctx, address, recipient, false, failedFor))
	}
	if err == nil {
		c.metrics.asked.WithLabelValues(askedServes).Inc()
	} else {
		c.metrics.asked.WithLabelValues(askedRefuse).Inc()
	}
	if failure := c.remember(ctx, address, recipient, err == nil, refusesFor); failure != nil {
		return fmt.Errorf("%w: https: %w", carrier.ErrTransient, failure)
	}
	return err
}

// failedFor is when an address that could not be asked is asked again.
const failedFor = 10 * time.Minute

// ask makes the challenge: one small GET, redirects are not followed.
func (c *Carrier) ask(ctx context.Context, address, recipient string) error {
	question := answer{Address: address, Recipient: recipient, Challenge: newChallenge()}
	query := url.Values{"challenge": {question.Challenge}, "recipient": {recipient}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+query.Encode(), nil)
	if err != nil {
		return badAddress("not a URL")
	}
	response, err := c.client(address).Do(r)
	if err != nil {
		return exchangeError(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return exchangeError(err)
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500:
		return fmt.Errorf("%w: https: the challenge is answered with status %d", carrier.ErrTransient, response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return errUnserved
	}
	if err := checkAnswer(data, question); err != nil {
		return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// enter waits until no other question to the host is under way.
func (c *Carrier) enter(ctx context.Context, host string) error {
	for {
		c.mu.Lock()
		busy := c.asking[host]
		if busy == nil {
			c.asking[host] = make(chan struct{})
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *Carrier) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.asking[host])
	delete(c.asking, host)
}

func (c *Carrier) remembered(ctx context.Context, address, recipient string) (serves, known bool, err error) {
	var until int64
	err = c.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT serves, ask_again_at FROM https_answers WHERE address = $1 AND recipient = $2",
			address, recipient).Scan(&serves, &until)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	return serves, err == nil && c.now().Unix() < until, err
}

// remember notes an answer and when to ask again, and forgets those whose time is
// over.
func (c *Carrier) remember(ctx context.Context, address, recipient string, serves bool, length time.Duration) error {
	if serves {
		length = servesFor
	}
	now := c.now()
	return c.opts.DB.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM https_answers WHERE ask_again_at <= $1", now.Unix()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO https_answers (address, recipient, serves, ask_again_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (address, recipient) DO UPDATE SET serves = excluded.serves, ask_again_at = excluded.ask_again_at`,
			address, recipient, serves, now.Add(length).Unix())
		return err
	})
}
