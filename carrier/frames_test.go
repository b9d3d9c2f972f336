package carrier_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
)

// textCarrier takes text alone, in small pieces.
type textCarrier struct{ *carriertest.Carrier }

func (textCarrier) TextOnly(carrier.Address) bool { return true }

// small gives an engine two carriers that take little.
func small(w *world, name string) func(*carrier.Options) {
	return func(o *carrier.Options) {
		binary, text := w.network.Carrier("mem", name), w.network.Carrier("txt", name)
		binary.Frame, text.Frame = 700, 400
		o.Carriers = []carrier.Carrier{binary, textCarrier{text}}
		o.Parallel = 2
	}
}

func TestLongWrapTravelsInFramesOfTwoCarriersThatEachLoseSome(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice", small(w, "alice")).start(), w.add("bob", small(w, "bob")).start()
		for _, a := range []*agent{alice, bob} {
			name := map[*agent]string{alice: "alice", bob: "bob"}[a]
			w.book[a.PublicKey()] = []carrier.Address{at(name), {Scheme: "txt", Address: name}}
		}
		alice.knows(bob)
		bob.knows(alice)
		n := 0
		w.network.Lose(func(to carrier.Address, data []byte) bool {
			if to.Scheme == "txt" && bytes.ContainsAny(data, "{\x00") || len(data) > 700 {
				t.Errorf("%s got %d bytes beginning with %q", to.Scheme, len(data), data[:4])
			}
			if to.Address != "bob" {
				return false
			}
			n++
			return to.Scheme == "mem" && n%3 == 0 || to.Scheme == "txt" && n%5 == 0
		})
		var all []string
		for i := range 5 {
			m := alice.text(bob, fmt.Sprint("hello ", i))
			pass(10 * time.Minute)
			alice.wantOut(m, carrier.StateAcked)
			all = append(all, m.ID)
		}
		if got := bob.ids(); len(got) != len(all) {
			t.Errorf("handled %d messages, want %d", len(got), len(all))
		}
		pass(13 * time.Hour) // what came twice waits for nothing
		if n := bob.count("carrier_frames"); n != 0 {
			t.Errorf("%d frames are left", n)
		}
	})
}

// frames cuts a wrap as a hostile sender may: with the wrap's true name.
func frames(t *testing.T, wrap []byte) [][]byte {
	t.Helper()
	all, err := carrier.Split(wrap, 700, false)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func forgedFrame(wrap []byte, offset int, payload []byte) []byte {
	sum := sha256.Sum256(wrap)
	return carrier.Frame{Wrap: [16]byte(sum[:16]), Offset: offset, Total: len(wrap), Payload: payload}.Encode(false)
}

func TestForgedFramesDoNotKeepAMessageOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice"), w.add("bob").start()
		bob.knows(alice)
		m := alice.message(bob, "text", map[string]string{"text": "hello"}, time.Hour)
		wrap := alice.seal(m)[0]
		good := frames(t, wrap)
		// Three forged contents for the first range, one of another size for
		// the whole, then garbage and the true frames.
		for i := range 3 {
			w.network.Put(at("bob"), forgedFrame(wrap, 0, bytes.Repeat([]byte{byte(i)}, 668)))
		}
		w.network.Put(at("bob"), carrier.Frame{Wrap: [16]byte{1}, Total: 99, Payload: make([]byte, 70)}.Encode(false))
		w.network.Put(at("bob"), []byte("PF\x01\x00 garbage"))
		w.network.Put(at("bob"), []byte("UEYBgarbage"))
		for _, frame := range good {
			w.network.Put(at("bob"), frame)
		}
		pass(time.Second)
		if got := bob.ids(); len(got) != 1 || got[0] != m.ID {
			t.Errorf("handled %v", got)
		}
	})
}

func TestFramesOfHopelessContradictionAreForgottenAndMayComeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice"), w.add("bob").start()
		bob.knows(alice)
		m := alice.message(bob, "text", map[string]string{"text": "hello"}, time.Hour)
		wrap := alice.seal(m)[0]
		good := frames(t, wrap)
		for i, frame := range good[:3] { // three ranges forged twice
			f, err := carrier.ParseFrame(frame)
			if err != nil {
				t.Fatal(err)
			}
			w.network.Put(at("bob"), forgedFrame(wrap, f.Offset, bytes.Repeat([]byte{byte(i)}, len(f.Payload))))
			w.network.Put(at("bob"), forgedFrame(wrap, f.Offset, bytes.Repeat([]byte{byte(i + 9)}, len(f.Payload))))
		}
		for _, frame := range good[3:] {
			w.network.Put(at("bob"), frame)
		}
		pass(time.Second)
		if n := bob.count("carrier_frames"); n != 0 {
			t.Errorf("%d frames kept after four combinations", n)
		}
		for _, frame := range good {
			w.network.Put(at("bob"), frame)
		}
		pass(time.Second)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %v", got)
		}
	})
}

// inletCarrier names an inlet for each address.
type inletCarrier struct{ *carriertest.Carrier }

func (c inletCarrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	return c.Carrier.Receive(ctx, from, func(ctx context.Context, data []byte, next carrier.Cursor) error {
		f, err := carrier.ParseFrame(data)
		if err == nil && f.Total == 1000 {
			ctx = carrier.WithInlet(ctx, "flooded")
		}
		return handle(ctx, data, next)
	})
}

func TestFloodOfFramesIsBoundedAndCostsOtherInletsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob := w.add("bob", func(o *carrier.Options) {
			o.Carriers = []carrier.Carrier{inletCarrier{w.network.Carrier("mem", "bob")}}
			o.Limits.InletFrameBytes, o.Limits.FrameBytes = 10_000, 40_000
		}).start()
		alice := w.add("alice")
		bob.knows(alice)
		m := alice.message(bob, "text", map[string]string{"text": "hello"}, time.Hour)
		good := frames(t, alice.seal(m)[0])
		w.network.Put(at("bob"), good[0])
		for i := range 300 {
			w.network.Put(at("bob"), carrier.Frame{Wrap: [16]byte{byte(i), byte(i >> 8)}, Total: 1000, Payload: make([]byte, 500)}.Encode(false))
		}
		pass(time.Second)
		if n := bob.count("carrier_frames"); n > 21 {
			t.Errorf("%d frames of the flood kept, want at most 20", n-1)
		}
		for _, frame := range good[1:] {
			w.network.Put(at("bob"), frame)
		}
		pass(time.Second)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %v", got)
		}
		pass(13 * time.Hour)
		if n := bob.count("carrier_frames"); n != 0 {
			t.Errorf("%d frames kept for more than 12 hours", n)
		}
	})
}
