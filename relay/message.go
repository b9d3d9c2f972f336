package relay

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth is the nesting of a message: array, event, tags, tag. Filters
	// need three.
	maxDepth = 4
	// maxSubscriptionID is in bytes; NIP-01 says characters.
	maxSubscriptionID = 64
)

// message is one message of a client (NIP-01, 42, 45, 77): a label, then for
// EVENT and AUTH an event, for all others a subscription id. After that REQ and
// COUNT have filters, NEG-OPEN a filter and a string, NEG-MSG a string.
type message struct {
	label   string
	id      string
	event   jsontext.Value
	filters []jsontext.Value // what comes after the id
}

// parseMessage reads one frame. The error's text is fit for the peer.
func parseMessage(data []byte) (message, error) {
	if err := checkDepth(data); err != nil {
		return message{}, err
	}
	var parts []jsontext.Value
	if err := json.Unmarshal(data, &parts); err != nil {
		return message{}, errors.New("not a JSON array")
	}
	if len(parts) < 2 {
		return message{}, errors.New("a message has a label and an argument")
	}
	m := message{}
	if err := json.Unmarshal(parts[0], &m.label); err != nil {
		return message{}, errors.New("the label is not a string")
	}
	switch m.label {
	case "EVENT", "AUTH":
		m.event = parts[1]
		return m, nil
	}
	if err := json.Unmarshal(parts[1], &m.id); err != nil {
		return message{}, errors.New("the subscription id is not a string")
	}
	if m.id == "" || len(m.id) > maxSubscriptionID {
		return message{}, fmt.Errorf("the subscription id has not 1 to %d bytes", maxSubscriptionID)
	}
	m.filters = parts[2:]
	return m, nil
}

// checkDepth refuses deep nesting and invalid UTF-8 before any parser sees
// the frame. It counts brackets outside of strings; whether they match is the
// parser's question.
func checkDepth(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested deeper than %d", maxDepth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// Messages of the relay (NIP-01, 42, 45, 77).

func eventHead(subscription string) []byte {
	return append(appendString([]byte(`["EVENT",`), subscription), ',')
}

func okMessage(id string, ok bool, text string) []byte {
	b := appendString([]byte(`["OK",`), id)
	b = append(b, ',')
	b = strconv.AppendBool(b, ok)
	b = append(b, ',')
	return append(appendString(b, text), ']')
}

func eoseMessage(subscription string) []byte {
	return append(appendString([]byte(`["EOSE",`), subscription), ']')
}

func closedMessage(subscription, text string) []byte {
	b := append(appendString([]byte(`["CLOSED",`), subscription), ',')
	return append(appendString(b, text), ']')
}

func countMessage(subscription string, n int) []byte {
	b := append(appendString([]byte(`["COUNT",`), subscription), `,{"count":`...)
	return append(strconv.AppendInt(b, int64(n), 10), `}]`...)
}

func negMessage(id, hex string) []byte {
	b := append(appendString([]byte(`["NEG-MSG",`), id), ',')
	return append(appendString(b, hex), ']')
}

func negErrMessage(id, text string) []byte {
	b := append(appendString([]byte(`["NEG-ERR",`), id), ',')
	return append(appendString(b, text), ']')
}

func noticeMessage(text string) []byte {
	return append(appendString([]byte(`["NOTICE",`), text), ']')
}

func challengeMessage(challenge string) []byte {
	return append(appendString([]byte(`["AUTH",`), challenge), ']')
}
