package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// managementType is the media type of a call (NIP-86).
const managementType = "application/nostr+json+rpc"

// call is one call before it is sent.
type call struct {
	Method string `json:"method"`
	Params []any  `json:"params"`
}

// answer is what a call got.
type answer struct {
	status int
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

// refused reports whether the call had no effect that is told.
func (a *answer) refused() bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || a.status == http.StatusBadRequest ||
		a.status == http.StatusOK && a.Error != "" && (len(a.Result) == 0 || string(a.Result) == "null")
}

// token is the NIP-98 event of a call, which change may spoil.
func (t *trial) token(k *key, body []byte, change func(ev *nostr.Event)) string {
	sum := sha256.Sum256(body)
	ev := nostr.Event{PubKey: k.pub, CreatedAt: nostr.Now(), Kind: kindHTTP, Tags: nostr.Tags{
		{"u", t.http},
		{"method", "POST"},
		{"payload", hex.EncodeToString(sum[:])},
		{"nonce", randomHex(8)}, // two calls of one second differ
	}}
	if change != nil {
		change(&ev)
	}
	signed := k.plain(ev.Kind, ev.CreatedAt, ev.Content, ev.Tags)
	return "Nostr " + base64.StdEncoding.EncodeToString([]byte(signed.String()))
}

// post sends a body under an Authorization header, "" for none.
func (t *trial) post(body []byte, authorization string) *answer {
	for attempt := 0; ; attempt++ {
		req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.http, bytes.NewReader(body))
		if err != nil {
			t.failf("%v", err)
		}
		req.Header.Set("Content-Type", managementType)
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := t.options.HTTPClient.Do(req)
		if err != nil {
			t.failf("the call was not answered: %v", err)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
		resp.Body.Close()
		if resp.StatusCode == 429 || resp.StatusCode == 503 {
			t.pause(attempt, resp.Status)
			continue
		}
		a := &answer{status: resp.StatusCode}
		if err != nil || resp.StatusCode == http.StatusOK && json.Unmarshal(text, a) != nil {
			t.failf("the answer cannot be read")
		}
		return a
	}
}

// admin is the administrator's key, or the end of the check.
func (t *trial) admin() *key {
	if t.options.Admin == "" {
		t.skipf("no administrator's key was given")
	}
	return t.keyOf(t.options.Admin)
}

func (t *trial) body(method string, params ...any) []byte {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(call{method, params})
	if err != nil {
		t.failf("%v", err)
	}
	return body
}

// manage makes a call that must succeed.
func (t *trial) manage(method string, params ...any) *answer {
	k, body := t.admin(), t.body(method, params...)
	a := t.post(body, t.token(k, body, nil))
	if a.status != http.StatusOK || a.Error != "" {
		t.failf("%s of the administrator: status %d, %s", method, a.status, a.Error)
	}
	return a
}

// offered are the methods the administrator may call.
func (t *trial) offered() []string {
	var methods []string
	if err := json.Unmarshal(t.manage("supportedmethods").Result, &methods); err != nil {
		t.failf("the result of supportedmethods is no list of names")
	}
	return methods
}

// needs skips a check of methods that are not offered.
func (t *trial) needs(methods ...string) {
	offered := t.offered()
	for _, m := range methods {
		if !slices.Contains(offered, m) {
			t.skipf("%s is not offered", m)
		}
	}
}

