package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// informationType is the media type of the relay information document.
const informationType = "application/nostr+json"

// maxDocument bounds a document in bytes.
const maxDocument = 1 << 20

// information is what the checks need of the document (NIP-11).
type information struct {
	SupportedNIPs []int `json:"supported_nips"`
	Limitation    struct {
		MaxMessageLength    int `json:"max_message_length"`
		MaxSubscriptions    int `json:"max_subscriptions"`
		MaxLimit            int `json:"max_limit"`
		MaxSubIDLength      int `json:"max_subid_length"`
		MaxEventTags        int `json:"max_event_tags"`
		MinPowDifficulty    int `json:"min_pow_difficulty"`
		CreatedAtUpperLimit int `json:"created_at_upper_limit"`
	} `json:"limitation"`
}

func (i information) supports(nip int) bool { return slices.Contains(i.SupportedNIPs, nip) }

// page is an answer to a request for the document.
type page struct {
	status   int
	header   http.Header
	body     []byte
	document information
}

var errNoDocument = errors.New("it is no relay information document")

// fetchInformation asks for the document. The error is errNoDocument when the
// answer is something else.
func (r *remote) fetchInformation(ctx context.Context, accept string) (*page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.http, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := r.options.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	p := &page{status: resp.StatusCode, header: resp.Header}
	if p.body, err = io.ReadAll(io.LimitReader(resp.Body, maxDocument)); err != nil {
		return nil, err
	}
	if p.status != http.StatusOK || json.Unmarshal(p.body, &p.document) != nil {
		return p, errNoDocument
	}
	return p, nil
}

// document fetches the document or ends the check.
func (t *trial) document(accept string) *page {
	for attempt := 0; ; attempt++ {
		p, err := t.fetchInformation(t.ctx, accept)
		if p != nil && (p.status == 429 || p.status == 503) {
			t.pause(attempt, http.StatusText(p.status))
			continue
		}
		if err != nil && p != nil {
			t.failf("with Accept %q: %v (status %d)", accept, err, p.status)
		}
		if err != nil {
			t.failf("fetching the document: %v", err)
		}
		return p
	}
}

// informationChecks are about NIP-11.
var informationChecks = []Check{
	required("nip11.document-is-served", 11, "the relay information document is a JSON object at the relay's address", func(t *trial) {
		t.document(informationType)
	}),
	required("nip11.type-may-be-one-of-several", 11, "the document is served when its type is one of several in Accept", func(t *trial) {
		t.document(informationType + ", */*")
		t.document("text/html;q=0.5, " + informationType)
	}),
	optional("nip11.content-type", 11, "the document's type is application/nostr+json or JSON", func(t *trial) {
		media, _, err := mime.ParseMediaType(t.document(informationType).header.Get("Content-Type"))
		if err != nil || media != informationType && media != "application/json" {
			t.failf("it is %q", media)
		}
	}),
	required("nip11.any-page-may-read-it", 11, "the document's CORS headers let any page read it", func(t *trial) {
		if got := t.document(informationType).header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.failf("Access-Control-Allow-Origin is %q", got)
		}
	}),
	required("nip11.members-have-their-types", 11, "the members of the document have the types of NIP-11", func(t *trial) {
		var doc struct {
			Name, Description, PubKey, Contact, Software, Version, Icon *string
			Supported                                                   []int          `json:"supported_nips"`
			Limitation                                                  map[string]any `json:"limitation"`
			Retention                                                   []any          `json:"retention"`
		}
		if err := json.Unmarshal(t.document(informationType).body, &doc); err != nil {
			t.failf("%v", err)
		}
		for name, value := range doc.Limitation {
			_, number := value.(float64)
			_, boolean := value.(bool)
			if strings.HasPrefix(name, "max_") && !number || !number && !boolean {
				t.failf("limitation.%s is %v", name, value)
			}
		}
	}),
	optional("nip11.basics-are-advertised", 11, "supported_nips names 1 and 11, each number once", func(t *trial) {
		nips := t.document(informationType).document.SupportedNIPs
		sorted := slices.Sorted(slices.Values(nips))
		if !slices.Contains(nips, 1) || !slices.Contains(nips, 11) || len(slices.Compact(sorted)) != len(nips) {
			t.failf("supported_nips is %v", nips)
		}
	}),
	required("nip11.connection-header-may-be-a-list", 1, "a WebSocket request is taken when Connection is a list and the case of Upgrade differs", func(t *trial) {
		req, err := http.NewRequestWithContext(t.ctx, http.MethodGet, t.http, nil)
		if err != nil {
			t.failf("%v", err)
		}
		req.Header = http.Header{
			"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"cGFybGV5LWNoZWNrLWtleQ=="},
		}
		resp, err := t.options.HTTPClient.Do(req)
		if err != nil {
			t.failf("%v", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.failf("status %d", resp.StatusCode)
		}
	}),
}
