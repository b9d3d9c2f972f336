package issuer_test

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

func TestKeys_areAskedForOnceWhoeverWantsToKnow(t *testing.T) {
	f, clock := newForeign(t), newClock()
	held, proceed := make(chan struct{}), make(chan struct{})
	f.answer(discovery.IssuerPath, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-proceed
		json200(f.config(nil))(w, r)
	})
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	var asking sync.WaitGroup
	ask := func() {
		if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
			t.Error(err)
		}
	}
	asking.Go(ask)
	<-held
	for range 20 {
		asking.Go(ask)
	}
	close(proceed)
	asking.Wait()
	if n := f.times(discovery.IssuerPath) + f.times(keySetPath); n != 2 {
		t.Errorf("%d questions", n)
	}
}

func TestKeys_areKeptForAsLongAsTheIssuerSaysWithinBounds(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":                      time.Hour,
		"max-age=1":             issuer.KeepLeast,
		"no-store":              issuer.KeepLeast,
		"public, Max-Age=1800":  30 * time.Minute,
		"max-age=99999999":      issuer.KeepMost,
		"max-age=9999999999999": time.Hour,
		"max-age=-1":            time.Hour,
	} {
		f, clock := newForeign(t), newClock()
		f.answer(keySetPath, func(handler http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if header != "" {
					w.Header().Set("Cache-Control", header)
				}
				handler(w, r)
			}
		}(json200(keySet(t, discovery.Key{ID: "k1", Public: f.public()}))))
		f.answer(discovery.IssuerPath, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=86400")
			json200(f.config(nil))(w, r)
		})
		r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
		for _, step := range []struct {
			wait time.Duration
			asks int
		}{{0, 1}, {want - time.Second, 1}, {time.Second, 2}} {
			clock.advance(step.wait)
			if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
				t.Fatal(err)
			}
			if n := f.times(keySetPath); n != step.asks {
				t.Errorf("%q: %d questions %v later, want %d", header, n, step.wait, step.asks)
			}
		}
	}
}

func TestUnknownKey_isAskedForOnceAMinuteAtTheMost(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	for i := range 10 {
		_, err := r.Key(t.Context(), f.Origin, fmt.Sprint("unknown", i))
		wantCode(t, err, receipt.CodeKeyNotFound)
	}
	if n := f.times(discovery.IssuerPath); n != 1 {
		t.Errorf("%d questions at once", n)
	}
	f.answer(keySetPath, json200(keySet(t, discovery.Key{ID: "k1", Public: f.public()}, discovery.Key{ID: "k2", Public: newKey(t).Public().(ed25519.PublicKey)})))
	clock.advance(issuer.AskPause)
	if _, err := r.Key(t.Context(), f.Origin, "k2"); err != nil {
		t.Errorf("a key that was just published: %v", err)
	}
	if n := f.times(discovery.IssuerPath); n != 2 {
		t.Errorf("%d questions a minute later", n)
	}
}

func TestFailure_isRememberedForAMinute(t *testing.T) {
	f, clock := newForeign(t), newClock()
	f.answer(discovery.IssuerPath, nil)
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	for range 10 {
		_, err := r.Key(t.Context(), f.Origin, "k1")
		wantCode(t, err, receipt.CodeVerifyIssuerConfigMissing)
	}
	if n := f.times(discovery.IssuerPath); n != 1 {
		t.Errorf("%d questions", n)
	}
	f.answer(discovery.IssuerPath, json200(f.config(nil)))
	clock.advance(issuer.AskPause)
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Error(err)
	}
}

func TestFailureThatMayPass_leavesKnownKeysInUse(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Fatal(err)
	}
	f.answer(discovery.IssuerPath, status(503))
	clock.advance(issuer.AskPause)
	_, err := r.Key(t.Context(), f.Origin, "k2")
	wantCode(t, err, receipt.CodeVerifyKeyFetchFailed)
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Error(err)
	}
	clock.advance(time.Hour)
	_, err = r.Key(t.Context(), f.Origin, "k1")
	wantCode(t, err, receipt.CodeVerifyKeyFetchFailed)
}

func TestNameOfAKey_belongsToNoOther(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Fatal(err)
	}
	f.answer(keySetPath, json200(freshKeySet(t, "k1")))
	for range 3 {
		clock.advance(2 * time.Hour)
		_, err := r.Key(t.Context(), f.Origin, "k1")
		wantCode(t, err, receipt.CodeKidReuse)
	}
	clock.advance(discovery.Overlap + time.Hour)
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Errorf("after the overlap: %v", err)
	}
}

func TestFailureThatWillNotPass_endsTheUseOfKnownKeys(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Fatal(err)
	}
	f.answer(keySetPath, json200(freshKeySet(t, "k1")))
	clock.advance(issuer.AskPause)
	for _, kid := range []string{"k2", "k1"} {
		_, err := r.Key(t.Context(), f.Origin, kid)
		wantCode(t, err, receipt.CodeKidReuse)
	}
}

func TestNewlyRevokedKey_isRefusedOnceTheDocumentIsReadAgain(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Fatal(err)
	}
	hostiles["a revoked key"].spoil(t, f)
	clock.advance(time.Hour)
	_, err := r.Key(t.Context(), f.Origin, "k1")
	wantCode(t, err, receipt.CodeRevokedKey)
}

func TestFetches_haveABudget(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	for i := range 60 {
		_, _ = r.Policy(t.Context(), fmt.Sprintf("https://127.0.0.1:%d", i+1))
	}
	_, err := r.Key(t.Context(), f.Origin, "k1")
	wantCode(t, err, receipt.CodeVerifyKeyFetchFailed)
	if n := f.times(discovery.IssuerPath); n != 0 {
		t.Error("the issuer was asked")
	}
	clock.advance(time.Second) // the budget is refilled, and nothing was learnt of the issuer
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Errorf("a moment later: %v", err)
	}
}
