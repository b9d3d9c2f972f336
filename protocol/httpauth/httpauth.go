package httpauth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Kind is the kind of the event (NIP-98).
const Kind = 27235

// Window is how far created_at may lie from the clock, in both directions.
const Window = 60 * time.Second

const (
	maxHeader = 8 << 10 // bytes of the Authorization header
	maxTags   = 32      // of the event
	maxUsed   = 1 << 15 // events remembered
)

// Errors of Verify; their texts are fit for the client.
var (
	// ErrMissing: there is no header of the scheme Nostr.
	ErrMissing = errors.New("an Authorization header of the scheme Nostr is needed (NIP-98)")
	// ErrInvalid: the event fails a check; it is wrapped with the reason.
	ErrInvalid = errors.New("the token is not valid")
	// ErrUsed: the event was used before.
	ErrUsed = errors.New("the token was used before")
	// ErrForbidden: the key may not do this.
	ErrForbidden = errors.New("this key may not do this")
	// ErrBusy: too many tokens were used within the window.
	ErrBusy = errors.New("too many tokens were used, try again in two minutes")
)

// Request is what the event must be about.
type Request struct {
	// URL is compared with the u tag byte by byte; any one of the list will do.
	URL []string
	// Method is the HTTP method.
	Method string
	// Body is the whole body; its hash must stand in the payload tag unless it
	// is nil.
	Body []byte
	// Allow says whether the key may do what is asked; nil allows every key. It
	// is called once the signature was found good.
	Allow func(pubkey string) bool
}

// Verifier checks tokens and remembers those that were used.
type Verifier struct {
	now func() time.Time

	mu    sync.Mutex
	used  map[string]time.Time // id → when it may be forgotten
	limit int
}

// NewVerifier makes a Verifier; nil takes time.Now.
func NewVerifier(now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{now: now, used: map[string]time.Time{}, limit: maxUsed}
}

// Verify checks the Authorization header of a request and returns the public
// key (64 lowercase hex digits) that signed it. It succeeds once for each event.
func (v *Verifier) Verify(header string, req Request) (pubkey string, err error) {
	ev, err := parse(header)
	if err != nil {
		return "", err
	}
	now := v.now()
	if err := check(ev, req.tags(), now); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if req.Allow != nil && !req.Allow(ev.PubKey) {
		return ev.PubKey, ErrForbidden
	}
	return ev.PubKey, v.use(ev, now)
}

// VerifyEvent checks an event that stands somewhere else than in a header, such as a
// password. data is its JSON of at most 8 KiB; each tag of want stands in it once,
// with one of the values. It returns the key and succeeds once for each event.
func (v *Verifier) VerifyEvent(data []byte, want map[string][]string) (pubkey string, err error) {
	var ev nostr.Event
	if len(data) > maxHeader || json.Unmarshal(data, &ev) != nil {
		return "", fmt.Errorf("%w: it is not an event", ErrInvalid)
	}
	now := v.now()
	if err := check(&ev, want, now); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return ev.PubKey, v.use(&ev, now)
}

// tags are those that an event for the request has.
func (r Request) tags() map[string][]string {
	want := map[string][]string{"u": r.URL, "method": {r.Method}}
	if r.Body != nil {
		sum := sha256.Sum256(r.Body)
		want["payload"] = []string{hex.EncodeToString(sum[:])}
	}
	return want
}

// parse reads the event out of the header.
func parse(header string) (*nostr.Event, error) {
	scheme, text, _ := strings.Cut(strings.TrimSpace(header), " ")
	if !strings.EqualFold(scheme, "Nostr") {
		return nil, ErrMissing
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrInvalid, maxHeader)
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w: it is not base64", ErrInvalid)
	}
	var ev nostr.Event
	if err := json.Unmarshal(data, &ev); err != nil {
		return nil, fmt.Errorf("%w: it is not an event", ErrInvalid)
	}
	return &ev, nil
}

// check is every check but those of the key and of the second use.
func check(ev *nostr.Event, want map[string][]string, now time.Time) error {
	if !canonical.IsHex(ev.ID, 32) || !canonical.IsHex(ev.PubKey, 32) || !canonical.IsHex(ev.Sig, 64) || len(ev.Tags) > maxTags {
		return errors.New("it is not an event")
	}
	at := time.Unix(int64(ev.CreatedAt), 0)
	switch {
	case ev.Kind != Kind:
		return fmt.Errorf("its kind is not %d", Kind)
	case at.Before(now.Add(-Window)) || at.After(now.Add(Window)):
		return errors.New("created_at is more than a minute from this server's clock")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !one(ev, name, want[name]...) {
			return fmt.Errorf("its %s tag is not %s", name, meanings[name])
		}
	}
	if !ev.CheckID() {
		return errors.New("the id is not the hash of the event")
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok {
		return errors.New("the signature is wrong")
	}
	return nil
}

// meanings say what the tags are compared with.
var meanings = map[string]string{
	"u": "the URL", "method": "the method", "payload": "the SHA-256 of the body", "client": "the client id",
}

// one reports whether the event has the tag once, with one of the values.
func one(ev *nostr.Event, name string, values ...string) bool {
	n, found := 0, false
	for _, tag := range ev.Tags {
		if len(tag) == 0 || tag[0] != name {
			continue
		}
		n++
		for _, value := range values {
			found = found || len(tag) >= 2 && tag[1] == value
		}
	}
	return n == 1 && found
}

// use remembers the event until its time is over.
func (v *Verifier) use(ev *nostr.Event, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if until, used := v.used[ev.ID]; used && !now.After(until) {
		return ErrUsed
	}
	if len(v.used) >= v.limit {
		for id, until := range v.used {
			if now.After(until) {
				delete(v.used, id)
			}
		}
	}
	if len(v.used) >= v.limit {
		return ErrBusy
	}
	v.used[ev.ID] = time.Unix(int64(ev.CreatedAt), 0).Add(Window)
	return nil
}
