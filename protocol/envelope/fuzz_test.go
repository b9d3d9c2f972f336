package envelope

import (
	"testing"

	"github.com/parleykit/parley/protocol/canonical"
)

// FuzzOpen feeds the outermost layer; only the seed itself may open.
func FuzzOpen(f *testing.F) {
	wrap := forged(f, "fuzz").bytes(f)
	f.Add(wrap)
	f.Add([]byte(`{"id":"","pubkey":"","created_at":0,"kind":1059,"tags":[],"content":"","sig":""}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Open(data, bob, now); err == nil && string(data) != string(wrap) {
			t.Fatalf("opened %q", data)
		} else if err != nil && Reason(err) == reasonOther {
			t.Fatalf("no reason for %v", err)
		}
	})
}

// FuzzOpen_inside feeds what only a key holder can: the plaintexts of the seal
// and of the rumor.
func FuzzOpen_inside(f *testing.F) {
	seed := forged(f, "fuzz")
	var seal, rumor string
	seed.plainSeal = func(s string) string { seal = s; return s }
	seed.plainRumor = func(s string) string { rumor = s; return s }
	seed.bytes(f)
	f.Add([]byte(seal))
	f.Add([]byte(rumor))
	f.Add([]byte(`{"id":null}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		if _, err := parseSeal(plain); err == nil != (string(plain) == seal) && !sameEvent(t, plain, seal) {
			t.Fatalf("another seal: %q, %v", plain, err)
		}
		ev, err := parseRumor(plain, alice.PublicKey())
		if err == nil {
			err = new(Opened).content(ev, bob.PublicKey(), now)
		}
		if err != nil && Reason(err) == reasonOther {
			t.Fatalf("no reason for %v", err)
		}
	})
}

// sameEvent tells a seal in another spelling from another seal.
func sameEvent(t *testing.T, plain []byte, seal string) bool {
	ev, err := canonical.DecodeEvent(plain)
	return err == nil && encode(t, ev) == seal
}

// FuzzUnpack feeds contents and never gets more than a message's size.
func FuzzUnpack(f *testing.F) {
	content, _ := pack(make([]byte, 1000))
	f.Add(content, true)
	f.Add(`{"v":1}`, false)
	f.Fuzz(func(t *testing.T, content string, deflate bool) {
		data, err := unpack(content, deflate)
		if err != nil {
			return
		}
		if deflate && len(data) > 1<<20 {
			t.Fatalf("%d bytes", len(data))
		}
		_, _ = read(data, alice.PublicKey(), bob.PublicKey(), now)
	})
}
