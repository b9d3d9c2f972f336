package ntfyserver

import (
	"crypto/rand"
	"encoding/json"
	"regexp"
)

// Message is one event as subscribers and publishers see it.
type Message struct {
	ID         string          `json:"id"`
	Time       int64           `json:"time"`              // Unix seconds
	Expires    int64           `json:"expires,omitempty"` // Unix seconds; absent when not kept
	Event      string          `json:"event"`             // open, keepalive, message
	Topic      string          `json:"topic"`
	Title      string          `json:"title,omitempty"`
	Message    string          `json:"message,omitempty"`
	Priority   int             `json:"priority,omitempty"`
	Tags       []string        `json:"tags,omitempty"`
	Click      string          `json:"click,omitempty"`
	Actions    json.RawMessage `json:"actions,omitempty"`
	Attachment *Attachment     `json:"attachment,omitempty"`
	Encoding   string          `json:"encoding,omitempty"` // base64 or absent
}

// Attachment describes what did not fit a message; its bytes are not kept.
type Attachment struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"`
	Size    int64  `json:"size,omitempty"` // bytes
	Expires int64  `json:"expires,omitempty"`
	URL     string `json:"url"`
}

// Events.
const (
	eventOpen      = "open"
	eventKeepalive = "keepalive"
	eventMessage   = "message"
)

const idLength = 12

var (
	topicPattern = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)
	idPattern    = regexp.MustCompile(`^[A-Za-z0-9]{12}$`)
)

// newID makes the id of a message.
func newID() string { return rand.Text()[:idLength] }
