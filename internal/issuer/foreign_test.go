package issuer_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/parleykit/parley/internal/issuer/issuertest"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// foreign is an issuer that answers what a test wants, and counts.
type foreign struct {
	*issuertest.Host
	key ed25519.PrivateKey

	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	asked    map[string]int
}

const keySetPath = "/elsewhere/keys"

// newForeign starts an issuer in good order with one key named "k1".
func newForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{key: newKey(t), handlers: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	f.Host = issuertest.StartHost(t, f)
	f.answer(discovery.IssuerPath, json200(f.config(nil)))
	f.answer(keySetPath, json200(keySet(t, discovery.Key{ID: "k1", Public: f.public()})))
	return f
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (f *foreign) public() ed25519.PublicKey { return f.key.Public().(ed25519.PublicKey) }

// config is the issuer's document with some members changed.
func (f *foreign) config(change map[string]any) string {
	members := map[string]any{"version": "peac-issuer/0.1", "issuer": f.Origin, "jwks_uri": f.Origin + keySetPath}
	for name, value := range change {
		members[name] = value
	}
	data, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func keySet(t *testing.T, keys ...discovery.Key) string {
	t.Helper()
	data, err := discovery.KeySet(keys).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func json200(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// answer sets what a path answers; nil is 404.
func (f *foreign) answer(path string, handler http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[path] = handler
}

func (f *foreign) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	handler := f.handlers[r.URL.Path]
	f.mu.Unlock()
	if handler == nil {
		handler = http.NotFound
	}
	handler(w, r)
}

// times is how often a path was asked for.
func (f *foreign) times(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

// receipt is one of the issuer's, under a kid.
func (f *foreign) receipt(t *testing.T, clock *clock, kid string) string {
	t.Helper()
	claims := act()
	claims.Issuer, claims.IssuedAt, claims.ID = f.Origin, clock.Now().Unix(), "1"
	return sign(t, claims, kid, f.key)
}

func sign(t *testing.T, claims receipt.Claims, kid string, key ed25519.PrivateKey) string {
	t.Helper()
	jws, err := receipt.Issue(&claims, kid, func(message []byte) ([]byte, error) { return ed25519.Sign(key, message), nil })
	if err != nil {
		t.Fatal(err)
	}
	return jws
}
