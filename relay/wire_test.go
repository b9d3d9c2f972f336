package relay

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// writes counts the writes to a connection.
type writes struct {
	net.Conn
	n    int
	data bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.data.Write(p)
}

func (w *writes) SetWriteDeadline(time.Time) error { return nil }

func TestWireSendsWhatItHeldInOnePiece(t *testing.T) {
	below := &writes{}
	w := &wire{Conn: below, timeout: time.Second}
	for round := range 2 { // buffers are used again
		below.n = 0
		below.data.Reset()
		w.hold()
		for _, text := range []string{"a", "bc", "d"} {
			if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatalf("wrote %d, %v", n, err)
			}
		}
		if below.n != 0 {
			t.Error("something was sent while it was held")
		}
		if err := w.release(); err != nil || below.n != 1 || below.data.String() != "abcd" {
			t.Errorf("round %d: sent %q in %d pieces, %v", round, below.data.String(), below.n, err)
		}
	}
	if _, err := w.Write([]byte("e")); err != nil || below.data.String() != "abcde" {
		t.Errorf("what comes after the release was not sent: %q, %v", below.data.String(), err)
	}
}

func TestWireGivesAPeerThatDoesNotReadItsTimeout(t *testing.T) {
	ours, theirs := net.Pipe() // nobody reads
	defer theirs.Close()
	w := &wire{Conn: ours, timeout: time.Millisecond}
	w.hold()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.release(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestQueueGivesManySmallMessagesAtOnceAndFewLargeOnes(t *testing.T) {
	q := newOutbound(2*popMessages, 100*popBytes, &account{all: &memory{}})
	for range popMessages + 3 {
		q.push(outgoing{head: []byte("small")})
	}
	for range 3 {
		q.push(outgoing{head: make([]byte, popBytes-100)})
	}
	for i, want := range []int{popMessages, 4, 1, 1} {
		batch, err := q.pop(t.Context(), nil, nil)
		if err != nil || len(batch) != want {
			t.Fatalf("pop %d gave %d messages, %v, want %d", i+1, len(batch), err, want)
		}
	}
	if q.bytes != 0 || len(q.queue) != 0 {
		t.Errorf("%d bytes and %d messages are left", q.bytes, len(q.queue))
	}
}

func TestGatheredMessagesWaitForTheLast(t *testing.T) {
	q := newOutbound(10, 100*popBytes, &account{all: &memory{}})
	gather := func(n int) {
		if err := q.gather(t.Context(), outgoing{head: make([]byte, n)}); err != nil {
			t.Fatal(err)
		}
	}
	gather(1)
	if len(q.ready) != 0 {
		t.Error("a small message did not wait for others")
	}
	gather(popBytes)
	if len(q.ready) != 1 {
		t.Error("enough for one write waits on")
	}
	<-q.ready
	if err := q.pushWait(t.Context(), outgoing{head: []byte("last")}); err != nil || len(q.ready) != 1 {
		t.Errorf("the last message waits on, %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if err := q.gather(ctx, outgoing{}); err != nil {
			return
		}
	}
	t.Error("a full queue took everything")
}
