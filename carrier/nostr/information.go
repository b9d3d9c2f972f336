package nostr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// maxInformation bounds a relay information document, in bytes.
const maxInformation = 256 << 10

// Information is what a relay says about itself (NIP-11), as far as clients
// here act on it. Members that a relay leaves out are zero.
type Information struct {
	Name          string `json:"name"`
	SupportedNIPs []int  `json:"supported_nips"`
	Limitation    struct {
		MaxLimit int `json:"max_limit"`
	} `json:"limitation"`
}

// Information asks a relay for its information document. Errors wrap
// carrier.ErrTransient or carrier.ErrPermanent.
func (c *Client) Information(ctx context.Context, relay string) (Information, error) {
	var info Information
	address, err := ParseAddress(relay)
	if err != nil {
		return info, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimPrefix(address, "ws"), nil)
	if err != nil {
		return info, fmt.Errorf("%w: asking for the information document: %w", carrier.ErrPermanent, err)
	}
	r.Header.Set("Accept", "application/nostr+json")
	answer, err := c.http.Do(r)
	if err != nil {
		return info, dialError(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxInformation+1))
	switch {
	case err != nil:
		return info, transient("reading the information document", err)
	case answer.StatusCode != http.StatusOK:
		return info, fmt.Errorf("%w: the information document is answered with status %d", carrier.ErrPermanent, answer.StatusCode)
	case len(data) > maxInformation:
		err = errors.New("too large")
	default:
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return Information{}, fmt.Errorf("%w: the information document: %w", carrier.ErrPermanent, err)
	}
	return info, nil
}
