package negentropy_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/negentropy"
)

// event is what a set knows of one.
type event struct {
	at nostr.Timestamp
	id string
}

func randomEvents(rng *rand.Rand, n int) []event {
	events := make([]event, n)
	for i := range events {
		events[i] = event{nostr.Timestamp(rng.IntN(1 + n/2)), fmt.Sprintf("%016x%048x", rng.Uint64(), i)}
	}
	return events
}

func setOf(t tester, events []event) *negentropy.Set {
	t.Helper()
	set := &negentropy.Set{}
	for _, ev := range events {
		if err := set.Add(ev.at, ev.id); err != nil {
			t.Fatal(err)
		}
	}
	set.Seal()
	return set
}

// reconcile runs a whole reconciliation and returns the ids found, sorted, and
// the largest message in bytes before hex.
func reconcile(t tester, client, server *negentropy.Set, size int) (have, need []string, largest int) {
	t.Helper()
	c, s := negentropy.NewClient(client, size), negentropy.NewServer(server, size)
	message := c.Open()
	for round := 0; message != ""; round++ {
		if round > 10_000 {
			t.Fatal("no end")
		}
		answer, err := s.Answer(message)
		if err != nil {
			t.Fatalf("the server refuses %.80s: %v", message, err)
		}
		next, haves, needs, err := c.Reconcile(answer)
		if err != nil {
			t.Fatalf("the client refuses %.80s: %v", answer, err)
		}
		have, need = append(have, haves...), append(need, needs...)
		largest = max(largest, len(answer)/2, len(next)/2)
		message = next
	}
	for _, list := range []*[]string{&have, &need} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return have, need, largest
}

func TestDifferenceOfTwoSetsIsFoundWithinTheSizeOfAMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		all := randomEvents(rng, rapid.IntRange(0, 3000).Draw(t, "events"))
		missing := rapid.IntRange(0, 100).Draw(t, "percent missing")
		var here, there []event
		var have, need []string
		for _, ev := range all {
			left, right := rng.IntN(100) >= missing, rng.IntN(100) >= missing
			if left {
				here = append(here, ev)
			}
			if right {
				there = append(there, ev)
			}
			switch {
			case left && !right:
				have = append(have, ev.id)
			case right && !left:
				need = append(need, ev.id)
			}
		}
		slices.Sort(have)
		slices.Sort(need)
		size := rapid.SampledFrom([]int{0, negentropy.MinMessage, 10_000, 60_000}).Draw(t, "size")
		gotHave, gotNeed, largest := reconcile(t, setOf(t, here), setOf(t, there), size)
		if diff := cmp.Diff(have, gotHave); diff != "" {
			t.Fatalf("only here (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(need, gotNeed); diff != "" {
			t.Fatalf("only there (-want +got):\n%s", diff)
		}
		if most := max(size, negentropy.MinMessage); largest > most {
			t.Fatalf("a message has %d bytes, at most %d are allowed", largest, most)
		}
	})
}

// tester is a testing.TB or *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func TestMessageThatIsNotWellFormedIsRefusedAndChangesNothing(t *testing.T) {
	events := randomEvents(rand.New(rand.NewPCG(1, 1)), 100)
	s := negentropy.NewServer(setOf(t, events), 0)
	for name, message := range map[string]string{
		"nothing":                  "",
		"not hex":                  "6g",
		"half a byte":              "610",
		"half a bound":             "6101",
		"no mode":                  "610000",
		"unknown mode":             "61000003",
		"mode beyond a byte":       "6100008200",
		"half a fingerprint":       "61000001ff",
		"half an id":               "6100000201ff",
		"ids without end":          "6100000290ffffff7f",
		"number without end":       "61" + strings.Repeat("ff", 20),
		"number of 64 bits":        "61000002" + strings.Repeat("ff", 9) + "7f",
		"bound longer than an id":  "610021" + strings.Repeat("00", 33) + "00",
		"time beyond 2^53":         "61" + "ffffffffffffff7f" + "0000",
		"times that add up beyond": "61" + strings.Repeat("8fffffffffffff7f"+"0000", 3),
		"range after the last":     "61000000" + "000000",
	} {
		if answer, err := s.Answer(message); !errors.Is(err, negentropy.ErrMessage) {
			t.Errorf("%s: %q, %v, want it refused", name, answer, err)
		}
		c := negentropy.NewClient(setOf(t, events), 0)
		c.Open()
		if _, _, _, err := c.Reconcile(message); !errors.Is(err, negentropy.ErrMessage) {
			t.Errorf("%s: the client says %v, want it refused", name, err)
		}
	}
	message := negentropy.NewClient(setOf(t, nil), 0).Open()
	if answer, err := s.Answer(message); err != nil || len(answer)/2 < 100*32 {
		t.Errorf("afterwards: %d bytes, %v", len(answer)/2, err)
	}
}

