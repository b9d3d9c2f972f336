package https

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/parleykit/parley/carrier"
)

// How long the outcome of a challenge holds.
const (
	servesFor  = 7 * 24 * time.Hour
	refusesFor = 24 * time.Hour   // also for what did not answer: it may be a victim
	absentFor  = 10 * time.Minute // for an address at which nobody listens
)

const (
	askTimeout   = 20 * time.Second
	maxQuestions = 3 // a day to a host that has never answered
)

// errUnserved is a permanent failure: the next answer is a day away.
var errUnserved = fmt.Errorf("%w: the address does not serve this recipient", carrier.ErrPermanent)

// asked reports whether an address serves a recipient, and asks it where nothing is
// known. One question is under way to a host at a time. That it was asked is noted
// before, so that no crash and no slow answer repeats the question.
func (c *Carrier) asked(ctx context.Context, address, recipient string) error {
	host := hostOf(address)
	if err := c.enter(ctx, host); err != nil {
		return err
	}
	defer c.leave(host)
	known, err := c.remembered(ctx, address, recipient, host)
	if err == nil && known == nil {
		err = c.remember(ctx, outcome{address: address, recipient: recipient, host: host}, refusesFor)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: https: %w", carrier.ErrTransient, err)
	case known != nil:
		return known.verdict(c.now())
	}
	return c.askOnce(ctx, outcome{address: address, recipient: recipient, host: host})
}

// askOnce asks and notes what came of it. It is not cut short by its caller's time.
func (c *Carrier) askOnce(ctx context.Context, o outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	failure := c.ask(ctx, o.address, o.recipient)
	o.answered = failure == nil || errors.Is(failure, carrier.ErrPermanent)
	o.serves = failure == nil
	length, label := refusesFor, askedRefuse
	switch {
	case o.serves:
		length, label = servesFor, askedServes
	case !o.answered:
		label = askedFailed
		if dialing, ok := errors.AsType[*net.OpError](failure); ok && dialing.Op == "dial" {
			length = absentFor // nothing was asked
		}
	}
	c.metrics.asked.WithLabelValues(label).Inc()
	if err := c.remember(context.WithoutCancel(ctx), o, length); err != nil {
		return fmt.Errorf("%w: https: %w", carrier.ErrTransient, err)
	}
	return failure
}

// outcome is what is known of an address and a recipient.
type outcome struct {
	address, recipient, host string
	answered, serves         bool
	until                    time.Time // when it is asked again
}

// verdict is what the outcome means for a send.
func (o *outcome) verdict(now time.Time) error {
	switch {
	case o.serves:
		return nil
	case o.answered:
		return errUnserved
	}
	return &carrier.RateLimited{After: o.until.Sub(now)}
}

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

// remembered is the outcome that still holds, nil for none. A host that was asked often
// and has never answered is left alone, whoever names it.
func (c *Carrier) remembered(ctx context.Context, address, recipient, host string) (known *outcome, err error) {
	err = c.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		known = nil
		o := outcome{address: address, recipient: recipient, host: host}
		var until int64
		err := tx.QueryRowContext(ctx, `SELECT answered, serves, ask_again_at FROM https_answers
			WHERE address = $1 AND recipient = $2 AND ask_again_at > $3`, address, recipient, c.now().Unix()).Scan(&o.answered, &o.serves, &until)
		if err == nil {
			o.until = time.Unix(until, 0)
			known = &o
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var questions, answers, next int64
		err = tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CASE WHEN serves THEN 1 ELSE 0 END), 0), coalesce(min(ask_again_at), 0)
			FROM https_answers WHERE host = $1 AND ask_again_at > $2`, host, c.now().Unix()).Scan(&questions, &answers, &next)
		if err == nil && answers == 0 && questions >= maxQuestions {
			o.until = time.Unix(next, 0)
			known = &o
		}
		return err
	})
	return known, err
}

// remember notes an outcome and how long it holds, and forgets those whose time is over.
func (c *Carrier) remember(ctx context.Context, o outcome, length time.Duration) error {
	now := c.now()
	return c.opts.DB.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM https_answers WHERE ask_again_at <= $1", now.Unix()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO https_answers (address, recipient, host, answered, serves, ask_again_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (address, recipient) DO UPDATE SET answered = excluded.answered, serves = excluded.serves, ask_again_at = excluded.ask_again_at`,
			o.address, o.recipient, o.host, o.answered, o.serves, now.Add(length).Unix())
		return err
	})
}
