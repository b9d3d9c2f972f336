package mqttbridge

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// The topics of this project.
const (
	inboxPrefix    = "parley/1/in/"
	cardPrefix     = "parley/1/card/"
	presencePrefix = "parley/1/presence/"
)

// ErrTopic means text that is no topic to publish to.
var ErrTopic = errors.New("mqttbridge: bad topic")

// maxTopic bounds a topic, in bytes; MQTT itself ends at 65,535.
const maxTopic = 256

// InboxTopic is where the envelopes for a key go.
func InboxTopic(pubkey string) string { return inboxPrefix + pubkey }

// CardTopic is where the card d of a key is retained.
func CardTopic(pubkey, d string) string { return cardPrefix + pubkey + "/" + d }

// PresenceTopic is where a key says that it is up.
func PresenceTopic(pubkey string) string { return presencePrefix + pubkey }

// Topic fills a template such as "agents/{recipient}/in" with values. What is put
// in is one level: a slash, a wildcard, "$" at the beginning, control characters
// and an empty value are refused, as is a name that has no value.
func Topic(template string, values map[string]string) (string, error) {
	var topic strings.Builder
	for rest := template; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		topic.WriteString(before)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		value, known := values[name]
		if !closed || !known {
			return "", fmt.Errorf("%w: {%.40s} has no value", ErrTopic, name)
		}
		if value == "" || strings.Contains(value, "/") || strings.HasPrefix(value, "$") {
			return "", fmt.Errorf("%w: the value of {%.40s} is not one level", ErrTopic, name)
		}
		topic.WriteString(value)
		rest = tail
	}
	return topic.String(), checkTopic(topic.String())
}

// checkTopic holds a topic name to MQTT 3.1.1, section 4.7, and to our length. The
// server's own topics, which begin with "$", are refused too.
func checkTopic(topic string) error {
	switch {
	case topic == "" || len(topic) > maxTopic:
		return fmt.Errorf("%w: 1 to %d bytes", ErrTopic, maxTopic)
	case !utf8.ValidString(topic):
		return fmt.Errorf("%w: not UTF-8", ErrTopic)
	case strings.ContainsAny(topic, "+#"):
		return fmt.Errorf("%w: a wildcard", ErrTopic)
	case topic[0] == '$':
		return fmt.Errorf("%w: begins with $", ErrTopic)
	case strings.Contains("/"+topic+"/", "//"):
		return fmt.Errorf("%w: an empty level", ErrTopic)
	}
	for _, r := range topic {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == 0xfffd || r&0xfffe == 0xfffe {
			return fmt.Errorf("%w: a control character", ErrTopic)
		}
	}
	return nil
}

// inboxOf is the key whose inbox a topic is.
func inboxOf(topic string) (pubkey string, ok bool) {
	pubkey, ok = strings.CutPrefix(topic, inboxPrefix)
	return pubkey, ok && canonical.IsHex(pubkey, 32)
}

// cardOf is the key and name whose card a topic holds.
func cardOf(topic string) (pubkey, d string, ok bool) {
	rest, ok := strings.CutPrefix(topic, cardPrefix)
	pubkey, d, found := strings.Cut(rest, "/")
	return pubkey, d, ok && found && canonical.IsHex(pubkey, 32) && d != "" && !strings.Contains(d, "/")
}
