package egress

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestClassOf_knowsEverySpecialRange(t *testing.T) {
	for text, want := range map[string]class{
		"1.1.1.1": global, "8.8.8.8": global, "100.63.255.255": global, "100.128.0.0": global, "172.32.0.0": global,
		"2606:4700:4700::1111": global, "2a00::1": global,
		"127.0.0.1": loopback, "127.255.255.254": loopback, "::1": loopback,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private,
		"100.64.0.1": private, "100.127.255.255": private, "fc00::1": private, "fd12::1": private, "fec0::1": private,
		"169.254.169.254": linkLocal, "fe80::1": linkLocal, "fe80::1%eth0": linkLocal,
		"0.0.0.0": unspecified, "0.1.2.3": unspecified, "::": unspecified,
		"224.0.0.1": multicast, "239.255.255.255": multicast, "ff02::1": multicast,
		"192.0.0.8": reserved, "192.0.2.1": reserved, "198.51.100.1": reserved, "203.0.113.9": reserved,
		"198.18.0.1": reserved, "192.88.99.1": reserved, "240.0.0.1": reserved, "255.255.255.255": reserved,
		"2001:db8::1": reserved, "3fff::1": reserved, "2001::1": reserved, "2001:2::1": reserved, "2001:10::1": reserved,
		"::2": reserved, "4000::1": reserved, "100::1": reserved, "5f00::1": reserved,
		"::ffff:127.0.0.1": loopback, "::ffff:10.1.1.1": private, "::ffff:8.8.8.8": global,
		"2002:7f00:1::": loopback, "2002:a00:1::": private, "2002:808:808::": global,
		"64:ff9b::7f00:1": loopback, "64:ff9b::c0a8:101": private, "64:ff9b::a9fe:a9fe": linkLocal, "64:ff9b::808:808": global,
		"64:ff9b:1::808:808": private, "::7f00:1": reserved,
	} {
		if got := classOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if got := classOf(netip.Addr{}); got != unspecified {
		t.Errorf("no address is %q", got)
	}
}

// TestClassOf_agreesWithTheStandardLibrary compares with netip's own notions,
// which know fewer ranges.
func TestClassOf_agreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "raw")
		addr := netip.AddrFrom4([4]byte(raw))
		special := addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified()
		if special && classOf(addr) == global {
			t.Fatalf("%s counts as global", addr)
		}
		var mapped, wrapped [16]byte
		mapped = addr.As16()
		copy(wrapped[:], []byte{0x20, 0x02, raw[0], raw[1], raw[2], raw[3]})
		for _, form := range [][16]byte{mapped, wrapped} {
			if got := classOf(netip.AddrFrom16(form)); got != classOf(addr) {
				t.Fatalf("%s is %q, but %s is %q", netip.AddrFrom16(form), got, addr, classOf(addr))
			}
		}
	})
}

func TestParseAllow_readsItsOwnForm(t *testing.T) {
	for _, text := range []string{"192.168.1.5", "10.0.0.0/8", "fd00::/8", "[fd00::1]:1883", "fd00::1", "broker.lan", "broker.lan:1883", "127.0.0.1:25", "localhost", "_srv.a-b.c"} {
		allow, err := ParseAllow(text)
		if err != nil || allow.String() != text {
			t.Errorf("%q reads as %q, %v", text, allow, err)
		}
	}
}

func TestParseAllow_refusesTheRest(t *testing.T) {
	for _, text := range []string{"", "10.0.0.1/8", "host:0", "host:99999", "host:x", ":80", "http://host", "a b", "-a.b", "a..b", "fe80::1%eth0", "user@host", "host/path", "*"} {
		if allow, err := ParseAllow(text); err == nil {
			t.Errorf("%q reads as %v", text, allow)
		}
	}
}

func FuzzParseAllow(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8", "[::1]:80", "a.b:1", "::ffff:1.2.3.4", "0.0.0.0.", "[::1.]:80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		allow, err := ParseAllow(text)
		if err != nil {
			return
		}
		if again, err := ParseAllow(allow.String()); err != nil || again != allow {
			t.Errorf("%q becomes %q becomes %q, %v", text, allow, again, err)
		}
	})
}
