package logproof_test

import (
	"testing"

	"github.com/parleykit/parley/protocol/logproof"
)

// FuzzProof: a text that is read is written the same, and none proves an entry
// that the log does not hold.
func FuzzProof(f *testing.F) {
	m, key := newTree(f, 9), logPair(f)
	for i := range int64(9) {
		f.Add(m.proof(f, 9, i, key).String())
	}
	with := m.proof(f, 9, 1, key)
	with.Extra = []byte{}
	f.Add(with.String())
	policy := logproof.Policy{Log: key.Key}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := logproof.ParseProof(text)
		if err != nil {
			return
		}
		if p.String() != text {
			t.Errorf("read %q, wrote %q", text, p.String())
		}
		if _, err := logproof.Verify([]byte("not in the log"), text, policy); err == nil {
			t.Errorf("proved: %q", text)
		}
	})
}

// FuzzNote: what opens was signed, and says the same as when it is read
// without its signatures.
func FuzzNote(f *testing.F) {
	m, key := newTree(f, 9), logPair(f)
	pairs, public := witnesses(f, 2)
	genuine := m.checkpoint(f, 9).Text()
	f.Add(signed(f, genuine, key))
	f.Add(signed(f, genuine, key, pairs[0], pairs[1]))
	policy := logproof.Policy{Log: key.Key, Witnesses: public}
	f.Fuzz(func(t *testing.T, text string) {
		opened, err := logproof.Open(text, policy)
		if err != nil {
			return
		}
		if opened.Text != genuine {
			t.Errorf("opened %q", text)
		}
		if c, err := logproof.Unverified(text); err != nil || c != opened.Checkpoint {
			t.Errorf("unverified: %v, %v", c, err)
		}
	})
}

func FuzzUpdate(f *testing.F) {
	m, key := newTree(f, 9), logPair(f)
	p := m.proof(f, 9, 3, key)
	f.Add((&logproof.Update{OldSize: 3, Path: p.Path, Checkpoint: p.Checkpoint}).String())
	f.Add((&logproof.Update{Checkpoint: p.Checkpoint}).String())
	f.Fuzz(func(t *testing.T, text string) {
		u, err := logproof.ParseUpdate(text)
		if err != nil {
			return
		}
		if u.String() != text {
			t.Errorf("read %q, wrote %q", text, u.String())
		}
		older := logproof.Checkpoint{Origin: origin, Size: u.OldSize}
		newer, err := logproof.Unverified(u.Checkpoint)
		if err == nil && u.OldSize > 0 && newer.Root != older.Root {
			_ = logproof.CheckConsistency(older, newer, u.Path) // does not panic
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add(logPair(f).String())
	_, public := witnesses(f, 1)
	f.Add(public[0].String())
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := logproof.ParseKey(text); err == nil && k.String() != text {
			t.Errorf("read %q, wrote %q", text, k.String())
		}
	})
}
