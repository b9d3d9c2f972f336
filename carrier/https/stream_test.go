package https_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
)

// stream is a reader of server-sent events.
type stream struct {
	lines chan string
	close func()
}

// openStream opens one, and returns the status where it is refused.
func openStream(t testing.TB, s *httpstest.Server, key *keys.Nostr) (opened *stream, status int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	url := s.URL + https.InboxPath
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Nostr "+token(t, key, time.Now(), http.MethodGet, url, nil))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, response.StatusCode
	}
	opened = &stream{lines: make(chan string, 1000), close: cancel}
	go func() {
		defer response.Body.Close()
		defer close(opened.lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			opened.lines <- scanner.Text()
		}
	}()
	return opened, response.StatusCode
}

// next is the value of the next line of a name.
func (s *stream) next(t testing.TB, name string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatal("the stream ended")
			}
			if value, found := strings.CutPrefix(line, name+": "); found {
				return value
			}
		case <-deadline:
			t.Fatalf("no %q within a minute", name)
		}
	}
}

func idOf(t testing.TB, wrap []byte) string {
	t.Helper()
	ev, err := canonical.DecodeEvent(wrap)
	if err != nil {
		t.Fatal(err)
	}
	return ev.ID
}

// A stream has what waits and what comes, and after a cut what was not deleted.
func TestAStreamResumesAfterACut(t *testing.T) {
	s := httpstest.Start(t, https.MailboxOptions{})
	alice, bob := newKey(t), newKey(t)
	var ids []string
	send := func() {
		wrap := wrapFor(t, alice, bob.PublicKey())
		ids = append(ids, idOf(t, wrap))
		if status, code := post(t, s, wrap); status != http.StatusAccepted {
			t.Fatal(status, code)
		}
	}
	send()
	first, _ := openStream(t, s, bob)
	got := []string{first.next(t, "id")}
	send()
	got = append(got, first.next(t, "id"))
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Error(diff)
	}
	first.close()
	remove(t, s, bob, ids[0])
	second, _ := openStream(t, s, bob)
	if got := second.next(t, "id"); got != ids[1] {
		t.Errorf("resumes with %s, want %s", got, ids[1])
	}
}

// remove deletes one envelope.
func remove(t testing.TB, s *httpstest.Server, key *keys.Nostr, id string) {
	t.Helper()
	url, body := s.URL+https.InboxPath, []byte(`{"ids":["`+id+`"]}`)
	if status, code, _ := exchange(t, http.MethodDelete, url, token(t, key, time.Now(), http.MethodDelete, url, body), body); status != http.StatusOK {
		t.Fatal(status, code)
	}
}

// The window holds back the 101st envelope until one is deleted; a comment keeps the
// stream alive meanwhile.
func TestAStreamHasAWindow(t *testing.T) {
	s := httpstest.Start(t, https.MailboxOptions{})
	alice, bob := newKey(t), newKey(t)
	var ids []string
	for range 101 {
		wrap := wrapFor(t, alice, bob.PublicKey())
		ids = append(ids, idOf(t, wrap))
		if status, code := post(t, s, wrap); status != http.StatusAccepted {
			t.Fatal(status, code)
		}
	}
	reader, _ := openStream(t, s, bob)
	for i := range 100 {
		if got := reader.next(t, "id"); got != ids[i] {
			t.Fatalf("envelope %d is %s", i, got)
		}
	}
	for line := ""; line != ": still here"; {
		select {
		case line = <-reader.lines:
			if strings.HasPrefix(line, "id:") {
				t.Fatal("more than the window")
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing keeps the stream alive")
		}
	}
	remove(t, s, bob, ids[50])
	if got := reader.next(t, "id"); got != ids[100] {
		t.Errorf("after a deletion comes %s", got)
	}
}

func TestReadersAreBounded(t *testing.T) {
	s := httpstest.Start(t, https.MailboxOptions{Readers: 160}) // ten of one address
	bob := newKey(t)
	for i := range 8 {
		if _, status := openStream(t, s, bob); status != http.StatusOK {
			t.Fatalf("reader %d: %d", i, status)
		}
	}
	if _, status := openStream(t, s, bob); status != http.StatusServiceUnavailable {
		t.Errorf("a ninth reader of a key: %d", status)
	}
	for i := range 2 {
		if _, status := openStream(t, s, newKey(t)); status != http.StatusOK {
			t.Fatalf("reader %d of another key: %d", i, status)
		}
	}
	if _, status := openStream(t, s, newKey(t)); status != http.StatusServiceUnavailable {
		t.Errorf("an eleventh reader of an address: %d", status)
	}
}

func TestTwoMailboxesShareADatabase(t *testing.T) {
	url := databasetest.NewPostgres(t)
	open := func() *database.DB { return databasetest.OpenURL(t, url, database.Options{}) }
	a, b := httpstest.Start(t, https.MailboxOptions{DB: open()}), httpstest.Start(t, https.MailboxOptions{DB: open()})
	alice, bob := newKey(t), newKey(t)
	reader, _ := openStream(t, a, bob)
	var want []string
	for range 20 {
		wrap := wrapFor(t, alice, bob.PublicKey())
		want = append(want, idOf(t, wrap))
		if status, code := post(t, b, wrap); status != http.StatusAccepted {
			t.Fatal(status, code)
		}
	}
	var got []string
	for range want {
		got = append(got, reader.next(t, "id"))
	}
	if diff := cmp.Diff(want, got); diff != "" { // twenty different ones: each once
		t.Error(diff)
	}
}
