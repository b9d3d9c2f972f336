package logproof_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/logproof"
)

// Every entry of a tree of any size is proved, and no other bytes, place, tree
// or path are.
func TestVerify_acceptsWhatTheTreeHoldsAndNothingElse(t *testing.T) {
	m, key := newTree(t, 300), logPair(t)
	policy := logproof.Policy{Log: key.Key}
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, m.size).Draw(rt, "size")
		i := rapid.Int64Range(0, size-1).Draw(rt, "entry")
		proof := m.proof(t, size, i, key)
		entry, err := logproof.Verify(leaf(i), proof.String(), policy)
		if err != nil || entry.Index != i || entry.Checkpoint != m.checkpoint(t, size) {
			rt.Fatalf("Verify = %+v, %v", entry, err)
		}
		refused := func(what string, leaf []byte, p logproof.Proof) {
			if _, err := logproof.Verify(leaf, p.String(), policy); !errors.Is(err, logproof.ErrProof) {
				rt.Errorf("%s: %v", what, err)
			}
		}
		refused("other bytes", leaf(i+1), *proof)
		elsewhere := *proof
		elsewhere.Index = size
		refused("beyond the end", leaf(i), elsewhere)
		if size > 1 {
			elsewhere.Index = (i + rapid.Int64Range(1, size-1).Draw(rt, "away")) % size
			refused("another place", leaf(i), elsewhere)
			short := *proof
			short.Path = short.Path[1:]
			refused("a hash less", leaf(i), short)
		}
		long := *proof
		long.Path = append(long.Path[:len(long.Path):len(long.Path)], logproof.Hash{})
		refused("a hash more", leaf(i), long)
	})
}

func TestCheckConsistency_acceptsPrefixesAndNothingElse(t *testing.T) {
	m := newTree(t, 200)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, m.size).Draw(rt, "size")
		old := rapid.Int64Range(0, size).Draw(rt, "old")
		var path []logproof.Hash
		if old > 0 {
			p, err := tlog.ProveTree(size, old, m)
			if err != nil {
				rt.Fatal(err)
			}
			path = p
		}
		older, newer := m.checkpoint(t, old), m.checkpoint(t, size)
		if err := logproof.CheckConsistency(older, newer, path); err != nil {
			rt.Fatal(err)
		}
		forked := newer
		forked.Root[0]++
		other := newer
		other.Origin = "else.example"
		for what, c := range map[string][2]logproof.Checkpoint{"another log": {older, other}, "backwards": {newer, older}} {
			if err := logproof.CheckConsistency(c[0], c[1], path); old < size && !errors.Is(err, logproof.ErrProof) {
				rt.Errorf("%s: %v", what, err)
			}
		}
		if err := logproof.CheckConsistency(older, forked, path); old > 0 && !errors.Is(err, logproof.ErrProof) {
			rt.Errorf("fork: %v", err)
		}
		if err := logproof.CheckConsistency(older, newer, append(path, logproof.Hash{})); !errors.Is(err, logproof.ErrProof) {
			rt.Errorf("a hash more: %v", err)
		}
	})
}

func TestQuorum_countsDistinctWitnessesOfThePolicy(t *testing.T) {
	m, key := newTree(t, 5), logPair(t)
	pairs, public := witnesses(t, 3)
	stranger := newPair(t, "stranger.example", logproof.WitnessKey)
	for _, c := range []struct {
		what   string
		by     []pair
		quorum int
		want   error
	}{
		{"none needed", []pair{key}, 0, nil},
		{"enough", []pair{key, pairs[0], pairs[2]}, 2, nil},
		{"before the log", []pair{pairs[0], pairs[2], key}, 2, nil},
		{"too few", []pair{key, pairs[0]}, 2, logproof.ErrQuorum},
		{"one twice", []pair{key, pairs[0], pairs[0]}, 2, logproof.ErrQuorum},
		{"a stranger", []pair{key, pairs[0], stranger}, 2, logproof.ErrQuorum},
		{"without the log", []pair{pairs[0], pairs[1]}, 2, logproof.ErrSignature},
		{"by strangers alone", []pair{stranger}, 0, logproof.ErrSignature},
	} {
		policy := logproof.Policy{Log: key.Key, Witnesses: public, Quorum: c.quorum}
		entry, err := logproof.Verify(leaf(3), m.proof(t, 5, 3, c.by...).String(), policy)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil && c.quorum > 0 && (len(entry.Cosignatures) != c.quorum || !entry.Cosignatures[0].Time.Equal(noon)) {
			t.Errorf("%s: cosigned %v", c.what, entry.Cosignatures)
		}
	}
}

