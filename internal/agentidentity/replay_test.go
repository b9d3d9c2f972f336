package agentidentity

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

var signingMethods = []Method{MessageSignature, DPoP, JWKThumbprint}

func TestProofCountsOnceForAsLongAsItIsFresh(t *testing.T) {
	for _, method := range signingMethods {
		b := newBench(t, nil)
		b.clock.move(DefaultSkew) // made by a clock that is ahead
		req := b.signed(t, method, "body")
		b.clock.move(-DefaultSkew)
		b.refused(t, string(method), wire(t, req), "")
		for range 34 {
			b.refused(t, string(method)+" again", wire(t, req), receipt.CodeIdentityBindingStale)
			b.refused(t, string(method)+" anew", wire(t, b.signed(t, method, "body")), "")
			b.clock.move(10 * time.Second)
		}
	}
}

func TestWindowsEndWhereTheySay(t *testing.T) {
	for _, method := range signingMethods {
		for _, c := range []struct {
			age, maxAge, skew time.Duration
			want              receipt.Code
		}{
			{300 * time.Second, 0, 0, ""},
			{301 * time.Second, 0, 0, receipt.CodeIdentityBindingStale},
			{-30 * time.Second, 0, 0, ""},
			{-31 * time.Second, 0, 0, receipt.CodeIdentityBindingFuture},
			{60 * time.Second, 60 * time.Second, NoSkew, ""},
			{61 * time.Second, 60 * time.Second, NoSkew, receipt.CodeIdentityBindingStale},
			{-time.Second, 60 * time.Second, NoSkew, receipt.CodeIdentityBindingFuture},
			{-300 * time.Second, 0, 300 * time.Second, ""},
			{0, 0, -time.Hour, ""},
		} {
			b := newBench(t, func(o *Options) { o.MaxAge, o.Skew = c.maxAge, c.skew })
			req := b.signed(t, method, "body")
			// The attestation has a time of its own; a bare proof has none.
			if method != JWKThumbprint {
				req = bare(t, b, method)
			} else if c.age < 0 {
				attestation(t, req, func(a *Attestation) { a.IssuedAt = "2020-01-01T00:00:00Z" })
			}
			b.clock.move(c.age)
			b.refused(t, fmt.Sprintf("%s %v", method, c), wire(t, req), c.want)
		}
	}
}

func TestMemoryIsBoundedByKeyAndInAll(t *testing.T) {
	m := newMemory(time.Minute)
	m.limit, m.limitOf = 5, 3
	use := func(key string, proof int, at time.Duration) receipt.Code {
		return receipt.CodeOf(m.use(key, fmt.Sprint(proof), start.Add(at)))
	}
	full := receipt.CodeIdentityDirectoryUnavailable
	for i, want := range []receipt.Code{"", "", "", full, full} {
		if got := use("a", i, 0); got != want {
			t.Errorf("proof %d of a: %q", i, got)
		}
	}
	for i, want := range []receipt.Code{"", "", full} {
		if got := use("b", i, time.Second); got != want {
			t.Errorf("proof %d of b: %q", i, got)
		}
	}
	// A window later the first are remembered and there is room; after two
	// windows they are forgotten.
	for _, c := range []struct {
		proof int
		at    time.Duration
		want  receipt.Code
	}{
		{0, 59 * time.Second, receipt.CodeIdentityBindingStale},
		{0, time.Minute, receipt.CodeIdentityBindingStale},
		{3, time.Minute, ""},
		{3, 119 * time.Second, receipt.CodeIdentityBindingStale},
		{3, 2 * time.Minute, receipt.CodeIdentityBindingStale},
		{0, 2 * time.Minute, ""},
		{3, 4 * time.Minute, ""},
		{0, 4 * time.Minute, ""},
	} {
		if got := use("a", c.proof, c.at); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
		if n := len(m.current.used) + len(m.previous.used); n > 2*m.limit {
			t.Errorf("%d proofs are remembered", n)
		}
	}
}

func TestNonceOfASignatureCountsOnceForAnyRequest(t *testing.T) {
	b := newBench(t, nil)
	for i, want := range []receipt.Code{"", receipt.CodeIdentityBindingStale} {
		path := fmt.Sprint("/", i)
		req, err := http.NewRequest(http.MethodGet, benchOrigin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		signBare(t, b, req, "", []string{"@method", "@target-uri"}, func(s *signature) { s.input.Params.Add("nonce", "same") })
		b.refused(t, path, wire(t, req), want)
	}
}

func TestStrangersLeaveNothingInMemory(t *testing.T) {
	b := newBench(t, nil)
	stranger := newKeyring(t, "bot:alice")
	for _, method := range signingMethods {
		req := post(t, benchOrigin, "body")
		if err := stranger.client(b.clock, "-ed").Sign(req, method); err != nil {
			t.Fatal(err)
		}
		want := receipt.CodeIdentityKeyUnknown
		if method == MessageSignature { // its key is named by an id that is known
			want = receipt.CodeIdentitySignatureInvalid
		}
		b.refused(t, string(method), wire(t, req), want)
	}
	if n := len(b.used.current.used); n != 0 {
		t.Errorf("%d proofs are remembered", n)
	}
}
