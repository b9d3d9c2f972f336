package issuer_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/issuer/issuertest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// clock is one that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// act is the claims of a record about something.
func act() receipt.Claims {
	return receipt.Claims{Kind: receipt.KindEvidence, Type: "example.org/agreement-reached"}
}

func issue(t *testing.T, i *issuer.Issuer, claims receipt.Claims) *issuer.Issued {
	t.Helper()
	issued, err := i.Issue(claims)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// wantCode checks the code of a refusal.
func wantCode(t *testing.T, err error, want receipt.Code) {
	t.Helper()
	if got := receipt.CodeOf(err); got != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func openKeys(t *testing.T) *keys.Dir {
	t.Helper()
	dir, err := keys.Open(t.TempDir() + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newIssuer makes an issuer without a server.
func newIssuer(t *testing.T, origin string, o issuer.Options) *issuer.Issuer {
	t.Helper()
	var err error
	if o.Origin, err = httpserver.ParseOrigin(origin); err != nil {
		t.Fatal(err)
	}
	if o.Keys == nil {
		o.Keys = openKeys(t)
	}
	i, err := issuer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestIssue_fillsInWhatTheIssuerKnows(t *testing.T) {
	clock := newClock()
	i := newIssuer(t, "https://parley.example", issuer.Options{Now: clock.Now, Settings: issuer.Settings{
		Policy: discovery.Policy{Usage: discovery.UsageOpen, Receipts: discovery.Required},
	}})
	claims := act()
	claims.Issuer, claims.PeacVersion = "https://somebody.example", "0.1"
	issued := issue(t, i, claims)
	key := i.KeySet()[0]
	verified, err := receipt.Verify(issued.JWS, key.Public, receipt.VerifyOptions{Now: clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	want := act()
	want.PeacVersion, want.Issuer, want.IssuedAt, want.ID = "0.2", "https://parley.example", clock.Now().Unix(), verified.Claims.ID
	want.Policy = &receipt.Policy{
		Digest:  "sha256:" + canonical.Digest([]byte(`{"receipts":"required","usage":"open","version":"peac-policy/0.1"}`)),
		URI:     "https://parley.example/.well-known/peac.txt",
		Version: "peac-policy/0.1",
	}
	if diff := cmp.Diff(want, verified.Claims); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, issued.Claims); diff != "" {
		t.Error(diff)
	}
	if verified.KeyID != key.ID || key.ID != key.Thumbprint() || issued.Reference != verified.Reference {
		t.Errorf("kid %s, %s; receipt_ref %s, %s", verified.KeyID, key.ID, issued.Reference, verified.Reference)
	}
	if !canonical.IsUUID(verified.Claims.ID, uuid.Version(7)) {
		t.Errorf("jti %s is no UUIDv7", verified.Claims.ID)
	}
}

func TestIssue_keepsTimeNameAndPolicyThatTheCallerChose(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	claims := act()
	claims.IssuedAt, claims.ID = 1_700_000_000, "act 7"
	claims.Policy = &receipt.Policy{Digest: "sha256:" + canonical.Digest([]byte("another policy"))}
	got := issue(t, i, claims).Claims
	claims.PeacVersion, claims.Issuer = "0.2", i.Name()
	if diff := cmp.Diff(claims, got); diff != "" {
		t.Error(diff)
	}
}

func TestIssue_refusesWhatVerifiersWouldRefuse(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	claims := act()
	claims.Kind = "rumour"
	_, err := i.Issue(claims)
	wantCode(t, err, receipt.CodeKindUnsupported)
}

func TestIssuer_isADIDWhereNobodyCouldLookItUp(t *testing.T) {
	for origin, did := range map[string]bool{
		"http://127.0.0.1:8417":     true,
		"https://localhost":         true,
		"http://parley.example":     true,
		"https://[::1]:8443":        true,
		"https://parley.example":    false,
		"https://parley.example:81": false,
	} {
		i := newIssuer(t, origin, issuer.Options{})
		name := origin
		if did {
			name = receipt.DIDKey(i.KeySet()[0].Public)
		}
		if i.Name() != name {
			t.Errorf("%s: iss is %s, want %s", origin, i.Name(), name)
		}
		issued := issue(t, i, act())
		if _, err := i.Verify(issued.JWS, receipt.VerifyOptions{Issuer: name}); err != nil {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

func TestRotation_keepsOldReceiptsVerifiableForOthers(t *testing.T) {
	clock := newClock()
	s := issuertest.Start(t, issuer.Options{Now: clock.Now})
	r := s.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	before := issue(t, s.Issuer, act())
	if _, err := r.Verify(t.Context(), before.JWS, receipt.VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	rotate(t, s, clock)
	clock.advance(issuer.AskPause)
	after := issue(t, s.Issuer, act())
	for name, issued := range map[string]*issuer.Issued{"before": before, "after": after} {
		if _, err := r.Verify(t.Context(), issued.JWS, receipt.VerifyOptions{}); err != nil {
			t.Errorf("the receipt from %s the rotation: %v", name, err)
		}
		if _, err := s.Issuer.Verify(issued.JWS, receipt.VerifyOptions{}); err != nil {
			t.Errorf("the receipt from %s the rotation, at its issuer: %v", name, err)
		}
	}
	if first, second := decode(t, before).KeyID, decode(t, after).KeyID; first == second {
		t.Error("the key did not change")
	}
}

func decode(t *testing.T, issued *issuer.Issued) *receipt.Decoded {
	t.Helper()
	decoded, err := receipt.Decode(issued.JWS)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// rotate puts another key in use and returns the kid of the old one.
func rotate(t *testing.T, s *issuertest.Server, clock *clock) (old string) {
	t.Helper()
	old = s.Issuer.KeySet()[0].ID
	if _, err := issuer.RotateKey(s.Keys, clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.Issuer.Reconfigure(issuer.Settings{}); err != nil {
		t.Fatal(err)
	}
	return old
}

func TestRotateKey_neverPushesOutAKeyThatWasInUseWithinTheOverlap(t *testing.T) {
	clock, dir := newClock(), openKeys(t)
	i := newIssuer(t, "https://parley.example", issuer.Options{Keys: dir, Now: clock.Now})
	first := i.KeySet()[0].ID
	for range discovery.MaxKeys - 1 {
		if _, err := issuer.RotateKey(dir, clock.Now()); err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Hour)
	}
	if err := i.Reconfigure(issuer.Settings{}); err != nil {
		t.Fatal(err)
	}
	if set := i.KeySet(); len(set) != discovery.MaxKeys || set[len(set)-1].ID != first {
		t.Fatalf("%d keys are published, the last is %s, want %s", len(set), set[len(set)-1].ID, first)
	}
	if _, err := issuer.RotateKey(dir, clock.Now()); !errors.Is(err, issuer.ErrOptions) {
		t.Errorf("one rotation too many: %v", err)
	}
	clock.advance(discovery.Overlap)
	if _, err := issuer.RotateKey(dir, clock.Now()); err != nil {
		t.Errorf("after the overlap: %v", err)
	}
	if err := i.Reconfigure(issuer.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, published := i.KeySet().Find(first); published || len(i.KeySet()) != discovery.MaxKeys {
		t.Errorf("the oldest key is still published, or not %d keys", discovery.MaxKeys)
	}
}

// A receipt has no end, so its issuer answers for it longer than others can
// find the key.
func TestIssuer_verifiesReceiptsUnderKeysThatAreNoLongerPublished(t *testing.T) {
	clock, dir := newClock(), openKeys(t)
	i := newIssuer(t, "https://parley.example", issuer.Options{Keys: dir, Now: clock.Now})
	issued := issue(t, i, act())
	for range discovery.MaxKeys {
		if _, err := issuer.RotateKey(dir, clock.Now()); err != nil {
			t.Fatal(err)
		}
		clock.advance(discovery.Overlap)
	}
	if err := i.Reconfigure(issuer.Settings{}); err != nil {
		t.Fatal(err)
	}
	kid := decode(t, issued).KeyID
	if _, published := i.KeySet().Find(kid); published {
		t.Fatal("the key is still published")
	}
	if key, err := i.Key(kid); err != nil || key.KeyID != kid || key.Thumbprint() != kid {
		t.Errorf("Key = %+v, %v", key, err)
	}
	_, err := i.Key("unknown")
	wantCode(t, err, receipt.CodeKeyNotFound)
	if _, err := i.Verify(issued.JWS, receipt.VerifyOptions{}); err != nil {
		t.Error(err)
	}
}

func TestRevokedKey_isBelievedByNobody(t *testing.T) {
	clock := newClock()
	s := issuertest.Start(t, issuer.Options{Now: clock.Now})
	issued := issue(t, s.Issuer, act())
	revoked := rotate(t, s, clock)
	settings := issuer.Settings{Revoked: []discovery.RevokedKey{
		{KeyID: revoked, RevokedAt: clock.Now(), Reason: discovery.RevokedKeyCompromise},
	}}
	if err := s.Issuer.Reconfigure(settings); err != nil {
		t.Fatal(err)
	}
	if _, published := s.Issuer.KeySet().Find(revoked); published {
		t.Error("the key is still published")
	}
	_, err := s.Issuer.Verify(issued.JWS, receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeRevokedKey)
	_, err = s.Resolver(t, issuer.ResolverOptions{Now: clock.Now}).Verify(t.Context(), issued.JWS, receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeRevokedKey)
}

func TestRevokedKey_isNoDIDEither(t *testing.T) {
	clock, dir := newClock(), openKeys(t)
	i := newIssuer(t, "http://127.0.0.1:8417", issuer.Options{Keys: dir, Now: clock.Now})
	issued, kid := issue(t, i, act()), i.KeySet()[0].ID
	if _, err := issuer.RotateKey(dir, clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := i.Reconfigure(issuer.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Verify(issued.JWS, receipt.VerifyOptions{}); err != nil {
		t.Errorf("a retired key: %v", err)
	}
	if err := i.Reconfigure(issuer.Settings{Revoked: []discovery.RevokedKey{{KeyID: kid, RevokedAt: clock.Now()}}}); err != nil {
		t.Fatal(err)
	}
	_, err := i.Verify(issued.JWS, receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeRevokedKey)
}

func TestReconfigure_changesNothingAfterAMistake(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	want := issue(t, i, act()).Claims.Policy
	for name, settings := range map[string]issuer.Settings{
		"usage":     {Policy: discovery.Policy{Usage: "free for all"}},
		"the rate":  {Policy: discovery.Policy{RateLimit: "fast"}},
		"own key":   {Revoked: []discovery.RevokedKey{{KeyID: i.KeySet()[0].ID, RevokedAt: time.Unix(1, 0)}}},
		"reason":    {Revoked: []discovery.RevokedKey{{KeyID: "k", RevokedAt: time.Unix(1, 0), Reason: "boredom"}}},
		"the count": {Revoked: make([]discovery.RevokedKey, discovery.MaxRevoked+1)},
	} {
		if err := i.Reconfigure(settings); !errors.Is(err, issuer.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(want, issue(t, i, act()).Claims.Policy); diff != "" {
		t.Error(diff)
	}
}

func TestIssue_isSafeWhileKeysAndPolicyChange(t *testing.T) {
	clock, dir := newClock(), openKeys(t)
	i := newIssuer(t, "https://parley.example", issuer.Options{Keys: dir, Now: clock.Now})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 50 {
				issued, err := i.Issue(act())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := i.Verify(issued.JWS, receipt.VerifyOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 5 {
		if _, err := issuer.RotateKey(dir, clock.Now()); err != nil {
			t.Fatal(err)
		}
		if err := i.Reconfigure(issuer.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
}
