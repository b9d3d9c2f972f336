package agentidentity

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parleykit/parley/protocol/receipt"
)

// dpop makes a proof of alice's Ed25519 key after change spoiled it.
func dpop(t testing.TB, b *bench, change func(header, claims map[string]any)) string {
	t.Helper()
	key, err := jwk(b.ring.ed.Public())
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]any{}
	for name, value := range key {
		members[name] = value
	}
	header := map[string]any{"typ": dpopType, "alg": "EdDSA", "jwk": members}
	claims := map[string]any{
		"jti": "1", "htm": "POST", "htu": benchOrigin + "/rooms/a%2Fb", "iat": b.clock.now().Unix(),
	}
	if change != nil {
		change(header, claims)
	}
	return sealed(t, b, encoded(t, header), encoded(t, claims))
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sealed is a JWT of these very bytes.
func sealed(t testing.TB, b *bench, header, claims []byte) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	signature, err := jwt.SigningMethodEdDSA.Sign(text, b.ring.ed)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestDPoPProofThatBreaksARuleIsRefused(t *testing.T) {
	mismatch, malformed := receipt.CodeIdentityBindingMismatch, receipt.CodeIdentityInvalidFormat
	unsupported, unknown := receipt.CodeIdentityProofUnsupported, receipt.CodeIdentityKeyUnknown
	header := func(name string, value any) func(h, c map[string]any) {
		return func(h, _ map[string]any) { h[name] = value }
	}
	claim := func(name string, value any) func(h, c map[string]any) {
		return func(_, c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	key := func(name string, value any) func(h, c map[string]any) {
		return func(h, _ map[string]any) { h["jwk"].(map[string]any)[name] = value }
	}
	for name, c := range map[string]struct {
		change func(header, claims map[string]any)
		want   receipt.Code
	}{
		"unchanged":             {nil, ""},
		"key with a kid":        {key("kid", "x"), ""},
		"url in other spelling": {claim("htu", "HTTPS://VENUE.example:443/rooms/a%2Fb"), ""},
		"url with query":        {claim("htu", benchOrigin+"/rooms/a%2Fb?other#part"), ""},
		"type":                  {header("typ", "JWT"), malformed},
		"no type":               {header("typ", nil), malformed},
		"critical":              {header("crit", []string{"x"}), malformed},
		"no algorithm":          {header("alg", nil), unsupported},
		"none":                  {header("alg", "none"), unsupported},
		"hmac":                  {header("alg", "HS256"), unsupported},
		"rsa":                   {header("alg", "RS256"), unsupported},
		"other algorithm":       {header("alg", "ES256"), receipt.CodeIdentitySignatureInvalid},
		"no key":                {header("jwk", nil), malformed},
		"key is a text":         {header("jwk", "x"), malformed},
		"private key":           {key("d", "AA"), malformed},
		"kind of key":           {key("kty", "oct"), malformed},
		"coordinate missing":    {key("kty", "EC"), malformed},
		"coordinate a number":   {key("x", 1), malformed},
		"other key":             {key("x", strings.Repeat("A", 43)), unknown},
		"no id":                 {claim("jti", nil), malformed},
		"empty id":              {claim("jti", ""), malformed},
		"long id":               {claim("jti", strings.Repeat("x", 257)), malformed},
		"id is a number":        {claim("jti", 1), malformed},
		"no method":             {claim("htm", nil), malformed},
		"other method":          {claim("htm", "GET"), mismatch},
		"method in case":        {claim("htm", "post"), mismatch},
		"no url":                {claim("htu", nil), malformed},
		"long url":              {claim("htu", benchOrigin+"/"+strings.Repeat("x", maxURL)), malformed},
		"other host":            {claim("htu", "https://other.example/rooms/a%2Fb"), mismatch},
		"other scheme":          {claim("htu", "http://venue.example/rooms/a%2Fb"), mismatch},
		"other port":            {claim("htu", "https://venue.example:444/rooms/a%2Fb"), mismatch},
		"other path":            {claim("htu", benchOrigin+"/rooms/a/b"), mismatch},
		"no path":               {claim("htu", benchOrigin), mismatch},
		"user":                  {claim("htu", "https://x@venue.example/rooms/a%2Fb"), mismatch},
		"not a url":             {claim("htu", "%"), mismatch},
		"no time":               {claim("iat", nil), malformed},
		"time is a text":        {claim("iat", "1"), malformed},
		"far future":            {claim("iat", 9e15), receipt.CodeIdentityBindingFuture},
		"before all time":       {claim("iat", -9e15), receipt.CodeIdentityBindingStale},
		"hash of no token":      {claim("ath", "x"), mismatch},
		"hash is a number":      {claim("ath", 1), malformed},
	} {
		b := newBench(t, nil)
		req := post(t, benchOrigin, "body")
		req.Header.Set("DPoP", dpop(t, b, c.change))
		b.refused(t, name, wire(t, req), c.want)
	}
}

func TestDPoPTextThatIsNoProofIsRefused(t *testing.T) {
	b := newBench(t, nil)
	good := dpop(t, b, nil)
	parts := strings.Split(good, ".")
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", 86)
	doubled := sealed(t, b, fromBase64(t, parts[0]), []byte(`{"jti":"1","jti":"2","htm":"POST","htu":"https://venue.example/rooms/a%2Fb","iat":1800000000}`))
	folded := sealed(t, b, fromBase64(t, parts[0]), []byte(`{"JTI":"1","htm":"POST","htu":"https://venue.example/rooms/a%2Fb","iat":1800000000}`))
	malformed := receipt.CodeIdentityInvalidFormat
	for name, c := range map[string]struct {
		values []string
		want   receipt.Code
	}{
		"empty":          {[]string{""}, malformed},
		"two headers":    {[]string{good, good}, malformed},
		"two parts":      {[]string{parts[0] + "." + parts[1]}, malformed},
		"four parts":     {[]string{good + "."}, malformed},
		"not base64":     {[]string{"!." + parts[1] + "." + parts[2]}, malformed},
		"not JSON":       {[]string{"AAAA." + parts[1] + "." + parts[2]}, malformed},
		"a JSON list":    {[]string{"W10." + parts[1] + "." + parts[2]}, malformed},
		"claims a list":  {[]string{parts[0] + ".W10." + parts[2]}, malformed},
		"null":           {[]string{"bnVsbA.bnVsbA.AA"}, malformed},
		"padded":         {[]string{parts[0] + "." + parts[1] + "." + parts[2] + "=="}, malformed},
		"oversized":      {[]string{strings.Repeat("A", maxHeader+1)}, malformed},
		"name twice":     {[]string{doubled}, malformed},
		"name in case":   {[]string{folded}, malformed},
		"forged":         {[]string{forged}, receipt.CodeIdentitySignatureInvalid},
		"no signature":   {[]string{parts[0] + "." + parts[1] + "."}, receipt.CodeIdentitySignatureInvalid},
		"whole and good": {[]string{good}, ""},
	} {
		req := post(t, benchOrigin, "body")
		req.Header["Dpop"] = c.values
		r := wire(t, req)
		r.Header["Dpop"] = c.values // writing drops what no header may hold
		b.refused(t, name, r, c.want)
	}
}

func TestDPoPProofIsOfTheAccessToken(t *testing.T) {
	for name, c := range map[string]struct {
		signed, sent string
		want         receipt.Code
	}{
		"same":        {"DPoP abc", "DPoP abc", ""},
		"scheme":      {"DPoP abc", "dpop abc", ""},
		"other":       {"DPoP abc", "DPoP abd", receipt.CodeIdentityBindingMismatch},
		"removed":     {"DPoP abc", "", receipt.CodeIdentityBindingMismatch},
		"added":       {"", "DPoP abc", receipt.CodeIdentityBindingMismatch},
		"other kind":  {"DPoP abc", "Bearer abc", receipt.CodeIdentityBindingMismatch},
		"not of DPoP": {"Bearer abc", "Bearer abd", ""},
	} {
		b := newBench(t, nil)
		req := post(t, benchOrigin, "body")
		req.Header.Set("Authorization", c.signed)
		if err := b.ring.client(b.clock, "-ec").Sign(req, DPoP); err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", c.sent)
		b.refused(t, name, wire(t, req), c.want)
	}
}

func TestDPoPProofAndAttestationBelongTogether(t *testing.T) {
	move := func(a *Attestation, r *http.Request) { a.Evidence.Proof.DPoP = r.Header.Get("DPoP") }
	drop := func(_ *Attestation, r *http.Request) { r.Header.Del("DPoP") }
	for name, c := range map[string]struct {
		change []func(*Attestation, *http.Request)
		want   receipt.Code
	}{
		"in both":     {[]func(*Attestation, *http.Request){move}, ""},
		"inside":      {[]func(*Attestation, *http.Request){move, drop}, ""},
		"nowhere":     {[]func(*Attestation, *http.Request){drop}, receipt.CodeIdentityMissing},
		"two":         {[]func(*Attestation, *http.Request){func(a *Attestation, _ *http.Request) { a.Evidence.Proof.DPoP = "x" }}, receipt.CodeIdentityBindingMismatch},
		"other key":   {[]func(*Attestation, *http.Request){func(a *Attestation, _ *http.Request) { a.Evidence.Proof.KeyID = "x" }}, receipt.CodeIdentityBindingMismatch},
		"other agent": {[]func(*Attestation, *http.Request){func(a *Attestation, _ *http.Request) { a.Evidence.AgentID = "bot:bob" }}, receipt.CodeIdentityKeyUnknown},
		"by thumbprint": {[]func(*Attestation, *http.Request){func(a *Attestation, r *http.Request) {
			proof, _ := parseDPoP(r.Header.Get("DPoP"))
			a.Evidence.Proof.KeyID = proof.thumbprint
		}}, ""},
	} {
		b := newBench(t, nil)
		req := b.signed(t, DPoP, "body")
		for _, change := range c.change {
			attestation(t, req, func(a *Attestation) { change(a, req) })
		}
		b.refused(t, name, wire(t, req), c.want)
	}
}

func TestDPoPProofOfAnotherKeyThanTheDirectorysIsRefused(t *testing.T) {
	bob := newKeyring(t, "bot:bob")
	b := newBench(t, change(func(k *Key) { k.Public = bob.ed.Public() })) // a directory that errs
	b.refused(t, "key", wire(t, b.signed(t, DPoP, "")), receipt.CodeIdentitySignatureInvalid)
	b = newBench(t, change(func(k *Key) { k.NotBefore = start.Add(time.Second) }))
	b.refused(t, "pending", wire(t, b.signed(t, DPoP, "")), receipt.CodeIdentityKeyUnknown)
}
