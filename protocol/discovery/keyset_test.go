package discovery

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/receipt"
)

func jwk(key Key, extra string) string {
	return `{"kty":"OKP","crv":"Ed25519","kid":"` + key.ID + `","x":"` +
		base64.RawURLEncoding.EncodeToString(key.Public) + `"` + extra + `}`
}

func jwks(keys ...string) []byte { return []byte(`{"keys":[` + strings.Join(keys, ",") + `]}`) }

func TestParseKeySet_takesEd25519KeysAndPassesOverOthers(t *testing.T) {
	a, b := testKey("a", 1), testKey("b", 2)
	got, err := ParseKeySet(jwks(
		jwk(a, `,"use":"sig","alg":"EdDSA","later":{"x":[1]}`),
		`{"kty":"EC","crv":"P-256","kid":"ec","x":"AA","y":"AA"}`,
		`{"kty":"EC","crv":"Ed25519"}`,
		`{"kty":"RSA","n":"AA","e":"AQAB"}`,
		`{"kty":"OKP","crv":"X25519","x":"AA"}`,
		jwk(testKey("enc", 3), `,"use":"enc"`),
		jwk(testKey("es", 4), `,"alg":"ES256"`),
		jwk(b, ""),
		jwk(a, ""),
	))
	if diff := cmp.Diff(KeySet{a, b}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if key, found := got.Find("b"); !found || !key.Equal(b.Public) {
		t.Error("b is not found")
	}
	if _, found := got.Find("ec"); found {
		t.Error("a key of another kind is found")
	}
	if got, err := ParseKeySet(jwks()); len(got) != 0 || err != nil {
		t.Errorf("no keys: %v, %v", got, err)
	}
}

func TestParseKeySet_refusesWhatNoIssuerMayPublish(t *testing.T) {
	a := testKey("a", 1)
	many := make([]string, MaxKeys+1)
	for i := range many {
		many[i] = jwk(testKey(fmt.Sprint("k", i), byte(i)), "")
	}
	smallOrder := `{"kty":"OKP","crv":"Ed25519","kid":"a","x":"` + base64.RawURLEncoding.EncodeToString(make([]byte, 32)) + `"}`
	for name, c := range map[string]struct {
		document []byte
		code     receipt.Code
	}{
		"nothing":              {nil, receipt.CodeVerifyJWKSInvalid},
		"no keys":              {[]byte(`{}`), receipt.CodeVerifyJWKSInvalid},
		"keys null":            {[]byte(`{"keys":null}`), receipt.CodeVerifyJWKSInvalid},
		"keys an object":       {[]byte(`{"keys":{}}`), receipt.CodeVerifyJWKSInvalid},
		"a key no object":      {jwks(`"a"`), receipt.CodeVerifyJWKSInvalid},
		"keys twice":           {[]byte(`{"keys":[],"keys":[]}`), receipt.CodeVerifyJWKSInvalid},
		"no kty":               {jwks(`{"crv":"Ed25519"}`), receipt.CodeVerifyJWKSInvalid},
		"a private key":        {jwks(jwk(a, `,"d":"AA"`)), receipt.CodeVerifyJWKSInvalid},
		"another's private":    {jwks(jwk(a, ""), `{"kty":"EC","d":"AA"}`), receipt.CodeVerifyJWKSInvalid},
		"a secret key":         {jwks(`{"kty":"oct","k":"AA"}`), receipt.CodeVerifyJWKSInvalid},
		"a key without name":   {jwks(strings.Replace(jwk(a, ""), `"kid":"a",`, "", 1)), receipt.CodeVerifyJWKSInvalid},
		"an empty name":        {jwks(jwk(testKey("", 1), "")), receipt.CodeVerifyJWKSInvalid},
		"a name too long":      {jwks(jwk(testKey(long(257), 1), "")), receipt.CodeVerifyJWKSInvalid},
		"no x":                 {jwks(`{"kty":"OKP","crv":"Ed25519","kid":"a"}`), receipt.CodeVerifyJWKSInvalid},
		"x too short":          {jwks(`{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAA"}`), receipt.CodeVerifyJWKSInvalid},
		"x of small order":     {jwks(smallOrder), receipt.CodeVerifyJWKSInvalid},
		"one name, two keys":   {jwks(jwk(a, ""), jwk(testKey("a", 2), "")), receipt.CodeKidReuse},
		"too many keys":        {jwks(many...), receipt.CodeVerifyJWKSTooManyKeys},
		"too many of any kind": {jwks(strings.Split(strings.Repeat(`{"kty":"EC"},`, MaxKeys)+`{"kty":"EC"}`, ",")...), receipt.CodeVerifyJWKSTooManyKeys},
		"too large":            {make([]byte, MaxKeySet+1), receipt.CodeVerifyJWKSTooLarge},
	} {
		if got, err := ParseKeySet(c.document); receipt.CodeOf(err) != c.code || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := ParseKeySet(jwks(many[:MaxKeys]...)); len(got) != MaxKeys || err != nil {
		t.Errorf("as many as allowed: %d, %v", len(got), err)
	}
}

func TestKeySet_Encode_writesOnlyWhatAReaderTakes(t *testing.T) {
	want := KeySet{testKey("a", 1), testKey("b", 2)}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseKeySet(data)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if data, err := KeySet(nil).Encode(); string(data) != `{"keys":[]}` || err != nil {
		t.Errorf("empty: %s, %v", data, err)
	}
	for name, set := range map[string]KeySet{
		"no name":   {testKey("", 1)},
		"no key":    {{ID: "a"}},
		"one name":  {testKey("a", 1), testKey("a", 2)},
		"too many":  make(KeySet, MaxKeys+1),
		"long name": {testKey(long(257), 1)},
	} {
		if data, err := set.Encode(); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}

func TestKeyState_goesOnlyForward(t *testing.T) {
	states := []KeyState{KeyPending, KeyActive, KeyDeprecated, KeyRetired, KeyRevoked, "", "other"}
	allowed := map[[2]KeyState]bool{
		{KeyPending, KeyActive}: true, {KeyActive, KeyDeprecated}: true, {KeyDeprecated, KeyRetired}: true,
		{KeyActive, KeyRevoked}: true, {KeyDeprecated, KeyRevoked}: true, {KeyRetired, KeyRevoked}: true,
	}
	for _, from := range states[:5] {
		for _, to := range states {
			k, err := IssuerKey{Key: testKey("a", 1), State: from, Since: now}.To(to, now.Add(Overlap))
			ok := allowed[[2]KeyState{from, to}]
			if ok != (err == nil) || ok && (k.State != to || k.Since.Equal(now)) || !ok && k.State != from {
				t.Errorf("%q to %q: %v, %v", from, to, k, err)
			}
			if err != nil && !errors.Is(err, ErrKeyState) {
				t.Errorf("%q to %q: %v", from, to, err)
			}
		}
	}
}

func TestKeyState_overlapsForThirtyDays(t *testing.T) {
	k := IssuerKey{State: KeyDeprecated, Since: now}
	if _, err := k.To(KeyRetired, now.Add(Overlap-time.Second)); !errors.Is(err, ErrKeyState) {
		t.Errorf("too early: %v", err)
	}
	if _, err := k.To(KeyRetired, now.Add(Overlap)); err != nil {
		t.Error(err)
	}
}

func TestPublish_listsWhatVerifiesAndWhatIsRevoked(t *testing.T) {
	keys := []IssuerKey{
		{Key: testKey("pending", 1), State: KeyPending},
		{Key: testKey("active", 2), State: KeyActive},
		{Key: testKey("deprecated", 3), State: KeyDeprecated},
		{Key: testKey("retired", 4), State: KeyRetired},
		{Key: testKey("revoked", 5), State: KeyRevoked, Since: now, Reason: RevokedKeyCompromise},
	}
	set, revoked := Publish(keys)
	if diff := cmp.Diff(KeySet{keys[1].Key, keys[2].Key}, set); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]RevokedKey{{"revoked", now, RevokedKeyCompromise}}, revoked); diff != "" {
		t.Error(diff)
	}
	for i := range MaxRevoked + 1 {
		keys = append(keys, IssuerKey{Key: Key{ID: fmt.Sprint(i)}, State: KeyRevoked, Since: now.Add(time.Duration(i+1) * time.Hour)})
	}
	_, revoked = Publish(keys)
	if len(revoked) != MaxRevoked || revoked[0].KeyID != "100" || revoked[MaxRevoked-1].KeyID != "1" {
		t.Errorf("the newest are %v", revoked)
	}
}

func TestHistory_refusesANameForAnotherKey(t *testing.T) {
	h := History{}
	if err := h.Observe(KeySet{testKey("a", 1)}, now); err != nil {
		t.Fatal(err)
	}
	wantCode(t, h.Observe(KeySet{testKey("new", 3), testKey("a", 2)}, now.Add(Overlap)), receipt.CodeKidReuse)
	if _, remembered := h["new"]; remembered {
		t.Error("a refused set is remembered")
	}
	if err := h.Observe(nil, now.Add(Overlap)); err != nil {
		t.Error(err)
	}
	wantCode(t, h.Observe(KeySet{testKey("a", 2)}, now.Add(Overlap)), receipt.CodeKidReuse)
	if err := h.Observe(KeySet{testKey("a", 2)}, now.Add(Overlap+time.Second)); err != nil {
		t.Errorf("after the time it is remembered: %v", err)
	}
	wantCode(t, h.Observe(KeySet{testKey("a", 1)}, now.Add(Overlap+time.Second)), receipt.CodeKidReuse)
}

func TestHistory_survivesBeingStored(t *testing.T) {
	h := History{}
	if err := h.Observe(KeySet{testKey("a", 1)}, now); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back History
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	wantCode(t, back.Observe(KeySet{testKey("a", 2)}, now), receipt.CodeKidReuse)
}

func TestHistory_isBoundedAndForgetsTheOldest(t *testing.T) {
	h := History{}
	for i := range maxHistory + 1 {
		if err := h.Observe(KeySet{{ID: fmt.Sprint(i), Public: testKey("", 1).Public}}, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	_, oldest := h["0"]
	_, second := h["1"]
	if len(h) != maxHistory || oldest || !second {
		t.Errorf("%d remembered, the oldest %v, the next %v", len(h), oldest, second)
	}
}

func FuzzKeySet(f *testing.F) {
	f.Add(jwks(jwk(testKey("a", 1), `,"use":"sig"`), `{"kty":"EC"}`))
	f.Add(jwks(jwk(testKey("a", 1), ""), jwk(testKey("a", 2), "")))
	f.Add([]byte(`{"keys":[{"kty":"OKP","d":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := ParseKeySet(data)
		if err != nil {
			if receipt.CodeOf(err) == "" || set != nil {
				t.Fatalf("%v, %v", set, err)
			}
			return
		}
		written, err := set.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ParseKeySet(written)
		if diff := cmp.Diff(set, again); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		if err := (History{}).Observe(set, now); err != nil {
			t.Fatal(err)
		}
	})
}
