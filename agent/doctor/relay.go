package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/wellknown"
)

// kindWrap is a gift wrap (NIP-59).
const kindWrap = 1059

// needed are the NIPs without which agents cannot use a relay.
var needed = []int{1, 11, 42}

// lookAtRelay asks the relay what it is, for a card, and for what it must not
// show to everybody.
func (x *examination) lookAtRelay(ctx context.Context) {
	if x.document == nil || x.document.Relay == "" {
		x.found(skipped("relay", "the document names none"))
		return
	}
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: x.dialer})
	if err != nil {
		x.found(bad("relay", "", "%v", err))
		return
	}
	defer client.Close()
	const look = "does the proxy pass WebSocket upgrades on?"
	info, err := client.Information(ctx, x.document.Relay)
	if err != nil {
		x.found(bad("relay", look, "%v", err))
		return
	}
	for _, nip := range needed {
		if !slices.Contains(info.SupportedNIPs, nip) {
			x.found(warning("relay", "", "%s does not advertise NIP-%02d", x.document.Relay, nip))
		}
	}
	began := time.Now()
	if _, err := client.Query(ctx, x.document.Relay, gonostr.Filter{Kinds: []int{card.Kind}, Limit: 1}); err != nil {
		x.found(bad("relay", look, "%v", err))
		return
	}
	x.found(good("relay", "%s answers within %s", x.document.Relay, time.Since(began).Round(time.Millisecond)))
	wraps, err := client.Query(ctx, x.document.Relay, gonostr.Filter{Kinds: []int{kindWrap}, Limit: 1})
	if err == nil && len(wraps) > 0 {
		x.found(bad("privacy", "it shows everybody who gets messages and when; use another relay", "the relay gives sealed messages to strangers"))
		return
	}
	x.found(good("privacy", "the relay gives sealed messages to nobody but their recipients"))
}

// lookAtCarriers connects to what else the document names.
func (x *examination) lookAtCarriers(ctx context.Context) {
	if x.document == nil {
		return
	}
	for _, c := range x.document.Carriers {
		name := "carrier " + c.Scheme
		if err := x.reach(ctx, c); err != nil {
			x.found(bad(name, "is the port open, and does the proxy pass it on?", "%s: %v", c.Address, err))
			continue
		}
		x.found(good(name, "%s answers", c.Address))
	}
}

func (x *examination) reach(ctx context.Context, c wellknown.Carrier) error {
	u, err := url.Parse(c.Address)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "http", "https":
		return x.reachHTTP(ctx, c)
	case "mqtts":
		_, err = x.handshake(ctx, hostPort(u), u.Hostname())
		return err
	}
	var conn net.Conn
	if conn, err = x.dialer.DialContext(ctx, "tcp", hostPort(u)); err == nil {
		err = conn.Close()
	}
	return err
}

// reachHTTP gives a mailbox nothing, which it must refuse, and asks an ntfy
// server whether it is well.
func (x *examination) reachHTTP(ctx context.Context, c wellknown.Carrier) error {
	method, address, want := http.MethodPost, c.Address, http.StatusBadRequest
	if c.Scheme == card.SchemeNtfy {
		method, address, want = http.MethodGet, c.Address+"/v1/health", http.StatusOK
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(""))
	if err != nil {
		return err
	}
	answer, err := x.client.Do(r)
	if err != nil {
		return cause(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != want {
		return fmt.Errorf("%w: status %d", errAnswer, answer.StatusCode)
	}
	return nil
}

var errAnswer = errors.New("unexpected answer")
