package card

import (
	"strings"
	"testing"
)

func TestCheckAddress_acceptsOneSpellingPerCarrier(t *testing.T) {
	good := map[string][]string{
		SchemeNostr:  {"wss://relay.example", "wss://relay.example:4443/path?x=1", "ws://localhost:8417", "ws://[::1]:8417/", "ws://127.9.9.9/"},
		SchemeNtfy:   {"https://ntfy.example/abc_-9", "http://127.0.0.1:8080/abc"},
		SchemeMQTT:   {"mqtts://mqtt.example:8883/a/b", "mqtt://127.0.0.1:8483/a", "mqtts://mqtt.example/a"},
		SchemeHTTPS:  {"https://a.example/x", "https://a.example", "http://localhost/x"},
		SchemeMailto: {"mailto:a@b.example", "mailto:first.last+tag@b.example"},
	}
	for scheme, list := range good {
		for _, address := range list {
			if problem := checkAddress(scheme, address); problem != "" {
				t.Errorf("%s %s: %s", scheme, address, problem)
			}
		}
	}
}

func TestCheckAddress_refusesTheRest(t *testing.T) {
	bad := map[string][]string{
		SchemeNostr: {
			"", "ws://relay.example", "ws://10.0.0.1", "ws://localhost.example", "https://relay.example", "wss://", "wss:relay.example",
			"wss://u:p@relay.example", "wss://relay.example/#f", "wss://relay.example/#", "WSS://relay.example", "wss://Relay.example",
			"wss://relay.example:", "wss://relay.example/ x", "wss://rélay.example", "wss://relay.example/\x00",
			"wss://" + strings.Repeat("a", MaxAddress), "wss://[fe80::1%25eth0]/", "javascript:alert(1)",
		},
		SchemeNtfy: {
			"https://ntfy.example", "https://ntfy.example/", "https://ntfy.example/a/b", "https://ntfy.example/a?auth=x", "http://ntfy.example/a",
			"https://ntfy.example/%61", "https://ntfy.example/" + strings.Repeat("a", 65),
		},
		SchemeMQTT:   {"mqtts://mqtt.example", "mqtts://mqtt.example/", "mqtts://mqtt.example/a/+/b", "mqtts://mqtt.example/%23", "mqtt://mqtt.example/a", "mqtts://mqtt.example/a?x"},
		SchemeHTTPS:  {"http://a.example/x", "file:///etc/passwd", "https:///x", "//a.example/x"},
		SchemeMailto: {"a@b.example", "mailto:", "mailto:a", "mailto:A <a@b.example>", "mailto:a@b.example?subject=x", "mailto:a@b.example,c@d.example", "mailto:a%40b@c.example"},
		"gopher":     {"gopher://a.example"},
		"":           {"https://a.example"},
	}
	for scheme, list := range bad {
		for _, address := range list {
			if checkAddress(scheme, address) == "" {
				t.Errorf("%s %q was accepted", scheme, address)
			}
		}
	}
}
