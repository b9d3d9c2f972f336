package discovery

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/receipt"
)

const conditional = `# what this is
---
version: "peac-policy/0.1"
usage: conditional
purposes: [inference, 'cf:ai-x', "index"]   # three
receipts: required
attribution: none
rate_limit: 100/hour
daily_limit: 1000
negotiate: https://api.example/negotiate#x
contact: api@api.example
license: Apache-2.0
price: 1.5e1
currency: USD
payment_methods:
- x402
-   stripe # by card
payment_endpoint: https://api.example/pay
later:
    deep:
        deeper: [1, -0.5, true, ~]
    "a b": 'it''s'
`

// asJSON is the document above, without the fragment that no URL may have.
const asJSON = `{"version":"peac-policy/0.1","usage":"conditional","purposes":["inference","cf:ai-x","index"],
"receipts":"required","attribution":"none","rate_limit":"100/hour","daily_limit":1000,
"negotiate":"https://api.example/negotiate","contact":"api@api.example","license":"Apache-2.0","price":15,
"currency":"USD","payment_methods":["x402","stripe"],"payment_endpoint":"https://api.example/pay",
"later":{"deep":{"deeper":[1,-0.5,true,null]},"a b":"it's"}}`

func withoutFragment() string { return strings.Replace(conditional, "#x", "", 1) }

func wantPolicy() *Policy {
	daily, price := int64(1000), 15.0
	return &Policy{
		Version: PolicyVersion, Usage: UsageConditional, Purposes: []string{"inference", "cf:ai-x", "index"},
		Receipts: Required, Attribution: None, RateLimit: "100/hour", DailyLimit: &daily,
		Negotiate: "https://api.example/negotiate", Contact: "api@api.example", License: "Apache-2.0",
		Price: &price, Currency: "USD", PaymentMethods: []string{"x402", "stripe"},
		PaymentEndpoint: "https://api.example/pay",
	}
}

