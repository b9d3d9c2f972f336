package envelope

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// parts seals a long message and opens it into its parts.
func partsOf(t *testing.T, name string) []*Part {
	t.Helper()
	_, parts := openAll(t, mustSeal(t, artifact(t, noise(name, base64url, 100_000))))
	if len(parts) != 4 {
		t.Fatalf("%d parts", len(parts))
	}
	return parts
}

func TestJoin_takes_parts_in_any_order_and_leaves_them_alone(t *testing.T) {
	parts := partsOf(t, "a")
	slices.Reverse(parts)
	for range 2 {
		m, err := Join(parts, alice.PublicKey(), bob.PublicKey(), now)
		if err != nil {
			t.Fatal(err)
		}
		if m.Type != message.TypeAgreementArtifact {
			t.Errorf("got %s", m.Type)
		}
	}
}

func TestJoin_refuses_parts_that_are_not_one_message(t *testing.T) {
	parts, foreign := partsOf(t, "a"), partsOf(t, "b")
	with := func(i int, change func(*Part)) []*Part {
		broken := slices.Clone(parts)
		p := *broken[i]
		change(&p)
		broken[i] = &p
		return broken
	}
	for name, c := range map[string]struct {
		parts []*Part
		want  error
	}{
		"none":                       {nil, ErrParts},
		"one":                        {parts[:1], ErrParts},
		"first missing":              {parts[1:], ErrParts},
		"last missing":               {parts[:3], ErrParts},
		"one twice":                  {append(slices.Clone(parts), parts[1]), ErrParts},
		"one instead of another":     {[]*Part{parts[0], parts[1], parts[1], parts[3]}, ErrParts},
		"one of another message":     {[]*Part{parts[0], foreign[1], parts[2], parts[3]}, ErrParts},
		"one with another's digest":  {with(1, func(p *Part) { p.Digest = foreign[1].Digest }), ErrParts},
		"one of another total":       {with(2, func(p *Part) { p.Total = 5 }), ErrParts},
		"one deflated":               {with(2, func(p *Part) { p.Deflate = true }), ErrParts},
		"another's words":            {with(1, func(p *Part) { p.Slice = foreign[1].Slice }), ErrParts},
		"one letter":                 {with(3, func(p *Part) { p.Slice = p.Slice[:1] + "x" + p.Slice[2:] }), ErrParts},
		"empty":                      {with(1, func(p *Part) { p.Slice = "" }), ErrParts},
		"index 0":                    {with(0, func(p *Part) { p.Index = 0 }), ErrParts},
		"index beyond the total":     {with(3, func(p *Part) { p.Index = 5 }), ErrParts},
		"slice over the event limit": {with(1, func(p *Part) { p.Slice = strings.Repeat("x", EventLimit+1) }), ErrParts},
		"two swapped":                {[]*Part{{1, 4, parts[0].Digest, parts[1].Slice, false}, {2, 4, parts[0].Digest, parts[0].Slice, false}, parts[2], parts[3]}, ErrParts},
		"sixty-five":                 {slices.Repeat([]*Part{{1, 65, digest, "x", false}}, 65), ErrParts},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Join(c.parts, alice.PublicKey(), bob.PublicKey(), now); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestJoin_checks_the_message_like_Open(t *testing.T) {
	parts := partsOf(t, "a")
	for name, c := range map[string]struct {
		sender, me string
		at         time.Time
		want       error
	}{
		"from another sender": {carol.PublicKey(), bob.PublicKey(), now, ErrSender},
		"for another":         {alice.PublicKey(), carol.PublicKey(), now, ErrRecipient},
		"too late":            {alice.PublicKey(), bob.PublicKey(), now.AddDate(0, 0, 2), ErrExpired},
	} {
		if _, err := Join(parts, c.sender, c.me, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// bomb is parts that inflate to n zeros.
func bomb(t *testing.T, n int) []*Part {
	t.Helper()
	var deflated bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range n >> 20 {
		w.Write(zeros)
	}
	w.Close()
	contents := split(base64.StdEncoding.EncodeToString(deflated.Bytes()), maxContent(nil))
	parts := make([]*Part, len(contents))
	for i, content := range contents {
		parts[i] = &Part{Index: i + 1, Total: len(contents), Digest: canonical.Digest(zeros), Slice: content, Deflate: true}
	}
	return parts
}

func TestJoin_stops_inflating_at_the_size_of_a_message(t *testing.T) {
	parts := bomb(t, 32<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Join(parts, alice.PublicKey(), bob.PublicKey(), now)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrInflate) {
		t.Errorf("got %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes allocated on the way", used)
	}
}