// managementChecks are about NIP-86 and the tokens of NIP-98.
var managementChecks = []Check{
	conditional("nip86.call-without-token-is-refused", 86, "a call without an Authorization header is answered 401", func(t *trial) {
		if a := t.post(t.body("supportedmethods"), ""); a.status != http.StatusUnauthorized {
			t.failf("status %d", a.status)
		}
	}),
	conditional("nip86.call-of-a-stranger-is-refused", 86, "a call with a valid token of a key that is no administrator's is refused", func(t *trial) {
		for _, method := range []string{"supportedmethods", "banpubkey", "listbannedpubkeys", "changerelayname"} {
			body := t.body(method, randomHex(32), "check")
			if a := t.post(body, t.token(t.key(), body, nil)); !a.refused() {
				t.failf("%s was answered with status %d and %s", method, a.status, a.Result)
			}
		}
	}),
	conditional("nip86.administrator-is-served", 86, "supportedmethods of the administrator lists the methods", func(t *trial) {
		if len(t.offered()) == 0 {
			t.failf("it lists none")
		}
	}),
	badToken("nip86.token-of-another-kind-is-refused", "a token of another kind than 27235 is refused", func(ev *nostr.Event) { ev.Kind = 1 }),
	badToken("nip86.old-token-is-refused", "a token of ten minutes ago is refused", func(ev *nostr.Event) { ev.CreatedAt -= 600 }),
	badToken("nip86.future-token-is-refused", "a token of in ten minutes is refused", func(ev *nostr.Event) { ev.CreatedAt += 600 }),
	badToken("nip86.token-without-address-is-refused", "a token without a u tag is refused", without("u")),
	badToken("nip86.token-for-another-address-is-refused", "a token for another address is refused", changed("u", "https://relay.example/")),
	badToken("nip86.token-without-method-is-refused", "a token without a method tag is refused", without("method")),
	badToken("nip86.token-for-another-method-is-refused", "a token for GET is refused", changed("method", "GET")),
	badToken("nip86.token-without-payload-is-refused", "a token without a payload tag is refused", without("payload")),
	badToken("nip86.token-for-another-body-is-refused", "a token for another body is refused", changed("payload", strings.Repeat("0", 64))),
	needing(86, "nip86.token-works-once", 98, "a token is refused the second time", func(t *trial) {
		k, body := t.admin(), t.body("supportedmethods")
		token := t.token(k, body, nil)
		if a := t.post(body, token); a.refused() {
			t.failf("the first time: status %d, %s", a.status, a.Error)
		}
		if a := t.post(body, token); !a.refused() {
			t.failf("the second time it was answered")
		}
	}),
	needing(86, "nip86.token-with-wrong-signature-is-refused", 98, "a token whose signature is wrong is refused", func(t *trial) {
		k, body := t.admin(), t.body("supportedmethods")
		text, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(t.token(t.key(), body, nil), "Nostr "))
		var ev nostr.Event
		if err := json.Unmarshal(text, &ev); err != nil {
			t.failf("%v", err)
		}
		ev.PubKey = k.pub
		ev.ID = ev.GetID()
		if a := t.post(body, "Nostr "+base64.StdEncoding.EncodeToString([]byte(ev.String()))); !a.refused() {
			t.failf("status %d", a.status)
		}
	}),
	conditional("nip86.bad-calls-do-no-harm", 86, "headers and bodies that cannot be read are refused", func(t *trial) {
		for _, authorization := range []string{"Nostr", "Nostr !", "Nostr bm90IGpzb24=", "Bearer x", "Nostr e30="} {
			if a := t.post(t.body("supportedmethods"), authorization); !a.refused() {
				t.failf("Authorization %q: status %d", authorization, a.status)
			}
		}
		for _, body := range []string{"", "null", "[]", `{"method":1}`} {
			if a := t.post([]byte(body), t.token(t.key(), []byte(body), nil)); !a.refused() {
				t.failf("body %q: status %d", body, a.status)
			}
		}
	}),
	conditional("nip86.unknown-method-is-an-error", 86, "a method that does not exist is answered with an error", func(t *trial) {
		k, body := t.admin(), t.body("parleycheck")
		if a := t.post(body, t.token(k, body, nil)); a.status == http.StatusOK && a.Error == "" {
			t.failf("the result is %s", a.Result)
		}
	}),
	conditional("nip86.banned-key-cannot-write", 86, "a banned key's events are refused until it is unbanned", func(t *trial) {
		t.needs("banpubkey", "unbanpubkey")
		c, k := t.dial(), t.key()
		c.accept(t.profile(k, nostr.Now()-9))
		t.manage("banpubkey", k.pub, "relay check")
		c.refuse("an event of a banned key", t.profile(k, nostr.Now()-5))
		t.manage("unbanpubkey", k.pub, "relay check")
		c.mustAccept("an event of a key that was unbanned", t.profile(k, nostr.Now()))
	}),
	conditional("nip86.banned-event-is-gone", 86, "a banned event is not served and not taken again", func(t *trial) {
		t.needs("banevent")
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		c.accept(ev)
		t.manage("banevent", ev.ID, "relay check")
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}))
		c.publish(ev)
		t.expect("sent again", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	needing(86, "nip86.administrator-sees-no-wraps", 59, "no list of the administrator shows a wrap", func(t *trial) {
		offered, h := t.offered(), t.hide()
		for _, method := range offered {
			if strings.HasPrefix(method, "list") {
				text := string(t.manage(method).Result)
				if strings.Contains(text, h.wrap.ID) || strings.Contains(text, h.wrap.Content) || strings.Contains(text, h.to.pub) {
					t.failf("%s shows it", method)
				}
			}
		}
	}),
}

// badToken is a check that a call whose token is spoilt is refused. An
// administrator's key makes sure that only the fault is the reason.
func badToken(name, property string, spoil func(ev *nostr.Event)) Check {
	return needing(86, name, 98, property, func(t *trial) {
		k, body := t.admin(), t.body("supportedmethods")
		if a := t.post(body, t.token(k, body, spoil)); !a.refused() {
			t.failf("status %d", a.status)
		}
	})
}

func without(tag string) func(ev *nostr.Event) {
	return func(ev *nostr.Event) {
		ev.Tags = slices.DeleteFunc(ev.Tags, func(t nostr.Tag) bool { return t[0] == tag })
	}
}

func changed(tag, value string) func(ev *nostr.Event) {
	return func(ev *nostr.Event) {
		for i := range ev.Tags {
			if ev.Tags[i][0] == tag {
				ev.Tags[i] = nostr.Tag{tag, value}
			}
		}
	}
}
