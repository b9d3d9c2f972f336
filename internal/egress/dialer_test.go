package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// zone answers look-ups from a table; every look-up takes the next answer, as
// a rebinding name server would.
type zone map[string][]string

func (z zone) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	answers := z[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		z[host] = answers[1:]
	}
	var addrs []netip.Addr
	for text := range strings.FieldsSeq(answers[0]) {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// listen accepts connections on loopback and returns the port.
func listen(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

func allow(t *testing.T, texts ...string) []Allow {
	t.Helper()
	var allowed []Allow
	for _, text := range texts {
		a, err := ParseAllow(text)
		if err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, a)
	}
	return allowed
}

// dial reports "connected", "refused" or the error.
func dial(t *testing.T, d *Dialer, address string) string {
	t.Helper()
	conn, err := d.DialContext(t.Context(), "tcp", address)
	switch {
	case err == nil:
		_ = conn.Close()
		return "connected"
	case errors.Is(err, ErrRefusedAddress):
		return "refused"
	}
	return err.Error()
}

func TestDial_refusesWhatIsNotGlobalInEveryDisguise(t *testing.T) {
	port := listen(t)
	d := New(Options{Resolver: zone{
		"loop.example": {"127.0.0.1"}, "mixed.example": {"1.1.1.1 127.0.0.1"}, "six.example": {"::ffff:127.0.0.1"},
		"private.example": {"10.0.0.1"}, "2130706433": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "localhost": {"127.0.0.1 ::1"},
		"rebind.example": {"1.1.1.1 127.0.0.1", "127.0.0.1"},
	}})
	for _, host := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "fe80::1", "fe80::1%lo",
		"64:ff9b::7f00:1", "2002:7f00:1::", "loop.example", "LOOP.example.", "mixed.example", "six.example",
		"private.example", "2130706433", "127.1", "localhost", "rebind.example",
	} {
		if got := dial(t, d, net.JoinHostPort(host, port)); got != "refused" {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestDial_goesToTheCheckedAddressOnly(t *testing.T) {
	names := zone{"rebind.example": {"127.0.0.1", "10.0.0.1"}}
	d := New(Options{AllowLoopback: true, Resolver: names})
	if got := dial(t, d, "rebind.example:"+listen(t)); got != "connected" {
		t.Errorf("first answer: %s", got)
	}
	if got := dial(t, d, "rebind.example:80"); got != "refused" {
		t.Errorf("second answer: %s", got)
	}
	check := only(netip.MustParseAddrPort("1.1.1.1:443"))
	for address, ok := range map[string]bool{"1.1.1.1:443": true, "1.1.1.1:80": false, "127.0.0.1:443": false, "x": false} {
		if err := check(t.Context(), "tcp4", address, nil); (err == nil) != ok {
			t.Errorf("socket to %s: %v", address, err)
		}
	}
}

func TestDial_triesTheNextAddress(t *testing.T) {
	port := listen(t)
	d := New(Options{AllowLoopback: true, Resolver: zone{"two.example": {"127.0.0.2 127.0.0.1"}}})
	if got := dial(t, d, "two.example:"+port); got != "connected" { // nobody listens on 127.0.0.2
		t.Error(got)
	}
}

func TestDial_allowsWhatOptionsAllow(t *testing.T) {
	port := listen(t)
	names := zone{"broker.lan": {"127.0.0.1"}, "other.lan": {"127.0.0.1"}}
	for _, tt := range []struct {
		name    string
		options Options
		host    string
		want    string
	}{
		{"loopback", Options{AllowLoopback: true}, "127.0.0.1", "connected"},
		{"loopback by private", Options{AllowPrivate: true}, "127.0.0.1", "refused"},
		{"private by loopback", Options{AllowLoopback: true}, "10.0.0.1", "refused"},
		{"link-local by both", Options{AllowLoopback: true, AllowPrivate: true}, "169.254.169.254", "refused"},
		{"address", Options{Allow: allow(t, "127.0.0.1")}, "127.0.0.1", "connected"},
		{"address and port", Options{Allow: allow(t, "127.0.0.1:"+port)}, "127.0.0.1", "connected"},
		{"another port", Options{Allow: allow(t, "127.0.0.1:1")}, "127.0.0.1", "refused"},
		{"network", Options{Allow: allow(t, "127.0.0.0/8")}, "127.0.0.1", "connected"},
		{"mapped address", Options{Allow: allow(t, "127.0.0.0/8")}, "::ffff:127.0.0.1", "connected"},
		{"name", Options{Allow: allow(t, "broker.lan")}, "Broker.LAN.", "connected"},
		{"another name", Options{Allow: allow(t, "broker.lan")}, "other.lan", "refused"},
		{"its address", Options{Allow: allow(t, "broker.lan")}, "127.0.0.1", "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.Resolver = names
			if got := dial(t, New(tt.options), net.JoinHostPort(tt.host, port)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestFromCard_refusesLoopbackThatTheOwnerExcepted(t *testing.T) {
	port := listen(t)
	excepted := New(Options{Allow: allow(t, "127.0.0.1", "10.0.0.0/8")})
	if got := dial(t, excepted, "127.0.0.1:"+port); got != "connected" {
		t.Errorf("the owner's address: %s", got)
	}
	if got := dial(t, excepted.FromCard(), "127.0.0.1:"+port); got != "refused" {
		t.Errorf("the same from a card: %s", got)
	}
	if !excepted.FromCard().permits(private, "10.1.1.1", netip.MustParseAddr("10.1.1.1"), 1) {
		t.Error("a private network excepted by the owner is refused from cards")
	}
	if got := dial(t, New(Options{AllowLoopback: true}).FromCard(), "127.0.0.1:"+port); got != "connected" {
		t.Errorf("with a loopback origin: %s", got)
	}
}

func TestDial_refusesMalformedAddresses(t *testing.T) {
	d := New(Options{AllowLoopback: true})
	for _, address := range []string{"", "host", "host:", "host:http", "host:0", "host:65536", ":80", "[::1]", "127.0.0.1:80:80"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := d.DialContext(t.Context(), "unix", "/run/socket:1"); !errors.Is(err, ErrAddress) {
		t.Errorf("unix socket: %v", err)
	}
}

func TestErrors_doNotShowAddresses(t *testing.T) {
	d := New(Options{Resolver: zone{"secret.internal": {"10.20.30.40"}}})
	_, err := d.DialContext(t.Context(), "tcp", "secret.internal:80")
	if err == nil || strings.Contains(err.Error(), "10.20") || !strings.Contains(err.Error(), "private") {
		t.Errorf("error %v", err)
	}
}

func TestMetrics_areWellNamedAndCountResults(t *testing.T) {
	registry := prometheus.NewRegistry()
	d := New(Options{AllowLoopback: true, Registerer: registry, Resolver: zone{}})
	port := listen(t)
	_ = dial(t, d, "127.0.0.1:"+port)
	_ = dial(t, d.FromCard(), "10.0.0.1:80")
	_ = dial(t, d, "nowhere.example:80")
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for _, result := range []string{"connected", "refused", "failed"} {
		if got := testutil.ToFloat64(d.metrics.dials.WithLabelValues(result)); got != 1 {
			t.Errorf("%s counted %v times", result, got)
		}
	}
}
