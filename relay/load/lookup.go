package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/card"
)

// pageSize is how many events a tag or an inbox answers with.
const pageSize = 20

// wraps are how many a recipient has in its inbox.
const wraps = 100

// lookup looks cards up by author, kind and d tag.
func (r *run) lookup(n int) (Result, error) {
	return r.read(n, "look-ups", 1, func() string {
		return fmt.Sprintf(`{"authors":["%s"],"kinds":[%d],"#d":["%s"]}`, r.someCard(), card.Kind, card.DefaultName)
	})
}

// tag looks cards up by one of their t tags.
func (r *run) tag(n int) (Result, error) {
	return r.read(n, "requests", pageSize, func() string {
		return fmt.Sprintf(`{"kinds":[%d],"#t":["%s"],"limit":%d}`, card.Kind, topic(rand.IntN(topics)), pageSize)
	})
}

// errWrongAnswer says that a relay did not find what it stored.
var errWrongAnswer = errors.New("the relay does not find what it stored")

// read asks with n connections, each waits for the end of its answer, which
// holds want events.
func (r *run) read(n int, unit string, want int, filter func() string) (Result, error) {
	if err := r.fill(); err != nil {
		return Result{}, err
	}
	if len(r.cards) < want*topics && want > 1 {
		return Result{}, fmt.Errorf("%w: only %d cards were taken", errRefused, len(r.cards))
	}
	if len(r.cards) == 0 {
		return Result{}, fmt.Errorf("%w: no card was taken", errRefused)
	}
	clients, err := r.connect(n)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(clients)
	var wrong atomic.Int64
	watch := r.start()
	t, err := r.loop(r.opts.Duration, clients, func(_ int, c *client) error {
		found, err := c.ask(request("q", filter()))
		if err == nil && found != want {
			wrong.Add(1)
		}
		if err == nil {
			err = c.send([]byte(`["CLOSE","q"]`))
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	if n := wrong.Load(); n > 0 {
		return Result{}, fmt.Errorf("%w: %d of %d answers", errWrongAnswer, n, len(t.took))
	}
	return watch.result(unit, t), nil
}

// inbox stores wraps for n recipients, who then read the latest of them.
func (r *run) inbox(n int) (Result, error) {
	clients, err := r.connect(n)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(clients)
	requests := make([][]byte, n)
	for i, c := range clients {
		if requests[i], err = r.fillInbox(c); err != nil {
			return Result{}, err
		}
	}
	watch := r.start()
	t, err := r.loop(r.opts.Duration, clients, func(w int, c *client) error {
		found, err := c.ask(requests[w])
		if err == nil && found != pageSize {
			err = errWrongAnswer
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return watch.result("requests", t), nil
}

// fillInbox gives the client a key and wraps, and returns the request for the
// latest page of them.
func (r *run) fillInbox(c *client) ([]byte, error) {
	c.secret = nostr.GeneratePrivateKey()
	public, err := nostr.GetPublicKey(c.secret)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	now := time.Now()
	events, err := many(wraps, func(i int) (signed, error) {
		return newWrap(public, now.Add(time.Duration(i-wraps)*time.Second), now)
	})
	if err != nil {
		return nil, err
	}
	writer, err := dial(r.ctx, r.url, 0) // the inbox's own connection keeps its challenge
	if err != nil {
		return nil, err
	}
	defer writer.close()
	for _, ev := range events {
		if err := writer.publish(ev); err != nil {
			return nil, err
		}
	}
	since := now.Add(-pageSize * time.Second).Unix()
	return request("q", fmt.Sprintf(`{"kinds":[%d],"#p":["%s"],"since":%d}`, kindWrap, public, since)), nil
}
