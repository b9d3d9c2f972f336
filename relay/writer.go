package relay

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/coder/websocket"
)

const (
	pingInterval = 30 * time.Second
	pingTimeout  = 60 * time.Second
)

// write sends what is queued until the connection ends, what waits together in
// one piece. Each piece has WriteTimeout to get out.
func (s *session) write() {
	defer s.cancel()
	defer s.conn.CloseNow()
	pings := time.NewTicker(pingInterval)
	defer pings.Stop()
	var batch []outgoing
	for {
		var err error
		batch, err = s.out.pop(s.ctx, pings.C, batch[:0])
		switch {
		case errors.Is(err, errTick):
			s.ping()
			continue
		case err != nil:
			return
		}
		if !s.flush(batch) {
			return
		}
		if clear(batch); cap(batch) > keepMessages {
			batch = nil
		}
	}
}

// flush sends the batch and reports whether the connection goes on.
func (s *session) flush(batch []outgoing) bool {
	s.wire.hold()
	var end *websocket.CloseError
	copied := 0
	buf := gathered.Get().(*[]byte)
	for _, o := range batch {
		if end = o.close; end != nil {
			break
		}
		*buf = o.appendTo((*buf)[:0])
		if s.conn.Write(context.Background(), websocket.MessageText, *buf) != nil { // the wire has the clock
			break
		}
		copied += len(*buf)
	}
	keep(buf)
	s.account.add(copied)
	for _, o := range batch {
		s.account.release(o)
	}
	s.relay.relieve(0)
	err := s.wire.release()
	s.account.add(-copied)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.relay.metrics.slowConsumers.Inc()
		}
		return false
	}
	if end != nil {
		s.conn.Close(end.Code, end.Reason)
	}
	return end == nil
}

// ping asks the peer whether it is there and ends the connection when it does
// not answer. Only one ping is under way at a time.
func (s *session) ping() {
	if !s.pinging.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.pinging.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
		defer cancel()
		if s.conn.Ping(ctx) != nil {
			s.cancel()
		}
	}()
}
