package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleykit/parley/protocol/receipt"
)

const (
	origin  = "https://api.example"
	jwksURI = "https://api.example/keys"
)

func TestIssuer_publishedDocumentsGetTheirVerdict(t *testing.T) {
	cases := publishedCases(t)
	for _, c := range append(cases["valid"], cases["invalid"]...) {
		if len(c.document()) == 0 {
			continue // a case of an iss alone
		}
		want := c.Expected.Valid
		if want == nil {
			want = c.Expected.ValidParse
		}
		i, err := ParseIssuer(c.document())
		if *want != (err == nil) || err != nil && receipt.CodeOf(err) != receipt.CodeVerifyIssuerConfigInvalid {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if c.Expected.Algorithms != nil {
			if diff := cmp.Diff(c.Expected.Algorithms, i.Algorithms); diff != "" {
				t.Errorf("%s: %s", c.ID, diff)
			}
		}
		if err != nil {
			continue
		}
		iss := c.Context.Iss
		if iss == "" {
			iss = i.Issuer
		}
		_, err = i.Resolve(iss)
		wantCode(t, err, c.Expected.Code)
	}
}

func TestIssuerURL_publishedIssuersLeadToOneDocument(t *testing.T) {
	cases := publishedCases(t)
	for _, c := range append(cases["resolution"], cases["invalid"]...) {
		for _, iss := range []string{c.Context.Iss, c.Context.Iss1, c.Context.Iss2} {
			if iss == "" || c.Expected.Origin == "" && len(c.document()) > 0 {
				continue
			}
			got, err := IssuerURL(iss)
			switch {
			case c.Expected.Origin != "" && (err != nil || got != c.Expected.Origin+IssuerPath):
				t.Errorf("%s: %s, %v", c.ID, got, err)
			case c.Expected.ConfigURL != "" && got != c.Expected.ConfigURL:
				t.Errorf("%s: %s", c.ID, got)
			case c.ID == "issuer-err-009":
				wantCode(t, err, c.Expected.Code)
			}
		}
	}
}

func minimal(extra string) string {
	return `{"version":"peac-issuer/0.1","issuer":"` + origin + `","jwks_uri":"` + jwksURI + `"` + extra + `}`
}

func TestParseIssuer_fillsInWhatIsMeant(t *testing.T) {
	got, err := ParseIssuer([]byte(minimal(`,"keys":[{"kty":"OKP"}],"later":{"a":[1]}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Issuer{
		Version: IssuerVersion, Issuer: origin, JWKSURI: jwksURI,
		ReceiptVersions: []string{"interaction-record+jwt"}, Algorithms: []string{"EdDSA"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseIssuer([]byte(strings.Replace(minimal(""), "/0.1", "/0.2", 1))); err != nil {
		t.Errorf("a later minor version: %v", err)
	}
}

func TestParseIssuer_refusesAndSaysWhere(t *testing.T) {
	revoked := func(entry string) string { return minimal(`,"revoked_keys":[` + entry + `]`) }
	for name, c := range map[string]struct{ document, pointer string }{
		"nothing":             {``, ""},
		"an array":            {`[]`, ""},
		"a trailing comma":    {minimal(`,`), ""},
		"a name twice":        {minimal(`,"issuer":"https://b.example"`), ""},
		"a number doubled":    {minimal(`,"later":9007199254740993`), ""},
		"a noncharacter":      {minimal(`,"later":"\uffff"`), ""},
		"another major":       {strings.Replace(minimal(""), "/0.1", "/1.0", 1), "/version"},
		"a bare number":       {strings.Replace(minimal(""), "peac-issuer/0.1", "1", 1), "/version"},
		"a signed minor":      {strings.Replace(minimal(""), "/0.1", "/0.+1", 1), "/version"},
		"another document":    {strings.Replace(minimal(""), "peac-issuer", "peac-policy", 1), "/version"},
		"version a number":    {strings.Replace(minimal(""), `"peac-issuer/0.1"`, `0.1`, 1), "/version"},
		"empty key set URL":   {strings.Replace(minimal(""), jwksURI, ``, 1), "/jwks_uri"},
		"issuer with user":    {strings.Replace(minimal(""), origin, `https://a@api.example`, 1), "/issuer"},
		"issuer a DID":        {strings.Replace(minimal(""), origin, `did:key:z6Mk`, 1), "/issuer"},
		"null list":           {minimal(`,"algorithms":null`), "/algorithms"},
		"list of numbers":     {minimal(`,"payment_rails":[1]`), "/payment_rails"},
		"endpoint with user":  {minimal(`,"verify_endpoint":"https://a@api.example"`), "/verify_endpoint"},
		"too deep":            {minimal(`,"later":[[[[]]]]`), "/later/0/0/0"},
		"text too long":       {minimal(`,"later":"` + long(4097) + `"`), "/later"},
		"too large":           {minimal(`,"later":"` + long(MaxIssuer) + `"`), ""},
		"too many revoked":    {revoked(strings.TrimSuffix(strings.Repeat(`{"kid":"a","revoked_at":"2026-01-01T00:00:00Z"},`, MaxRevoked+1), ",")), "/revoked_keys"},
		"revoked no object":   {revoked(`"a"`), "/revoked_keys"},
		"revoked without kid": {revoked(`{"revoked_at":"2026-01-01T00:00:00Z"}`), "/revoked_keys/0/kid"},
		"kid too long":        {revoked(`{"kid":"` + long(257) + `","revoked_at":"2026-01-01T00:00:00Z"}`), "/revoked_keys/0/kid"},
		"revoked at no time":  {revoked(`{"kid":"a","revoked_at":"2026-01-01"}`), "/revoked_keys/0/revoked_at"},
		"no such reason":      {revoked(`{"kid":"a","revoked_at":"2026-01-01T00:00:00Z","reason":"because"}`), "/revoked_keys/0/reason"},
	} {
		_, err := ParseIssuer([]byte(c.document))
		refusal, ok := err.(*receipt.Error)
		if !ok || refusal.Code != receipt.CodeVerifyIssuerConfigInvalid || refusal.Pointer != c.pointer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolve_comparesByCanonicalOrigin(t *testing.T) {
	i, err := ParseIssuer([]byte(minimal("")))
	if err != nil {
		t.Fatal(err)
	}
	for iss, code := range map[string]receipt.Code{
		origin:                      "",
		"https://API.example:443/":  "",
		"https://api.example/v1?a":  "",
		"https://api.example:8443":  receipt.CodeVerifyIssuerMismatch,
		"https://api.example.com":   receipt.CodeVerifyIssuerMismatch,
		"https://b.api.example":     receipt.CodeVerifyIssuerMismatch,
		"http://api.example":        receipt.CodeVerifyInsecureScheme,
		"https://a@api.example":     receipt.CodeVerifyInsecureScheme,
		"https://api.example:0443":  receipt.CodeVerifyInsecureScheme,
		"https://api.example:":      receipt.CodeVerifyInsecureScheme,
		"https://":                  receipt.CodeVerifyInsecureScheme,
		"did:key:z6Mk":              receipt.CodeVerifyInsecureScheme,
		"https://0x7f.1":            receipt.CodeVerifyInsecureScheme,
		"https://api.ex%61mple":     receipt.CodeVerifyInsecureScheme,
		"https://\u212Aapi.example": receipt.CodeVerifyInsecureScheme,
		"https://" + long(2048):     receipt.CodeVerifyInsecureScheme,
	} {
		uri, err := i.Resolve(iss)
		wantCode(t, err, code)
		if (err == nil) != (uri == jwksURI) {
			t.Errorf("%s: %q, %v", iss, uri, err)
		}
	}
}

func TestCheckRevoked_refusesARevokedKeyWhateverItsTime(t *testing.T) {
	i := &Issuer{RevokedKeys: []RevokedKey{{KeyID: "old", RevokedAt: now}}}
	wantCode(t, i.CheckRevoked("old"), receipt.CodeRevokedKey)
	for _, kid := range []string{"new", "", "OLD"} {
		if err := i.CheckRevoked(kid); err != nil {
			t.Errorf("%q: %v", kid, err)
		}
	}
}

func TestIssuer_Encode_writesOnlyWhatAReaderTakes(t *testing.T) {
	want := &Issuer{
		Version: IssuerVersion, Issuer: origin, JWKSURI: jwksURI, VerifyEndpoint: origin + "/verify",
		ReceiptVersions: []string{"interaction-record+jwt"}, Algorithms: []string{"EdDSA"},
		PaymentRails: []string{"x402"}, SecurityContact: "security@api.example",
		RevokedKeys: []RevokedKey{{KeyID: "old", RevokedAt: now, Reason: RevokedSuperseded}},
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseIssuer(data)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, change := range map[string]func(*Issuer){
		"no version":       func(i *Issuer) { i.Version = "" },
		"issuer with path": func(i *Issuer) { i.Issuer += "/" },
		"issuer with port": func(i *Issuer) { i.Issuer += ":443" },
		"keys without TLS": func(i *Issuer) { i.JWKSURI = "http://api.example/keys" },
		"too many revoked": func(i *Issuer) { i.RevokedKeys = make([]RevokedKey, MaxRevoked+1) },
		"no UTF-8":         func(i *Issuer) { i.SecurityContact = "\xff" },
	} {
		i := *want
		change(&i)
		if data, err := i.Encode(); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}

func FuzzIssuer(f *testing.F) {
	f.Add([]byte(minimal("")), origin)
	f.Add([]byte(minimal(`,"revoked_keys":[{"kid":"a","revoked_at":"2026-01-01T00:00:00+02:00","reason":"superseded"}]`)), origin+":443/x")
	f.Add([]byte(`{"version":"peac-issuer/0.1","issuer":"https://[::1]:8443","jwks_uri":"https://a.example/?b"}`), "https://[::1]:8443")
	f.Fuzz(func(t *testing.T, data []byte, iss string) {
		i, err := ParseIssuer(data)
		if err != nil {
			if receipt.CodeOf(err) == "" || len(err.Error()) > 1000 {
				t.Fatalf("a refusal without code, or too long: %v", err)
			}
			return
		}
		uri, err := i.Resolve(iss)
		if err != nil {
			return
		}
		if !receipt.IsHTTPS(uri) {
			t.Fatalf("%q is not https", uri)
		}
		i.Issuer, _ = receipt.CanonicalOrigin(iss)
		written, err := i.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ParseIssuer(written)
		if diff := cmp.Diff(i, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	})
}

func ExampleIssuer_Resolve() {
	document, err := (&Issuer{Version: IssuerVersion, Issuer: "https://parley.example", JWKSURI: "https://parley.example/keys.json"}).Encode()
	if err != nil {
		panic(err)
	}
	issuer, err := ParseIssuer(document)
	if err != nil {
		panic(err)
	}
	fmt.Println(issuer.Resolve("https://parley.example/any/path"))
	_, err = issuer.Resolve("https://other.example")
	fmt.Println(receipt.CodeOf(err))
	// Output:
	// https://parley.example/keys.json <nil>
	// E_VERIFY_ISSUER_MISMATCH
}
