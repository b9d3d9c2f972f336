package receipt

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"
)

// claimsOfSize is a record whose receipt has about size bytes: notes in an
// extension as far as it may be filled, and the rest in the subject and in
// what else has room.
func claimsOfSize(t testing.TB, size int) *Claims {
	t.Helper()
	c := testClaims()
	notes := []any{}
	c.Extensions["org.example/notes"] = map[string]any{"notes": notes}
	base := len(mustIssue(t, c))
	for room := (size - base) * 3 / 4; room > 16; room -= 512 {
		notes = append(notes, strings.Repeat("n", min(room, 512)-3))
	}
	c.Extensions["org.example/notes"] = map[string]any{"notes": notes}
	return c
}

// sizes of the receipts that are measured. The last is the largest one that
// the limit of the extensions, 64 KiB, leaves room for.
var benchSizes = []int{1 << 10, 16 << 10, 85 << 10}

// BenchmarkVerify reports how fast Verify is beside the bare signature over
// the same bytes in the same run: 1 would be no cost at all beside it.
func BenchmarkVerify(b *testing.B) {
	for _, size := range benchSizes {
		jws := mustIssue(b, claimsOfSize(b, size))
		message, encoded, _ := cutLast(jws)
		signature, _ := decodeBase64(encoded)
		opts := testOptions()
		b.Run(fmt.Sprintf("%dB", len(jws)), func(b *testing.B) {
			b.SetBytes(int64(len(jws)))
			b.ReportAllocs()
			compare(b,
				func() bool { _, err := Verify(jws, testKey, opts); return err == nil },
				func() bool { return ed25519.Verify(testKey, []byte(message), signature) },
			)
		})
	}
}

// BenchmarkIssue is BenchmarkVerify for Issue and the bare signing.
func BenchmarkIssue(b *testing.B) {
	for _, size := range benchSizes {
		claims := claimsOfSize(b, size)
		jws := mustIssue(b, claims)
		message, _, _ := cutLast(jws)
		b.Run(fmt.Sprintf("%dB", len(jws)), func(b *testing.B) {
			b.SetBytes(int64(len(jws)))
			b.ReportAllocs()
			compare(b,
				func() bool { _, err := Issue(claims, "key-1", testSign); return err == nil },
				func() bool { return len(ed25519.Sign(testSecret, []byte(message))) > 0 },
			)
		})
	}
}

// compare runs the work in turn with the bare cryptography, so that both meet
// the same machine, and reports the latter's share of the former's time. Only
// the work is on the benchmark's own clock.
func compare(b *testing.B, work, bare func() bool) {
	b.Helper()
	var bareTime time.Duration
	for b.Loop() {
		if !work() {
			b.Fatal("refused")
		}
		b.StopTimer()
		start := time.Now()
		if !bare() {
			b.Fatal("refused")
		}
		bareTime += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(bareTime)/float64(b.Elapsed()), "of-bare")
}

func cutLast(jws string) (message, signature string, found bool) {
	dot := strings.LastIndexByte(jws, '.')
	return jws[:dot], jws[dot+1:], true
}
