package mqttbridge

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/parleykit/parley/carrier"
)

func TestParseAddress_hasOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"mqtts://broker.example/parley/1/in/abc": "mqtts://broker.example:8883/parley/1/in/abc",
		"mqtts://Broker.Example:18883/a":         "mqtts://broker.example:18883/a",
		"mqtt://127.0.0.1/a/b":                   "mqtt://127.0.0.1:1883/a/b",
		"mqtt://[::1]:1884/a":                    "mqtt://[::1]:1884/a",
		"mqtt://localhost:1884/a":                "mqtt://localhost:1884/a",
	} {
		got, err := ParseAddress(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "mqtts://", "mqtts://:8883/a", "mqtts://host", "mqtts://host/", "mqtt://broker.example/a", "https://host/a", "mqtts://user:pw@host/a",
		"mqtts://host/a?x=1", "mqtts://host/a#b", "mqtts://host/a/+/b", "mqtts://host/a/%23", "mqtts://host/$SYS/a", "mqtts://host/%24share/g/a",
		"mqtts://host/a//b", "mqtts://host//a", "mqtts://host/a/", "mqtts://host/a%00", "mqtts://host/a%0a", "mqtts://host/" + strings.Repeat("a", 300),
	} {
		if got, err := ParseAddress(text); !errors.Is(err, carrier.ErrPermanent) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestTopic_letsNoValueLeaveItsLevel(t *testing.T) {
	got, err := Topic("agents/{recipient}/in", map[string]string{"recipient": "abc"})
	if err != nil || got != "agents/abc/in" {
		t.Errorf("%q, %v", got, err)
	}
	for _, value := range []string{"", "a/b", "+", "#", "$share", "a\x00", "a\nb", "..\u0085", "\xff"} {
		if got, err := Topic("agents/{recipient}/in", map[string]string{"recipient": value}); !errors.Is(err, ErrTopic) {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	for _, template := range []string{"", "a/{", "a/{x}", "a/{recipient", "$SYS/{recipient}", "{recipient}//x", "+/{recipient}"} {
		if got, err := Topic(template, map[string]string{"recipient": "abc"}); !errors.Is(err, ErrTopic) {
			t.Errorf("%q: %q, %v", template, got, err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"mqtts://broker.example/a/b", "mqtt://[::1]:1884/a", "mqtts://host/%24a", "mqtts://h:0/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseAddress(text)
		if err != nil {
			return
		}
		if again, err := ParseAddress(at.String()); err != nil || again != at {
			t.Errorf("%q becomes %q becomes %q, %v", text, at, again, err)
		}
		if strings.ContainsAny(at.Topic, "+#\x00") || strings.HasPrefix(at.Topic, "$") || at.Topic == "" {
			t.Errorf("%q has the topic %q", text, at.Topic)
		}
		host, _, err := net.SplitHostPort(hostPort(at.Broker))
		if ip := net.ParseIP(host); err != nil || strings.HasPrefix(at.Broker, "mqtt://") && host != "localhost" && !ip.IsLoopback() {
			t.Errorf("%q is %q without encryption", text, at.Broker)
		}
	})
}

func FuzzTopic(f *testing.F) {
	for _, seed := range [][2]string{{"agents/{recipient}/in", "abc"}, {"{recipient}", "$SYS"}, {"a/{x}", "+"}, {"a{", "}"}, {"{recipient}{recipient}", "a/b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		topic, err := Topic(template, map[string]string{"recipient": value})
		if err != nil {
			return
		}
		switch {
		case len(topic) > maxTopic, strings.ContainsAny(topic, "+#\x00"), strings.HasPrefix(topic, "$"):
			t.Errorf("%q with %q is %q", template, value, topic)
		case strings.Count(topic, "/") != strings.Count(template, "/"):
			t.Errorf("%q with %q has other levels: %q", template, value, topic)
		}
	})
}
