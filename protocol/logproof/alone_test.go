package logproof_test

import (
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/protocol/logproof"
)

func TestProofAloneHoldsNothingButTheLogsSignature(t *testing.T) {
	m, log := newTree(t, 5), logPair(t)
	root, err := tlog.TreeHash(5, m)
	if err != nil {
		t.Fatal(err)
	}
	path, err := tlog.ProveRecord(5, 3, m)
	if err != nil {
		t.Fatal(err)
	}
	others, _ := witnesses(t, 1)
	text := logproof.Checkpoint{Origin: origin, Size: 5, Root: root}.Text()
	p := &logproof.Proof{
		Extra: []byte("x"), Index: 3, Path: path,
		Checkpoint: text + "\n" + others[0].sign(t, text) + log.sign(t, text),
	}
	alone, err := p.Alone(log.Key)
	if err != nil {
		t.Fatal(err)
	}
	if want := text + "\n" + log.sign(t, text); alone.Checkpoint != want || alone.Extra != nil {
		t.Errorf("checkpoint %q, want %q", alone.Checkpoint, want)
	}
	if _, err := logproof.Verify(leaf(3), alone.String(), logproof.Policy{Log: log.Key}); err != nil {
		t.Error(err)
	}
	if _, err := p.Alone(others[0].Key); err != nil {
		t.Errorf("by another key that signed: %v", err)
	}
	if _, err := p.Alone(newPair(t, "stranger", logproof.LogKey).Key); !errors.Is(err, logproof.ErrSignature) {
		t.Errorf("by a key that did not sign: %v", err)
	}
}
