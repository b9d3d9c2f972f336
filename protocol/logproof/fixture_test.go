package logproof_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/protocol/logproof"
)

const origin = "parley.example/receipts/log"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pair is a key of a log or a witness with its secret.
type pair struct {
	logproof.Key
	secret ed25519.PrivateKey
}

func newPair(t testing.TB, name string, make func(string, ed25519.PublicKey) (logproof.Key, error)) pair {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	secret := ed25519.NewKeyFromSeed(seed[:])
	key, err := make(name, secret.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return pair{key, secret}
}

func (p pair) sign(t testing.TB, text string) string {
	t.Helper()
	line, err := logproof.Sign(text, p.Key, p.secret, noon)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func logPair(t testing.TB) pair { return newPair(t, origin, logproof.LogKey) }

func witnesses(t testing.TB, n int) (pairs []pair, public []logproof.Key) {
	for i := range n {
		p := newPair(t, fmt.Sprintf("witness%d.example", i), logproof.WitnessKey)
		pairs, public = append(pairs, p), append(public, p.Key)
	}
	return pairs, public
}

// tree is the plain tree of golang.org/x/mod in memory.
type tree struct {
	hashes []tlog.Hash
	size   int64
}

func (m *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, m.hashes[i])
	}
	return out, nil
}

func leaf(i int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return sum[:]
}

func newTree(t testing.TB, size int64) *tree {
	t.Helper()
	m := new(tree)
	for i := range size {
		more, err := tlog.StoredHashes(i, leaf(i), m)
		if err != nil {
			t.Fatal(err)
		}
		m.hashes = append(m.hashes, more...)
	}
	m.size = size
	return m
}

func (m *tree) checkpoint(t testing.TB, size int64) logproof.Checkpoint {
	t.Helper()
	root, err := tlog.TreeHash(size, m)
	if err != nil {
		t.Fatal(err)
	}
	return logproof.Checkpoint{Origin: origin, Size: size, Root: root}
}

// proof is of entry i in the tree of that size, with the signatures of all.
func (m *tree) proof(t testing.TB, size, i int64, signers ...pair) *logproof.Proof {
	t.Helper()
	path, err := tlog.ProveRecord(size, i, m)
	if err != nil {
		t.Fatal(err)
	}
	return &logproof.Proof{Index: i, Path: slices.Clone(path), Checkpoint: signed(t, m.checkpoint(t, size).Text(), signers...)}
}

func signed(t testing.TB, text string, signers ...pair) string {
	t.Helper()
	note := text + "\n"
	for _, s := range signers {
		note += s.sign(t, text)
	}
	return note
}
