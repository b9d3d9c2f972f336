package https_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/httpauth"
)

func newKey(t testing.TB) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// exchange makes one request and returns status, code of a problem, and body.
func exchange(t testing.TB, method, url, token string, body []byte) (status int, code string, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Nostr "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Code string }
	_ = json.Unmarshal(answer, &problem)
	return response.StatusCode, problem.Code, answer
}

func post(t testing.TB, s *httpstest.Server, wrap []byte) (status int, code string) {
	t.Helper()
	status, code, _ = exchange(t, http.MethodPost, s.Address(), "", wrap)
	return status, code
}

// token signs a request, at a time and with changes to the event.
func token(t testing.TB, key *keys.Nostr, at time.Time, method, url string, body []byte) string {
	t.Helper()
	ev := nostr.Event{
		Kind: httpauth.Kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{{"u", url}, {"method", method}},
		Content: fmt.Sprint(time.Now().UnixNano()),
	}
	if body != nil {
		ev.Tags = append(ev.Tags, nostr.Tag{"payload", canonical.Digest(body)})
	}
	if err := key.Sign(&ev); err != nil {
		t.Fatal(err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

// waiting is the wraps a key reads.
func waiting(t testing.TB, s *httpstest.Server, key *keys.Nostr) (wraps []string) {
	t.Helper()
	url := s.URL + https.InboxPath
	status, _, body := exchange(t, http.MethodGet, url, token(t, key, time.Now(), http.MethodGet, url, nil), nil)
	var page struct{ Envelopes []struct{ ID, Wrap string } }
	if err := json.Unmarshal(body, &page); status != http.StatusOK || err != nil {
		t.Fatalf("reading: status %d, %v", status, err)
	}
	for _, one := range page.Envelopes {
		wraps = append(wraps, one.Wrap)
	}
	return wraps
}

// counter is the value of a metric with a result.
func counter(t testing.TB, registry *prometheus.Registry, name, result string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (result == "" || m.GetLabel()[0].GetValue() == result) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s of %s", name, result)
	return 0
}

// changed is a wrap with changes, with a fresh key's signature.
func changed(t testing.TB, wrap []byte, change func(*nostr.Event)) []byte {
	t.Helper()
	return rewritten(t, wrap, func(ev *nostr.Event) {
		change(ev)
		ev.PubKey = ""
		if err := newKey(t).Sign(ev); err != nil {
			t.Fatal(err)
		}
	})
}

// rewritten is a wrap with changes that nobody signed.
func rewritten(t testing.TB, wrap []byte, change func(*nostr.Event)) []byte {
	t.Helper()
	ev, err := canonical.DecodeEvent(wrap)
	if err != nil {
		t.Fatal(err)
	}
	change(ev)
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func setTag(ev *nostr.Event, name, value string) {
	for i, tag := range ev.Tags {
		if tag[0] == name {
			ev.Tags[i] = nostr.Tag{name, value}
		}
	}
}

func TestHostilePostsAreRefused(t *testing.T) {
	alice, bob := newKey(t), newKey(t)
	unknown := newKey(t)
	registry := prometheus.NewRegistry()
	s := httpstest.Start(t, https.MailboxOptions{
		Registerer: registry, Admit: func(key string) bool { return key != unknown.PublicKey() },
	})
	fresh := func(t *testing.T) []byte { return wrapFor(t, alice, bob.PublicKey()) }
	expiring := func(in time.Duration) func(*nostr.Event) {
		return func(ev *nostr.Event) { setTag(ev, "expiration", fmt.Sprint(time.Now().Add(in).Unix())) }
	}
	if status, code := post(t, s, changed(t, wrapFor(t, alice, newKey(t).PublicKey()), expiring(time.Hour))); status != http.StatusAccepted {
		t.Fatalf("an envelope that was signed anew: %d %q", status, code)
	}
	for _, row := range []struct {
		name   string
		body   func(*testing.T) []byte
		status int
		code   string
	}{
		{"empty", func(*testing.T) []byte { return nil }, 400, "invalid"},
		{"not JSON", func(*testing.T) []byte { return []byte("hello") }, 400, "invalid"},
		{"a byte too many", func(*testing.T) []byte { return bytes.Repeat([]byte(" "), 64<<10+1) }, 413, "too_large"},
		{"megabytes", func(*testing.T) []byte { return bytes.Repeat([]byte(" "), 2<<20) }, 413, "too_large"},
		{"other kind", func(t *testing.T) []byte { return changed(t, fresh(t), func(ev *nostr.Event) { ev.Kind = 1 }) }, 400, "invalid"},
		{"two recipients", func(t *testing.T) []byte {
			return changed(t, fresh(t), func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"p", alice.PublicKey()}) })
		}, 400, "invalid"},
		{"upper-case recipient", func(t *testing.T) []byte {
			return changed(t, fresh(t), func(ev *nostr.Event) { setTag(ev, "p", strings.ToUpper(bob.PublicKey())) })
		}, 400, "invalid"},
		{"other bytes", func(t *testing.T) []byte { return append(fresh(t), '\n') }, 400, "invalid"},
		{"wrong id", func(t *testing.T) []byte {
			return rewritten(t, fresh(t), func(ev *nostr.Event) { ev.ID = strings.Repeat("0", 64) })
		}, 400, "invalid"},
		{"wrong signature", func(t *testing.T) []byte {
			return rewritten(t, fresh(t), func(ev *nostr.Event) { ev.Sig = strings.Repeat("1", 128) })
		}, 400, "invalid"},
		{"expired", func(t *testing.T) []byte { return changed(t, fresh(t), expiring(-time.Second)) }, 400, "invalid"},
		{"expiring in a year", func(t *testing.T) []byte { return changed(t, fresh(t), expiring(365*24*time.Hour)) }, 400, "invalid"},
		{"not admitted", func(t *testing.T) []byte { return wrapFor(t, alice, unknown.PublicKey()) }, 404, "unknown_recipient"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := counter(t, registry, "parley_mailbox_posts_total", row.code)
			carol := newKey(t)
			status, code := post(t, s, row.body(t))
			if status != row.status || code != row.code {
				t.Errorf("status %d %q, want %d %q", status, code, row.status, row.code)
			}
			if got := counter(t, registry, "parley_mailbox_posts_total", row.code) - before; got != 1 {
				t.Errorf("counted %v times", got)
			}
			if got := waiting(t, s, bob); len(got) > 0 {
				t.Errorf("%d envelopes are stored", len(got))
			}
			good := wrapFor(t, alice, carol.PublicKey())
			if status, code := post(t, s, good); status != http.StatusAccepted {
				t.Errorf("another client gets %d %q", status, code)
			}
			if diff := cmp.Diff([]string{string(good)}, waiting(t, s, carol)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBoxesAndMailboxAreBounded(t *testing.T) {
	alice, bob := newKey(t), newKey(t)
	size := int64(len(wrapFor(t, alice, bob.PublicKey())))
	frozen := time.Now()
	for _, row := range []struct {
		name  string
		opts  https.MailboxOptions
		takes int
		code  string
		other int // status for another recipient
	}{
		{"count", https.MailboxOptions{Quota: 2}, 2, "recipient_full", 202},
		{"bytes", https.MailboxOptions{QuotaBytes: 2*size + size/2}, 2, "recipient_full", 202},
		{"total", https.MailboxOptions{TotalBytes: size + size/2}, 2, "full", 503},
		{"rate", https.MailboxOptions{Rate: 1, Now: func() time.Time { return frozen }}, 20, "rate_limited", 429},
	} {
		t.Run(row.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			row.opts.Registerer = registry
			s := httpstest.Start(t, row.opts)
			for i := range row.takes {
				if status, code := post(t, s, wrapFor(t, alice, bob.PublicKey())); status != http.StatusAccepted {
					t.Fatalf("envelope %d: %d %q", i, status, code)
				}
			}
			status, code := post(t, s, wrapFor(t, alice, bob.PublicKey()))
			if (status != 429 && status != 503) || code != row.code {
				t.Errorf("one too many: %d %q", status, code)
			}
			if got := counter(t, registry, "parley_mailbox_posts_total", row.code); got != 1 {
				t.Errorf("counted %v times", got)
			}
			if got := counter(t, registry, "parley_mailbox_posts_total", "stored"); got != float64(row.takes) {
				t.Errorf("%v are stored", got)
			}
			if status, _ := post(t, s, wrapFor(t, alice, newKey(t).PublicKey())); status != row.other {
				t.Errorf("another recipient: %d", status)
			}
			if status, _, _ := exchange(t, http.MethodGet, s.URL+https.InboxPath, "", nil); (status == 429) != (row.code == "rate_limited") {
				t.Errorf("a reader of the same address: %d", status)
			}
		})
	}
}

func TestAnEnvelopeIsStoredOnceAndDeletedByItsRecipientOnly(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		s := httpstest.Start(t, https.MailboxOptions{DB: open(t)})
		alice, bob := newKey(t), newKey(t)
		wrap := wrapFor(t, alice, bob.PublicKey())
		for range 3 {
			if status, code := post(t, s, wrap); status != http.StatusAccepted {
				t.Fatal(status, code)
			}
		}
		url := s.URL + https.InboxPath
		ev, err := canonical.DecodeEvent(wrap)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Appendf(nil, `{"ids":[%q]}`, ev.ID)
		for _, step := range []struct {
			key           *keys.Nostr
			deleted, left int
		}{{alice, 0, 1}, {bob, 1, 0}, {bob, 0, 0}} {
			if got := waiting(t, s, alice); len(got) > 0 {
				t.Error("another's box is shown")
			}
			_, _, answer := exchange(t, http.MethodDelete, url, token(t, step.key, time.Now(), http.MethodDelete, url, body), body)
			if want := fmt.Sprintf(`{"deleted":%d}`, step.deleted); string(answer) != want {
				t.Errorf("answer %s, want %s", answer, want)
			}
			if got := waiting(t, s, bob); len(got) != step.left {
				t.Errorf("%d are left, want %d", len(got), step.left)
			}
		}
	})
}

func TestTokensThatDoNotFitAreRefused(t *testing.T) {
	barred := newKey(t)
	s := httpstest.Start(t, https.MailboxOptions{Admit: func(key string) bool { return key != barred.PublicKey() }})
	bob, now, url := newKey(t), time.Now(), s.URL+https.InboxPath
	body, other := []byte(`{"ids":["00"]}`), []byte(`{"ids":["01"]}`)
	used := token(t, bob, now, http.MethodGet, url, nil)
	if status, _, _ := exchange(t, http.MethodGet, url, used, nil); status != http.StatusOK {
		t.Fatalf("a good token: %d", status)
	}
	for name, row := range map[string]struct {
		method, token string
		body          []byte
		status        int
	}{
		"missing":        {http.MethodGet, "", nil, 401},
		"no base64":      {http.MethodGet, "???", nil, 401},
		"used":           {http.MethodGet, used, nil, 401},
		"other URL":      {http.MethodGet, token(t, bob, now, http.MethodGet, url+"?wait=0", nil), nil, 401},
		"other origin":   {http.MethodGet, token(t, bob, now, http.MethodGet, "https://mail.example"+https.InboxPath, nil), nil, 401},
		"other method":   {http.MethodGet, token(t, bob, now, http.MethodDelete, url, nil), nil, 401},
		"other body":     {http.MethodDelete, token(t, bob, now, http.MethodDelete, url, other), body, 401},
		"no payload":     {http.MethodDelete, token(t, bob, now, http.MethodDelete, url, nil), body, 401},
		"old":            {http.MethodGet, token(t, bob, now.Add(-2*time.Minute), http.MethodGet, url, nil), nil, 401},
		"of the future":  {http.MethodGet, token(t, bob, now.Add(2*time.Minute), http.MethodGet, url, nil), nil, 401},
		"not admitted":   {http.MethodGet, token(t, barred, now, http.MethodGet, url, nil), nil, 403},
		"deletion empty": {http.MethodDelete, token(t, bob, now, http.MethodDelete, url, []byte(`{"ids":[]}`)), []byte(`{"ids":[]}`), 400},
	} {
		if status, code, _ := exchange(t, row.method, url, row.token, row.body); status != row.status {
			t.Errorf("%s: %d %q, want %d", name, status, code, row.status)
		}
	}
}

func TestChallengesHaveOneForm(t *testing.T) {
	unknown := newKey(t).PublicKey()
	s := httpstest.Start(t, https.MailboxOptions{Admit: func(key string) bool { return key != unknown }})
	good, hex := newKey(t).PublicKey(), strings.Repeat("ab", 16)
	for name, row := range map[string]struct {
		challenge, recipient string
		status               int
	}{
		"good":                {hex, good, 200},
		"no challenge":        {"", good, 400},
		"short":               {hex[1:], good, 400},
		"long":                {hex + "a", good, 400},
		"upper case":          {strings.ToUpper(hex), good, 400},
		"no hex":              {strings.Repeat("g", 32), good, 400},
		"no recipient":        {hex, "", 400},
		"upper-case receiver": {hex, strings.Repeat("AB", 32), 400},
		"not admitted":        {hex, unknown, 404},
	} {
		if status, code, _ := exchange(t, http.MethodGet, s.Address()+"?challenge="+row.challenge+"&recipient="+row.recipient, "", nil); status != row.status {
			t.Errorf("%s: %d %q, want %d", name, status, code, row.status)
		}
	}
}
