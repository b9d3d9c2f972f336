package ntfybridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/envelope"
)

var (
	ann = strings.Repeat("a", 64)
	bob = strings.Repeat("b", 64)
	cat = strings.Repeat("c", 64)
)

func newSide(t *testing.T, opts ntfybridge.SideOptions) *ntfybridge.Side {
	t.Helper()
	opts.Dialer = loopback()
	s, err := ntfybridge.NewSide(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestSideWritesEnvelopesPointersAndWakeUps(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	s := newSide(t, ntfybridge.SideOptions{
		Recipients: map[string]string{ann: server.URL + "/ann"},
		Target: func(_ context.Context, pubkey string) (string, error) {
			if pubkey == bob {
				return server.URL + "/bob", nil
			}
			return "", nil
		},
	})
	id, later := strings.Repeat("0a", 32), time.Now().Add(time.Hour)
	short, long := []byte(`{"kind":1059}`), []byte("{"+strings.Repeat("x", 20_000)+"}")
	for _, row := range []struct {
		recipient string
		kind      int
		event     []byte
		expires   time.Time
		fails     bool
	}{
		{ann, envelope.KindWrap, short, later, false},
		{ann, envelope.KindWrap, long, later, false},
		{bob, envelope.KindWrap, short, later, false},
		{bob, envelope.KindWrap, short, later, false}, // coalesced
		{cat, envelope.KindWrap, short, later, true},
		{ann, 30417, short, later, true},
		{ann, envelope.KindWrap, short, time.Now().Add(-time.Second), true},
	} {
		err := s.Write(t.Context(), bridge.Item{ID: id, Kind: row.kind, Recipient: row.recipient, Event: row.event, Expires: row.expires})
		if row.fails != errors.Is(err, carrier.ErrPermanent) || !row.fails && err != nil {
			t.Errorf("kind %d for %.4s: %v", row.kind, row.recipient, err)
		}
	}
	p := protocol{url: server.URL}
	if diff := cmp.Diff([]string{string(short), ntfybridge.Pointer(id)}, p.poll(t, "ann", "")); diff != "" {
		t.Errorf("topic of ann (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{ntfybridge.WakeUp}, p.poll(t, "bob", "")); diff != "" {
		t.Errorf("topic of bob (-want +got):\n%s", diff)
	}
}

func TestSideGoesOnAfterTheFramesThatWereTaken(t *testing.T) {
	now := newClock()
	server := ntfytest.Start(t, ntfytest.Options{Now: now.now})
	s := newSide(t, ntfybridge.SideOptions{Recipients: map[string]string{ann: server.URL + "/ann"}, Now: now.now, MaxInline: 200})
	wrap, pieces := frames(t, 300_000)
	id := strings.Repeat("0a", 32)
	tries := 0
	for {
		err := s.Write(t.Context(), bridge.Item{ID: id, Kind: envelope.KindWrap, Recipient: ann, Event: wrap})
		if err == nil {
			break
		}
		var limited *carrier.RateLimited
		if !errors.As(err, &limited) {
			t.Fatal(err)
		}
		tries++
		now.advance(limited.After)
	}
	if server.Published() != len(pieces) || len(pieces) < 61 || tries == 0 {
		t.Errorf("%d publications of %d frames in %d tries", server.Published(), len(pieces), tries)
	}
}

func TestSideReadsItsTopics(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/in"
	send(t, newCarrier(t, ntfybridge.Options{}, server.URL), topic, `{"n":0}`)
	send(t, newCarrier(t, ntfybridge.Options{}, server.URL), topic, "nothing of use")
	s := newSide(t, ntfybridge.SideOptions{Topics: []string{topic}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := s.Read(ctx, "", func(_ context.Context, data []byte, _ carrier.Cursor) error {
		if data != nil && string(data) != `{"n":0}` {
			t.Errorf("handed on %q", data)
		}
		if data == nil { // the cursor, past the nonsense
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %v", err)
	}
}
