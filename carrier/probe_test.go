package carrier_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
)

func TestProbe_tellsWhatComesBackAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", small(w, "alice")).start()
		for _, to := range []carrier.Address{at("alice"), {Scheme: "txt", Address: "alice"}} {
			if sent, err := probeFor(t, alice, to); !sent || err != nil {
				t.Errorf("%s: sent %v, %v", to.Scheme, sent, err)
			}
		}
		pass(time.Minute)
		for _, table := range []string{"carrier_inbox", "carrier_outbox", "carrier_wraps", "carrier_frames"} {
			if n := alice.count(table); n != 0 {
				t.Errorf("%s has %d rows", table, n)
			}
		}
		w.network.Lose(func(carrier.Address, []byte) bool { return true })
		if sent, err := probeFor(t, alice, at("alice")); !sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lost: sent %v, %v", sent, err)
		}
		w.network.Fail(func(carrier.Address, []byte) error { return errDown })
		if sent, err := probeFor(t, alice, at("alice")); sent || !errors.Is(err, errDown) {
			t.Errorf("refused: sent %v, %v", sent, err)
		}
		if sent, err := probeFor(t, alice, carrier.Address{Scheme: "pigeon", Address: "alice"}); sent || !errors.Is(err, carrier.ErrNoCarrier) {
			t.Errorf("no carrier: sent %v, %v", sent, err)
		}
	})
}

// A probe that comes by another carrier than it left by proves nothing of the
// one that was asked.
func TestProbe_isNotAnsweredByAnotherCarrier(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", small(w, "alice")).start()
		w.network.Lose(func(to carrier.Address, wrap []byte) bool {
			if to.Scheme != "mem" {
				return false
			}
			go w.network.Put(carrier.Address{Scheme: "txt", Address: "alice"}, wrap)
			return true
		})
		if sent, err := probeFor(t, alice, at("alice")); !sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sent %v, %v", sent, err)
		}
	})
}

func probeFor(t *testing.T, a *agent, to carrier.Address) (bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return a.Probe(ctx, to)
}