func TestParsePolicy_readsYAMLAndJSONAsOneDocument(t *testing.T) {
	digest, err := receipt.PolicyDigest([]byte(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	want := wantPolicy()
	want.Digest = digest
	for name, c := range map[string]struct{ document, contentType string }{
		"YAML":              {withoutFragment(), "text/plain; charset=utf-8"},
		"YAML untold":       {withoutFragment(), ""},
		"YAML by CRLF":      {strings.ReplaceAll(withoutFragment(), "\n", "\r\n"), ""},
		"YAML, no last end": {strings.TrimSuffix(withoutFragment(), "\n"), ""},
		"JSON":              {asJSON, "Application/JSON; charset=utf-8"},
		"JSON untold":       {" \r\n\t" + asJSON, "text/plain"},
	} {
		got, err := ParsePolicy([]byte(c.document), c.contentType)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestParsePolicy_digestChangesWithEveryField(t *testing.T) {
	base, err := ParsePolicy([]byte("version: peac-policy/0.1\nusage: open\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"later: 1", "license: MIT", "purposes: []", "nothing:"} {
		other, err := ParsePolicy([]byte("usage: open\nversion: 'peac-policy/0.1'\n"+more), "")
		if err != nil || other.Digest == base.Digest {
			t.Errorf("%s: %v", more, err)
		}
	}
	same, err := ParsePolicy([]byte("usage:   open # the order does not matter\n\nversion: 'peac-policy/0.1'"), "")
	if err != nil || same.Digest != base.Digest {
		t.Errorf("the same policy: %v", err)
	}
}

func TestParsePolicy_refusesFieldsThatMeanNothing(t *testing.T) {
	const head = "version: peac-policy/0.1\nusage: open\n"
	for name, c := range map[string]struct{ document, pointer string }{
		"no version":           {"usage: open", "/version"},
		"no usage":             {"version: peac-policy/0.1", "/usage"},
		"usage unknown":        {"version: peac-policy/0.1\nusage: closed", "/usage"},
		"usage null":           {"version: peac-policy/0.1\nusage:", "/usage"},
		"version a number":     {"version: 0.1\nusage: open", "/version"},
		"another major":        {"version: peac-policy/1.0\nusage: open", "/version"},
		"another document":     {"version: peac-issuer/0.1\nusage: open", "/version"},
		"purposes a text":      {head + "purposes: train", "/purposes"},
		"purposes of numbers":  {head + "purposes: [1]", "/purposes"},
		"purpose undeclared":   {head + "purposes: [undeclared]", "/purposes"},
		"purpose in capitals":  {head + "purposes: [Train]", "/purposes"},
		"receipts unknown":     {head + "receipts: none", "/receipts"},
		"receipts true":        {head + "receipts: true", "/receipts"},
		"attribution unknown":  {head + "attribution: omit", "/attribution"},
		"rate per week":        {head + "rate_limit: 1/week", "/rate_limit"},
		"rate below 0":         {head + "rate_limit: -1/hour", "/rate_limit"},
		"rate with blanks":     {head + "rate_limit: 1 / hour", "/rate_limit"},
		"rate a number":        {head + "rate_limit: 100", "/rate_limit"},
		"daily below 0":        {head + "daily_limit: -1", "/daily_limit"},
		"daily not whole":      {head + "daily_limit: 1.5", "/daily_limit"},
		"daily a text":         {head + "daily_limit: '1'", "/daily_limit"},
		"price below 0":        {head + "price: -0.01", "/price"},
		"price a text":         {head + "price: free", "/price"},
		"currency small":       {head + "currency: usd", "/currency"},
		"currency long":        {head + "currency: USDC", "/currency"},
		"negotiate not https":  {head + "negotiate: http://a.example", "/negotiate"},
		"negotiate with user":  {head + "negotiate: https://a:b@a.example", "/negotiate"},
		"endpoint of a script": {head + "payment_endpoint: 'javascript:alert(1)'", "/payment_endpoint"},
		"methods a map":        {head + "payment_methods:\n  a: b", "/payment_methods"},
		"contact empty":        {head + "contact: ''", "/contact"},
	} {
		got, err := ParsePolicy([]byte(c.document), "")
		refusal, ok := err.(*receipt.Error)
		if !ok || refusal.Code != receipt.CodePolicyInvalid || refusal.Pointer != c.pointer || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParsePolicy_holdsItsLimits(t *testing.T) {
	const head = `{"version":"peac-policy/0.1","usage":"open","x":`
	yaml := func(value string) string { return "version: peac-policy/0.1\nusage: open\nx: " + value }
	for name, c := range map[string]struct {
		fits, exceeds string
		code          receipt.Code
	}{
		"depth":        {head + strings.Repeat("[", 7) + strings.Repeat("]", 7) + "}", head + strings.Repeat("[", 8) + strings.Repeat("]", 8) + "}", receipt.CodePolicyInvalid},
		"depth, maps":  {head + strings.Repeat(`{"a":`, 7) + "1" + strings.Repeat("}", 8), head + strings.Repeat(`{"a":`, 8) + "1" + strings.Repeat("}", 9), receipt.CodePolicyInvalid},
		"depth, YAML":  {yaml(nest(7)), yaml(nest(8)), receipt.CodePolicyInvalid},
		"items":        {head + "[" + strings.Repeat("0,", 999) + "0]}", head + "[" + strings.Repeat("0,", 1000) + "0]}", receipt.CodePolicyInvalid},
		"items, YAML":  {yaml("[" + strings.Repeat("0,", 999) + "0]"), yaml("[" + strings.Repeat("0,", 1000) + "0]"), receipt.CodePolicyInvalid},
		"text":         {head + `"` + long(64<<10) + `"}`, head + `"` + long(64<<10+1) + `"}`, receipt.CodePolicyInvalid},
		"text, YAML":   {yaml(long(64 << 10)), yaml(long(64<<10 + 1)), receipt.CodePolicyInvalid},
		"bytes":        {fill(head+"1}", MaxPolicy), fill(head+"1}", MaxPolicy+1), receipt.CodePolicyTooLarge},
		"bytes, YAML":  {fill(yaml("1"), MaxPolicy), fill(yaml("1"), MaxPolicy+1), receipt.CodePolicyTooLarge},
		"exact number": {yaml("9007199254740991"), yaml("9007199254740992"), receipt.CodePolicyInvalid},
	} {
		if _, err := ParsePolicy([]byte(c.fits), ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ParsePolicy([]byte(c.exceeds), ""); receipt.CodeOf(err) != c.code {
			t.Errorf("%s exceeded: %v", name, err)
		}
	}
}

// nest is so many maps in one another, below a key.
func nest(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "\n%s a:", strings.Repeat(" ", i))
	}
	return out.String() + " 1"
}

func fill(document string, size int) string {
	return document + strings.Repeat("\n", size-len(document))
}

func TestParsePolicy_refusesANameTwiceInJSON(t *testing.T) {
	_, err := ParsePolicy([]byte(`{"version":"peac-policy/0.1","usage":"open","usage":"conditional"}`), "")
	wantCode(t, err, receipt.CodePolicyInvalid)
	_, err = ParsePolicy([]byte("usage: open\nversion: peac-policy/0.1"), "application/json")
	wantCode(t, err, receipt.CodePolicyInvalid)
}

func TestRate_isWhatTheTextSays(t *testing.T) {
	for text, want := range map[string]struct {
		requests int64
		per      time.Duration
	}{
		"": {}, "unlimited": {}, "0/second": {0, time.Second}, "60/minute": {60, time.Minute},
		"100/hour": {100, time.Hour}, "999999999999999/day": {999999999999999, 24 * time.Hour},
	} {
		requests, per, err := (&Policy{RateLimit: text}).Rate()
		if requests != want.requests || per != want.per || err != nil {
			t.Errorf("%q: %d, %v, %v", text, requests, per, err)
		}
	}
}

func TestPolicy_Encode_returnsAsItWas(t *testing.T) {
	text := rapid.StringMatching(`[ -~éß€]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		want := wantPolicy()
		want.Contact = text.Draw(t, "contact")
		want.License = text.Draw(t, "license")
		want.PaymentMethods = slices.DeleteFunc(rapid.SliceOfN(text, 0, 3).Draw(t, "methods"), func(s string) bool { return s == "" })
		want.Receipts = rapid.SampledFrom([]string{"", Required, Optional, Omit}).Draw(t, "receipts")
		if rapid.Bool().Draw(t, "free") {
			want.Price, want.DailyLimit, want.Purposes = nil, nil, nil
		}
		data, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParsePolicy(data, "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		again, err := got.Encode()
		got.Digest = ""
		if diff := cmp.Diff(want, got); diff != "" || err != nil || string(again) != string(data) {
			t.Fatal(diff, err)
		}
	})
}

func TestPolicy_Encode_refusesWhatAReaderWould(t *testing.T) {
	nan, below := math.NaN(), -1.0
	for name, change := range map[string]func(*Policy){
		"no version":     func(p *Policy) { p.Version = "" },
		"no usage":       func(p *Policy) { p.Usage = "" },
		"price NaN":      func(p *Policy) { p.Price = &nan },
		"price below 0":  func(p *Policy) { p.Price = &below },
		"not UTF-8":      func(p *Policy) { p.Contact = "\xff" },
		"a line's end":   func(p *Policy) { p.Contact = "a\u2028b" },
		"too large":      func(p *Policy) { p.Contact = long(MaxPolicy) },
		"no such method": func(p *Policy) { p.PaymentMethods = []string{""} },
	} {
		p := wantPolicy()
		change(p)
		if data, err := p.Encode(); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}

func ExampleParsePolicy() {
	policy, err := ParsePolicy([]byte("version: peac-policy/0.1\nusage: conditional\nrate_limit: 100/hour\n"), "text/plain")
	if err != nil {
		panic(err)
	}
	fmt.Println(policy.Usage)
	fmt.Println(policy.Rate())
	fmt.Println(policy.Digest)
	// Output:
	// conditional
	// 100 1h0m0s <nil>
	// sha256:005ff6a26a7d96d01f822d9399cf07d2e3980d177dbd0184bc7479fefc06e6a3
}
