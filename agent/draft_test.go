package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/agent"
)

const draft = `title: Read access
objective: |
  Two lines
  of text.
must: [one, two]
must_not:
  - three
deadline: 48h
`

func TestADraftIsReadStrictly(t *testing.T) {
	t.Parallel()
	got, err := agent.ParseDraft([]byte(draft))
	if err != nil {
		t.Fatal(err)
	}
	want := &agent.Draft{
		Title: "Read access", Objective: "Two lines\nof text.\n", Must: []string{"one", "two"},
		MustNot: []string{"three"}, Deadline: "48h",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"unknown key":   draft + "wishes: all\n",
		"key twice":     draft + "title: again\n",
		"another case":  "Title: x\nobjective: y\n",
		"no title":      "objective: y\n",
		"blank title":   "title: ' '\nobjective: y\n",
		"no objective":  "title: x\n",
		"a list":        "- title: x\n",
		"a number":      "title: x\nobjective: y\nmust: 3\n",
		"two documents": draft + "---\n" + draft,
		"nothing":       "",
		"too long":      draft + "# " + strings.Repeat("x", agent.MaxDraft),
	} {
		if d, err := agent.ParseDraft([]byte(text)); !errors.Is(err, agent.ErrDraft) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestLengthsMayHaveDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "48h": 48 * time.Hour, "90d": 90 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0,
	} {
		if got, err := agent.ParseLength(text); err != nil || got != want {
			t.Errorf("%q = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "3", "-1d", "1.5d", "1d-2h", "1d2", "99999999d", "1h1d"} {
		if got, err := agent.ParseLength(text); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

func TestADeadlineIsALengthOrAnInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"3d":                        now.Add(72 * time.Hour),
		"2026-12-24T18:00:00Z":      time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24T18:00:00+01:00": time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC),
	} {
		if got, err := agent.ParseDeadline(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q = %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := agent.ParseDeadline("tomorrow", now); err == nil {
		t.Errorf("tomorrow = %v", got)
	}
}

func FuzzParseDraft(f *testing.F) {
	f.Add([]byte(draft))
	f.Add([]byte("title: x\nobjective: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := agent.ParseDraft(data)
		if (d == nil) == (err == nil) {
			t.Fatalf("%+v, %v", d, err)
		}
		if err == nil && (strings.TrimSpace(d.Title) == "" || strings.TrimSpace(d.Objective) == "") {
			t.Fatalf("accepted %+v", d)
		}
	})
}
