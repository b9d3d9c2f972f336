package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/wellknown"
)

// maxNameRelays bounds the relays that are asked because a name's server named
// them.
const maxNameRelays = 4

// named is what a server says about a name (NIP-05).
type named struct {
	pubkey string
	relays []string       // in their one spelling
	dialer *egress.Dialer // for them: a stranger chose these addresses
}

// lookUpName asks the host of name@host whose key it is, by https; by http only
// on this machine. A redirect is not followed, as NIP-05 says.
func (a *Agent) lookUpName(ctx context.Context, text string) (*named, error) {
	name, host, err := wellknown.ParseName(text)
	if err != nil {
		return nil, invalid("%.80q is not name@host", text)
	}
	origin, err := parseOrigin("https://" + host)
	if err != nil {
		return nil, err
	}
	if loopbackAddress(hostPort(origin)) {
		if origin, err = parseOrigin("http://" + host); err != nil {
			return nil, err
		}
	}
	dialer, err := a.dial([]string{origin})
	if err != nil {
		return nil, err
	}
	document, err := fetchNames(ctx, dialer, origin, name)
	if err != nil {
		return nil, err
	}
	pubkey, relays, err := wellknown.FindName(document, name)
	if err != nil {
		return nil, notFound("%s says nothing of use about %q: %w", origin, name, err)
	}
	found := &named{pubkey: pubkey, dialer: dialer.FromCard()}
	for _, relay := range relays {
		if address, err := nostr.ParseAddress(relay); err == nil && len(found.relays) < maxNameRelays {
			found.relays = append(found.relays, address)
		}
	}
	return found, nil
}

// fetchNames gets the document of NIP-05.
func fetchNames(ctx context.Context, dialer *egress.Dialer, origin, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	address := origin + wellknown.NamesPath
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+url.Values{"name": {name}}.Encode(), nil)
	if err != nil {
		return nil, invalid("building the request: %w", err)
	}
	client := dialer.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it repeats the address
		}
		return nil, unavailable("fetching %s: %w", address, &plainError{outage(err), err})
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, notFound("%s answered with status %d", address, answer.StatusCode).hint("does this host give names (NIP-05)?")
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, wellknown.MaxNamesSize+1))
	if err != nil {
		return nil, unavailable("reading %s: %w", address, err)
	}
	return data, nil
}

// askNamed asks the relays that a name's server named for the cards of its key.
// They learn nothing about this agent, and one that does not answer is no
// failure.
func (a *Agent) askNamed(ctx context.Context, n *named, filter gonostr.Filter) (events []*gonostr.Event) {
	if len(n.relays) == 0 {
		return nil
	}
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: n.dialer, Logger: a.opts.Logger, Now: a.opts.Now})
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	for _, relay := range n.relays {
		found, err := client.Query(ctx, relay, filter)
		if err != nil {
			a.log.InfoContext(ctx, "asking a named relay", "err", err)
			continue
		}
		events = append(events, found...)
	}
	return events
}