func TestOtherVersionIsAnsweredWithTheOneSpoken(t *testing.T) {
	answer, err := negentropy.NewServer(setOf(t, nil), 0).Answer("7f00")
	if answer != "61" || err != nil {
		t.Errorf("got %q, %v", answer, err)
	}
	c := negentropy.NewClient(setOf(t, nil), 0)
	c.Open()
	if _, _, _, err := c.Reconcile("60"); !errors.Is(err, negentropy.ErrMessage) {
		t.Errorf("the client says %v", err)
	}
}

func TestEventThatCannotTakePartIsAnError(t *testing.T) {
	for _, ev := range []event{
		{-1, strings.Repeat("00", 32)},
		{negentropy.MaxTime, strings.Repeat("00", 32)},
		{1, "00"},
		{1, strings.Repeat("0g", 32)},
		{1, ""},
	} {
		if err := new(negentropy.Set).Add(ev.at, ev.id); err == nil {
			t.Errorf("%v was taken", ev)
		}
	}
}

func TestUpperCaseHexIsReadAsLowerCase(t *testing.T) {
	events := randomEvents(rand.New(rand.NewPCG(2, 1)), 200)
	message := negentropy.NewClient(setOf(t, events), 0).Open()
	s := negentropy.NewServer(setOf(t, events), 0)
	if answer, err := s.Answer(strings.ToUpper(message)); answer != "61" || err != nil {
		t.Errorf("got %.80q, %v, want nothing to differ", answer, err)
	}
}

// FuzzMessage sends anything to both sides: no panic, no answer beyond the
// size, and only whole ids come out.
func FuzzMessage(f *testing.F) {
	events := randomEvents(rand.New(rand.NewPCG(3, 1)), 300)
	f.Add(negentropy.NewClient(setOf(f, events[:200]), 0).Open())
	f.Add(negentropy.NewClient(setOf(f, nil), 0).Open())
	first, _ := negentropy.NewServer(setOf(f, events), 0).Answer(negentropy.NewClient(setOf(f, events[100:]), 0).Open())
	f.Add(first)
	f.Add("7f00")
	f.Add("61" + strings.Repeat("ffffffffffff7f0000", 30))
	f.Fuzz(func(t *testing.T, message string) {
		for _, text := range []string{message, hex.EncodeToString([]byte(message)), "61" + hex.EncodeToString([]byte(message))} {
			s := negentropy.NewServer(setOf(t, events), 0)
			answer, err := s.Answer(text)
			if err != nil && !errors.Is(err, negentropy.ErrMessage) || len(answer)/2 > negentropy.MinMessage {
				t.Errorf("%d bytes, %v", len(answer)/2, err)
			}
			c := negentropy.NewClient(setOf(t, events), 0)
			c.Open()
			_, have, need, _ := c.Reconcile(text)
			for _, id := range slices.Concat(have, need) {
				if data, err := hex.DecodeString(id); err != nil || len(data) != 32 || id != strings.ToLower(id) {
					t.Errorf("%q is no id", id)
				}
			}
		}
	})
}
