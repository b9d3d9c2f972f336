package doctor_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/agent/doctor"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// place is a server of which a test can change what it says.
type place struct {
	*httptest.Server
	document wellknown.Document
	header   func(http.Header)
	key      ed25519.PrivateKey
}

// newPlace starts a server with a relay and three other carriers.
func newPlace(t *testing.T, start func(http.Handler) *httptest.Server) *place {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{key: key, header: func(http.Header) {}}
	p.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.header(w.Header())
		if r.URL.Path != wellknown.Path {
			http.NotFound(w, r)
			return
		}
		data, err := wellknown.Sign(p.document, p.key)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(p.Close)
	mailbox := httpstest.Start(t, https.MailboxOptions{})
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{})
	push := ntfytest.Start(t, ntfytest.Unlimited)
	p.document = wellknown.Document{
		Origin: p.URL, Name: "test server", Relay: relaytest.Start(t, relay.Options{}).URL, IssuedAt: canonical.At(time.Now()),
		Carriers: []wellknown.Carrier{
			{Scheme: "https", Address: mailbox.Address()}, {Scheme: "mqtt", Address: broker.URL}, {Scheme: "ntfy", Address: push.URL},
		},
	}
	return p
}

// look returns the verdicts by name, and the whole findings for messages.
func look(t *testing.T, origin string, opts doctor.Options) map[string]doctor.Check {
	t.Helper()
	checks, err := doctor.Server(t.Context(), origin, opts)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Check{}
	for _, c := range checks {
		if c.Verdict == doctor.Bad && c.Hint == "" {
			t.Errorf("%s is bad, and nothing says what to do", c.Name)
		}
		found[c.Name] = c
	}
	return found
}

// want demands verdicts; the checks it does not name must not be bad.
func want(t *testing.T, found map[string]doctor.Check, wanted map[string]doctor.Verdict) {
	t.Helper()
	for name, verdict := range wanted {
		if found[name].Verdict != verdict {
			t.Errorf("%s is %q, want %q: %s", name, found[name].Verdict, verdict, found[name].Detail)
		}
	}
	for name, c := range found {
		if _, named := wanted[name]; !named && (c.Verdict == doctor.Bad || c.Verdict == doctor.Warning) {
			t.Errorf("%s is %q: %s", name, c.Verdict, c.Detail)
		}
	}
}

func TestAServerInOrderIsFoundGood(t *testing.T) {
	var told []string
	p := newPlace(t, httptest.NewServer)
	found := look(t, p.URL, doctor.Options{Done: func(c doctor.Check) { told = append(told, c.Name) }})
	want(t, found, map[string]doctor.Verdict{
		"port": doctor.Good, "clock": doctor.Good, "document": doctor.Good, "relay": doctor.Good, "privacy": doctor.Good,
		"carrier https": doctor.Good, "carrier mqtt": doctor.Good, "carrier ntfy": doctor.Good, "tls": doctor.Skipped, "metrics": doctor.Skipped,
	})
	if len(told) != len(found) {
		t.Errorf("told of %d checks, want %d", len(told), len(found))
	}
}

func TestEachTroubleIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *place)
		wanted map[string]doctor.Verdict
	}{
		"a clock two minutes off": {
			func(_ *testing.T, p *place) {
				p.header = func(h http.Header) { h.Set("Date", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat)) }
			}, map[string]doctor.Verdict{"clock": doctor.Bad},
		},
		"a clock twenty seconds off": {
			func(_ *testing.T, p *place) {
				p.header = func(h http.Header) { h.Set("Date", time.Now().Add(-20*time.Second).UTC().Format(http.TimeFormat)) }
			}, map[string]doctor.Verdict{"clock": doctor.Warning},
		},
		"another origin": {
			func(_ *testing.T, p *place) { p.document.Origin = "https://parley.example" }, map[string]doctor.Verdict{"document": doctor.Bad},
		},
		"a relay that is down": {
			func(_ *testing.T, p *place) { p.document.Relay = "ws://127.0.0.1:1/" }, map[string]doctor.Verdict{"relay": doctor.Bad},
		},
		"carriers that are down": {
			func(_ *testing.T, p *place) {
				p.document.Carriers = []wellknown.Carrier{{Scheme: "mqtt", Address: "mqtt://127.0.0.1:1"}, {Scheme: "https", Address: p.URL + "/nothing"}}
			}, map[string]doctor.Verdict{"carrier mqtt": doctor.Bad, "carrier https": doctor.Bad},
		},
		"a relay that shows everybody's messages": {
			func(t *testing.T, p *place) { p.document.Relay = indiscreet(t) }, map[string]doctor.Verdict{"privacy": doctor.Bad, "relay": doctor.Good},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, httptest.NewServer)
			c.change(t, p)
			want(t, look(t, p.URL, doctor.Options{}), c.wanted)
		})
	}
}

func TestWhatIsNoServerIsSaidSo(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	want(t, look(t, web.URL, doctor.Options{}), map[string]doctor.Verdict{"document": doctor.Bad, "relay": doctor.Skipped})
	want(t, look(t, "http://127.0.0.1:1", doctor.Options{}), map[string]doctor.Verdict{"port": doctor.Bad, "clock": doctor.Skipped, "document": doctor.Skipped})
	for _, text := range []string{"", "parley.example", "ftp://parley.example", "https://parley.example/path", "https://user@parley.example", "https://"} {
		if _, err := doctor.Server(t.Context(), text, doctor.Options{}); !errors.Is(err, doctor.ErrOrigin) {
			t.Errorf("%q: %v", text, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := doctor.Server(ended, web.URL, doctor.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an examination that was ended: %v", err)
	}
}

func TestCertificatesAreLookedAt(t *testing.T) {
	p := newPlace(t, httptest.NewTLSServer)
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate())
	trusting := &tls.Config{RootCAs: pool}
	found := look(t, p.URL, doctor.Options{TLS: trusting})
	want(t, found, map[string]doctor.Verdict{"tls": doctor.Good, "document": doctor.Good})
	if !strings.Contains(found["tls"].Detail, "TLS 1.3") {
		t.Errorf("tls: %s", found["tls"].Detail)
	}
	soon := p.Certificate().NotAfter.Add(-24 * time.Hour)
	found = look(t, p.URL, doctor.Options{TLS: trusting, Now: func() time.Time { return soon }})
	if found["tls"].Verdict != doctor.Warning {
		t.Errorf("a certificate that ends tomorrow is %q: %s", found["tls"].Verdict, found["tls"].Detail)
	}
	found = look(t, p.URL, doctor.Options{})
	if found["tls"].Verdict != doctor.Bad || found["document"].Verdict != doctor.Bad {
		t.Errorf("a certificate that nobody signed is %q, the document %q", found["tls"].Verdict, found["document"].Verdict)
	}
}

// indiscreet is a relay that gives sealed messages to everybody.
func indiscreet(t *testing.T) string {
	t.Helper()
	ev := nostr.Event{Kind: 1059, CreatedAt: nostr.Now(), Content: "sealed", Tags: nostr.Tags{{"p", strings.Repeat("ab", 32)}}}
	if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	wrap := ev.String()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = w.Write([]byte(`{"name":"loud","supported_nips":[1,11,42]}`))
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			_, data, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			parts := strings.SplitN(string(data), `"`, 5)
			if len(parts) < 5 || parts[1] != "REQ" {
				continue
			}
			if strings.Contains(string(data), "1059") {
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(`["EVENT","`+parts[3]+`",`+wrap+`]`))
			}
			_ = conn.Write(r.Context(), websocket.MessageText, []byte(`["EOSE","`+parts[3]+`"]`))
		}
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}
