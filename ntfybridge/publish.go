package ntfybridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/parleykit/parley/carrier"
)

// message is what a server says of one event; of what else it says nothing is
// read.
type message struct {
	ID         string          `json:"id"`
	Event      string          `json:"event"`
	Topic      string          `json:"topic"`
	Message    string          `json:"message"`
	Encoding   string          `json:"encoding"`
	Attachment json.RawMessage `json:"attachment"`
}

// body is the bytes that were published.
func (m *message) body() ([]byte, error) {
	if m.Encoding == "" {
		return []byte(m.Message), nil
	}
	if m.Encoding != "base64" {
		return nil, fmt.Errorf("%w: unknown encoding", errNonsense)
	}
	data, err := base64.StdEncoding.DecodeString(m.Message)
	if err != nil {
		return nil, fmt.Errorf("%w: base64", errNonsense)
	}
	return data, nil
}

func (m *message) attached() bool { return len(m.Attachment) > 0 && string(m.Attachment) != "null" }

var errNonsense = errors.New("ntfybridge: the answer is not that of an ntfy server")

// publish gives the body of one message to a topic and checks that the server
// kept it as it is.
func (c *Client) publish(ctx context.Context, to Address, body []byte, binary bool) (id string, err error) {
	if err := checkBody(body, binary); err != nil {
		return "", err
	}
	url := to.String()
	if binary {
		url += "?up=1"
	}
	m, err := c.post(ctx, to.Origin, url, body)
	if err != nil {
		return "", err
	}
	kept, err := m.body()
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	case m.Topic != to.Topic || m.Event != "message" || !idPattern.MatchString(m.ID):
		return "", fmt.Errorf("%w: %w", carrier.ErrTransient, errNonsense)
	case m.attached():
		return "", fmt.Errorf("%w: the server made an attachment of %d bytes", carrier.ErrPermanent, len(body))
	case !bytes.Equal(kept, body):
		return "", fmt.Errorf("%w: the server kept another text", carrier.ErrPermanent)
	}
	return m.ID, nil
}

// checkBody refuses what a server would change without saying so.
func checkBody(body []byte, binary bool) error {
	limit := MaxText
	if binary {
		limit = MaxBinary
	}
	switch {
	case len(body) == 0 || len(body) > limit:
		return fmt.Errorf("%w: %d bytes, an ntfy message has 1 to %d", carrier.ErrPermanent, len(body), limit)
	case !binary && (!utf8.Valid(body) || len(bytes.TrimSpace(body)) != len(body)):
		return fmt.Errorf("%w: not a text that ntfy keeps as it is", carrier.ErrPermanent)
	}
	return nil
}

// post makes one publication and reads the answer.
func (c *Client) post(ctx context.Context, origin, url string, body []byte) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL", carrier.ErrPermanent)
	}
	response, err := c.do(origin, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, exchangeError(ctx, err)
	}
	m := new(message)
	if len(data) > maxAnswer || json.Unmarshal(data, m) != nil {
		return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, errNonsense)
	}
	return m, nil
}