func TestPolicy_thatCannotBeMeantIsRefused(t *testing.T) {
	key := logPair(t)
	_, public := witnesses(t, 2)
	sameKey, err := logproof.WitnessKey("other.example", newPair(t, "witness0.example", logproof.WitnessKey).secret.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]logproof.Policy{
		"no key":              {},
		"witness as log":      {Log: public[0]},
		"log as witness":      {Log: key.Key, Witnesses: []logproof.Key{key.Key}},
		"witness twice":       {Log: key.Key, Witnesses: []logproof.Key{public[0], public[0]}},
		"one key, two names":  {Log: key.Key, Witnesses: []logproof.Key{public[0], sameKey}},
		"quorum out of reach": {Log: key.Key, Witnesses: public, Quorum: 3},
		"negative quorum":     {Log: key.Key, Quorum: -1},
	} {
		if _, err := logproof.Open(signed(t, newTree(t, 1).checkpoint(t, 1).Text(), key), p); !errors.Is(err, logproof.ErrPolicy) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOpen_refusesEveryChangeOfWhatWasSigned(t *testing.T) {
	key := logPair(t)
	pairs, public := witnesses(t, 1)
	text := newTree(t, 7).checkpoint(t, 7).Text()
	note := signed(t, text, key, pairs[0])
	policy := logproof.Policy{Log: key.Key, Witnesses: public, Quorum: 1}
	if _, err := logproof.Open(note, policy); err != nil {
		t.Fatal(err)
	}
	for i := range note {
		changed := note[:i] + string(note[i]^1) + note[i+1:]
		if _, err := logproof.Open(changed, policy); err == nil {
			t.Errorf("accepted %q", changed)
		}
	}
	for what, c := range map[string]struct {
		text string
		want error
	}{
		"leading zero":   {strings.Replace(text, "\n7\n", "\n07\n", 1), logproof.ErrMalformed},
		"sign":           {strings.Replace(text, "\n7\n", "\n+7\n", 1), logproof.ErrMalformed},
		"too large":      {strings.Replace(text, "\n7\n", "\n9007199254740993\n", 1), logproof.ErrMalformed},
		"short root":     {strings.Replace(text, "=\n", "\n", 1), logproof.ErrMalformed},
		"two lines":      {origin + "\n7\n", logproof.ErrMalformed},
		"another origin": {strings.Replace(text, "parley.", "barley.", 1), logproof.ErrSignature},
		"loose bits":     {looseBits(text), logproof.ErrMalformed},
		"long":           {text + strings.Repeat("more\n", logproof.MaxNote/5), logproof.ErrMalformed},
		"full and empty": {strings.Replace(text, "\n7\n", "\n0\n", 1), logproof.ErrMalformed},
		"extension":      {text + "more\n", nil},
	} {
		if _, err := logproof.Open(signed(t, c.text, key, pairs[0]), policy); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := logproof.Unverified(strings.Repeat("x", logproof.MaxNote+1)); !errors.Is(err, logproof.ErrMalformed) {
		t.Errorf("long: %v", err)
	}
}

// looseBits writes the root in a second way that base64 would take.
func looseBits(text string) string {
	last := strings.LastIndex(text, "=") - 1
	return text[:last] + string(text[last]+1) + text[last+1:]
}

// A witness signs two lines before the text, and a time of 63 bits.
func TestCosignature_isOverTimeAndText(t *testing.T) {
	pairs, public := witnesses(t, 1)
	text := newTree(t, 3).checkpoint(t, 3).Text()
	line := pairs[0].sign(t, text)
	encoded, found := strings.CutPrefix(line, "\u2014 witness0.example ")
	payload, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "\n"))
	if !found || err != nil || len(payload) != 4+8+64 {
		t.Fatalf("line %q", line)
	}
	secret := pairs[0].secret
	if !ed25519.Verify(secret.Public().(ed25519.PublicKey), []byte("cosignature/v1\ntime 1796040000\n"+text), payload[12:]) {
		t.Error("another message was signed")
	}
	late := binary.BigEndian.AppendUint64(nil, 1<<63)
	late = append(late, ed25519.Sign(secret, []byte("cosignature/v1\ntime 9223372036854775808\n"+text))...)
	if public[0].Verify([]byte(text), late) {
		t.Error("a time of 64 bits was accepted")
	}
}

// A note of this package is one of golang.org/x/mod/sumdb/note, and the other
// way round.
func TestNotes_areThoseOfTheGoChecksumDatabase(t *testing.T) {
	key := logPair(t)
	text := newTree(t, 3).checkpoint(t, 3).Text()
	verifier, err := note.NewVerifier(key.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(signed(t, text, key)), note.VerifierList(verifier)); err != nil {
		t.Error(err)
	}
	secret, public, err := note.GenerateKey(nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	message, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := logproof.ParseKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := logproof.Open(string(message), logproof.Policy{Log: theirs}); err != nil {
		t.Error(err)
	}
}

func TestKey_hasOneForm(t *testing.T) {
	_, public := witnesses(t, 1)
	for _, k := range []logproof.Key{logPair(t).Key, public[0]} {
		if got, err := logproof.ParseKey(k.String()); err != nil || got != k {
			t.Errorf("%s: %v, %v", k, got, err)
		}
		text := k.String()
		for _, bad := range []string{"", "x", text[1:], text + "=", text + "\n", strings.ToUpper(text), strings.Replace(text, "+", " ", 1), strings.Repeat(text, 9)} {
			if _, err := logproof.ParseKey(bad); !errors.Is(err, logproof.ErrMalformed) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	for _, name := range []string{"", "a b", "a+b", "a\nb", "a\u00a0b", "a\x00", "\xff", strings.Repeat("x", 257)} {
		if _, err := logproof.LogKey(name, make([]byte, 32)); !errors.Is(err, logproof.ErrMalformed) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	var none logproof.Key
	if none.Verify([]byte("x"), make([]byte, 64)) {
		t.Error("the zero key verifies")
	}
}

func TestSign_refusesAnotherKeyAndTimesBefore1970(t *testing.T) {
	pairs, _ := witnesses(t, 2)
	if _, err := logproof.Sign("x\n", pairs[0].Key, pairs[1].secret, noon); !errors.Is(err, logproof.ErrMalformed) {
		t.Errorf("another key: %v", err)
	}
	if _, err := logproof.Sign("x\n", pairs[0].Key, pairs[0].secret, time.Unix(-1, 0)); !errors.Is(err, logproof.ErrMalformed) {
		t.Errorf("before 1970: %v", err)
	}
}

func TestTexts_keepTheirForm(t *testing.T) {
	m, key := newTree(t, 6), logPair(t)
	proof := m.proof(t, 6, 2, key)
	text := proof.String()
	if !strings.HasPrefix(text, "c2sp.org/tlog-proof@v1\nindex 2\n") || strings.Count(text, "\n") != 2+3+1+3+1+1 {
		t.Errorf("proof is\n%s", text)
	}
	proof.Extra = []byte("extra")
	back, err := logproof.ParseProof(proof.String())
	if err != nil || !cmp.Equal(back, proof) {
		t.Errorf("ParseProof = %+v, %v", back, err)
	}
	update := &logproof.Update{OldSize: 4, Path: proof.Path, Checkpoint: proof.Checkpoint}
	if got, err := logproof.ParseUpdate(update.String()); err != nil || !cmp.Equal(got, update) {
		t.Errorf("ParseUpdate = %+v, %v", got, err)
	}
	many := *proof
	many.Path = make([]logproof.Hash, 64)
	for what, bad := range map[string]string{
		"empty": "", "header": strings.Replace(text, "@v1", "@v2", 1), "index": strings.Replace(text, "index 2", "index 02", 1),
		"no index": strings.Replace(text, "index 2\n", "", 1), "return": strings.Replace(text, "index 2\n", "index 2\r\n", 1),
		"base64": strings.Replace(text, "=\n", "\n", 1), "extra": strings.Replace(proof.String(), "extra ZX", "extra Z", 1), "loose extra": strings.Replace(proof.String(), "ZXh0cmE=", "ZXh0cmF=", 1),
		"64 hashes": many.String(), "long": strings.Repeat("x", logproof.MaxProof+1),
	} {
		if _, err := logproof.ParseProof(bad); !errors.Is(err, logproof.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
