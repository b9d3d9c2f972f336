package agreement

import (
	"bytes"
	"testing"

	"github.com/parleykit/parley/protocol/canonical"
)

func FuzzParseAgreement(f *testing.F) {
	for _, a := range []*Agreement{sample(2), consensusSample()} {
		data, err := a.Canonical()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":"https://x/schemas/agreement/v1","must":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseAgreement(data)
		if err != nil {
			return
		}
		want, err := canonical.Transform(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Canonical()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read as %s", got)
		}
		readMarkdown(t, a.Markdown())
		Warnings(a)
	})
}

func FuzzParseEvent(f *testing.F) {
	for _, e := range reachedRoom(f, sample(2)).Events() {
		data, err := e.Canonical()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEvent(data)
		if err != nil {
			return
		}
		want, _ := canonical.Transform(data)
		if got, err := e.Canonical(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read as %s", got)
		}
		if _, err := Replay(sample(2), []Event{*e}); err == nil && e.Action != ActionPropose {
			t.Fatal("a room without a proposal")
		}
	})
}

func FuzzParseCommand(f *testing.F) {
	data, err := NewCommand(sample(2), "p2", ActionComment, "x").Canonical()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	r := openRoom(f, sample(2))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCommand(data)
		if err != nil {
			return
		}
		if e, err := r.Apply(*c, nil, AssuranceNostrKey, start); err == nil && !IsAdvisory(e.Action) {
			t.Fatal("a decision without a signature")
		}
	})
}

func FuzzVerify(f *testing.F) {
	_, data, err := NewBundle(reachedRoom(f, sample(2)), venueKey, nil, start)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, changed []byte) {
		report, err := Verify(changed)
		if (err == nil) != bytes.Equal(changed, data) {
			t.Fatalf("%v %v", report, err)
		}
	})
}
