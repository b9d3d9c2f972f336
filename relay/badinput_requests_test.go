package relay_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
)

func badRequests() []badInput {
	result := func(r string) string { return `parley_relay_requests_total{result="` + r + `"}` }
	negentropy := func(r string) string { return `parley_relay_reconciliations_total{result="` + r + `"}` }
	return []badInput{
		{
			sent: "a `REQ` of 200 filters", answered: "`CLOSED` `invalid: a request has at most 16 filters`", metric: result("invalid"),
			send: refused("CLOSED", "invalid: a request has at most 16 filters", `["REQ","a"`+strings.Repeat(`,{}`, 200)+`]`),
		},
		{
			sent: "a filter that matches everything", answered: "the newest events, 500 at most (`max_limit`), then `EOSE` and live events", metric: result("served"),
			options: relay.Options{Limits: relay.Limits{Results: 5}},
			send: func(a *attack) {
				for range 20 {
					a.accept(newKey(a.t).note(nostr.Now(), ""))
				}
				if got := a.stored(nostr.Filter{}); len(got) != 5 {
					a.t.Errorf("%d events, want 5", len(got))
				}
			},
		},
		{
			sent: "thousands of subscriptions", answered: "`CLOSED` `restricted: …` beyond 64 of a connection", metric: result("restricted"),
			send: func(a *attack) {
				for i := range 2000 {
					a.send("REQ", fmt.Sprint(i), nostr.Filter{Kinds: []int{3}})
					if i < 64 {
						a.answers("EOSE", "")
						continue
					}
					a.answers("CLOSED", "restricted: ")
				}
			},
		},
		{
			sent: "hundreds of searches for what comes live", answered: "`CLOSED` `restricted: …` once the open filters of a connection weigh 512 KiB; each search weighs 8", metric: result("restricted"),
			send: func(a *attack) {
				searches := `,{"kinds":[0],"search":"word","limit":0},{"kinds":[30417],"search":"word","limit":0}`
				for i := range 64 {
					a.sendRaw(fmt.Sprintf(`["REQ","%d"%s]`, i, searches))
					if i < 25 {
						a.answers("EOSE", "")
					} else if r := a.next(); r.label == "CLOSED" && i < 32 && strings.HasPrefix(r.text, "restricted: ") {
						return
					}
				}
				a.t.Error("128 searches are open")
			},
		},
		{
			sent: "more filters than the rate allows, in one `REQ` or many", answered: "`CLOSED` `rate-limited: …`", metric: result("rate_limited"),
			options: relay.Options{Limits: relay.Limits{RequestRate: 1, RequestBurst: 30}},
			send: func(a *attack) {
				a.send("REQ", "a", nostr.Filter{Kinds: []int{3}}, nostr.Filter{Kinds: []int{3}})
				a.answers("EOSE", "")
				a.sendRaw(`["REQ","a"` + strings.Repeat(`,{"kinds":[3]}`, 16) + `]`)
				a.answers("EOSE", "")
				a.sendRaw(`["REQ","a"` + strings.Repeat(`,{"kinds":[3]}`, 16) + `]`)
				a.answers("CLOSED", "rate-limited: ")
			},
		},
		{
			sent: "a filter with a number beyond 64 bits, or that is none", answered: "`CLOSED` `invalid: …`", metric: result("invalid"),
			send: refused("CLOSED", "invalid: ", `["REQ","a",{"limit":18446744073709551616}]`, `["REQ","a",{"limit":-1}]`, `["REQ","a",{"since":1e30}]`,
				`["REQ","a",{"until":"now"}]`, `["REQ","a",{"kinds":[1e99]}]`, `["REQ","a",{"kinds":[null,{}]}]`),
		},
		{
			sent: "a filter of 300 authors, or with an element that NIP-01 and NIP-50 do not know", answered: "`CLOSED` `invalid: …` or `unsupported: …`", metric: result("invalid"),
			send: func(a *attack) {
				refused("CLOSED", "invalid: ", `["REQ","a",{"authors":[`+strings.Repeat(`"a",`, 299)+`"a"]}]`)(a)
				refused("CLOSED", "unsupported: ", `["REQ","a",{"everything":true}]`)(a)
			},
		},
		{
			sent: "a filter that names wraps, without a key", answered: "`CLOSED` `auth-required: …`", metric: result("auth_required"),
			send: refused("CLOSED", "auth-required: ", `["REQ","a",{"kinds":[1059]}]`, `["REQ","a",{"kinds":[0]},{"kinds":[0,1059],"limit":1}]`),
		},
		{
			sent: "a search of more than 16 words, or of 1 KiB", answered: "`CLOSED` `invalid: search has more than …`", metric: result("invalid"),
			send: refused("CLOSED", "invalid: search has more than ", `["REQ","a",{"search":"a b c d e f g h i j k l m n o p q"}]`,
				`["REQ","a",{"search":"`+strings.Repeat("x", 1100)+`"}]`),
		},
		{
			sent: "a `COUNT` of more events than a filter may read", answered: "`CLOSED` `error: the filter reads too much, make it narrower`", metric: `parley_relay_counts_total{result="too_broad"}`,
			options: relay.Options{Limits: relay.Limits{Scan: 10}},
			send: func(a *attack) {
				for range 20 {
					a.accept(newKey(a.t).note(nostr.Now(), ""))
				}
				refused("CLOSED", "error: the filter reads too much", `["COUNT","a",{}]`)(a)
			},
		},
		{
			sent: "a reconciliation message that is cut off, is not hex or claims 2^60 ids", answered: "`NEG-ERR` `invalid: …`", metric: negentropy("invalid"),
			send: refused("NEG-ERR", "invalid: ", `["NEG-OPEN","n",{},"xyz"]`, `["NEG-OPEN","n",{},"6100"]`, `["NEG-OPEN","n",{}]`, `["NEG-OPEN","n",{},6]`,
				`["NEG-OPEN","n",{},"6100000290808080808080808000"]`, `["NEG-OPEN","n",{},"61`+strings.Repeat("ff", 5000)+`"]`),
		},
		{
			sent: "a fifth reconciliation of a connection", answered: "`NEG-ERR` `restricted: …`", metric: negentropy("restricted"),
			send: func(a *attack) {
				for i := range 4 {
					a.send("NEG-OPEN", fmt.Sprint(i), nostr.Filter{}, opening(a.t))
					a.answers("NEG-MSG", "61")
				}
				for range 100 {
					a.send("NEG-OPEN", "more", nostr.Filter{}, opening(a.t))
					a.answers("NEG-ERR", "restricted: ")
				}
			},
		},
		{
			sent: "a reconciliation of too many events", answered: "`NEG-ERR` `blocked: this query is too big`", metric: negentropy("too_broad"),
			options: relay.Options{Limits: relay.Limits{ReconciliationEvents: 10}},
			send: func(a *attack) {
				for range 20 {
					a.accept(newKey(a.t).note(nostr.Now(), ""))
				}
				a.send("NEG-OPEN", "n", nostr.Filter{}, opening(a.t))
				a.answers("NEG-ERR", "blocked: this query is too big")
			},
		},
	}
}

func badConnections() []badInput {
	secret := strings.Repeat("1", 64)
	pub, _ := nostr.GetPublicKey(secret)
	admin := &key{secret, pub}
	calls := func(r string) string { return `parley_relay_management_calls_total{result="` + r + `"}` }
	return []badInput{
		{
			sent: "an `AUTH` for another challenge or another relay", answered: "`OK` false, `invalid: …`", metric: `parley_relay_authentications_total{result="refused"}`,
			send: func(a *attack) {
				for _, r := range []reply{
					a.auth(newKey(a.t), a.healthy.writer.challenge, a.url, nostr.Now()),
					a.auth(newKey(a.t), a.challenge, "wss://relay.example", nostr.Now()),
				} {
					if r.ok || !strings.HasPrefix(r.text, "invalid: ") {
						a.t.Errorf("got %v, want OK false, invalid", r)
					}
				}
			},
		},
		{
			sent: "a message in single bytes that never ends", answered: "nothing; a connection that answers no ping for a minute is cut off", metric: `parley_relay_connections`,
			send: func(a *attack) {
				for range 50 {
					conn, _ := a.upgrade("")
					for _, b := range []byte{0x81, 0xfe, 0xff, 0xff, 0, 0, 0, 0, '[', '"', 'R'} { // text of 65,535 bytes
						if _, err := conn.Write([]byte{b}); err != nil {
							a.t.Fatal(err)
						}
					}
				}
			},
		},
		{
			sent: "more connections than an address may have", answered: "HTTP 503", metric: `parley_relay_refused_connections_total{reason="address"}`,
			options: relay.Options{Limits: relay.Limits{ConnectionsPerAddress: 3}},
			send: func(a *attack) {
				if status := refusal(a.t, a.url, nil); status != http.StatusServiceUnavailable {
					a.t.Errorf("status %d, want 503", status)
				}
			},
		},
		{
			sent: "nothing read while events come", answered: "the connection is cut off once 4 MiB or 2,048 messages wait", metric: `parley_relay_slow_consumers_total`,
			options: relay.Options{Limits: relay.Limits{OutboundBytes: 256 << 10, WriteTimeout: time.Hour}},
			send: func(a *attack) {
				slow := stalled(a.t, a.server)
				defer slow.CloseNow() // it lives until then
				text := strings.Repeat("x", 60_000)
				for range 150 {
					a.accept(newKey(a.t).note(nostr.Now(), text))
				}
			},
		},
		{
			sent: "a call of the management of 1 MiB", answered: "HTTP 413", metric: calls("invalid"),
			send: func(a *attack) { a.call(strings.Repeat("x", 1<<20), "", http.StatusRequestEntityTooLarge) },
		},
		{
			sent: "a call without the token of an administrator, or with one a second time", answered: "HTTP 401 or 403", metric: calls("unauthorized"),
			options: relay.Options{Policy: relay.Policy{Admins: []string{admin.pub}}},
			send: func(a *attack) {
				const body = `{"method":"supportedmethods","params":[]}`
				a.call(body, "", http.StatusUnauthorized)
				a.call(body, tokenOf(newKey(a.t), a.server.HTTP, []byte(body)), http.StatusForbidden)
				token := tokenOf(admin, a.server.HTTP, []byte(body))
				a.call(body, token, http.StatusOK)
				a.call(body, token, http.StatusUnauthorized)
			},
		},
	}
}

// call sends a call of the management and demands the status.
func (a *attack) call(body, authorization string, want int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", a.server.HTTP, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/nostr+json+rpc")
	req.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		a.t.Errorf("status %d, want %d", resp.StatusCode, want)
	}
}
