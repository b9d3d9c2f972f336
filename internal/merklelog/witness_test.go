package merklelog_test

import (
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

func newWitness(t testing.TB, db *database.DB, logs ...logproof.Key) *merklelog.Witness {
	t.Helper()
	w, err := merklelog.NewWitness(t.Context(), merklelog.WitnessOptions{
		DB: db, Name: "witness.example/w1", Key: secret("witness"), Logs: logs, Now: at(noon),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// signer is a log in memory whose owner may be anyone.
type signer struct {
	*plain
	key  logproof.Key
	word string
}

func newSigner(t testing.TB, name, word string, size int) *signer {
	t.Helper()
	key, err := logproof.LogKey(name, secret(word).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{plain: new(plain), key: key, word: word}
	for i := range size {
		s.add(t, leaf(i))
	}
	return s
}

// note is the checkpoint of a size, signed.
func (s *signer) note(t testing.TB, size int64) string {
	t.Helper()
	root, err := tlog.TreeHash(size, s)
	if err != nil {
		t.Fatal(err)
	}
	return s.sign(t, logproof.Checkpoint{Origin: s.key.Name(), Size: size, Root: root}.Text())
}

func (s *signer) sign(t testing.TB, text string) string {
	t.Helper()
	line, err := logproof.Sign(text, s.key, secret(s.word), noon)
	if err != nil {
		t.Fatal(err)
	}
	return text + "\n" + line
}

func (s *signer) update(t testing.TB, old, size int64) *logproof.Update {
	t.Helper()
	u := &logproof.Update{OldSize: old, Checkpoint: s.note(t, size)}
	if old > 0 && old < size {
		path, err := tlog.ProveTree(size, old, s)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = path
	}
	return u
}

// ask sends a request and gives status, type and body of the answer.
func ask(t testing.TB, url, body string) (status int, contentType, answer string) {
	t.Helper()
	response, err := http.Post(url+"/add-checkpoint", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(data)
}

func TestWitness_cosignsContinuationsAlone(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		log := newSigner(t, origin, "log", 20)
		fork := newSigner(t, origin, "log", 5)
		for i := range 15 {
			fork.add(t, leaf(100+i))
		}
		stranger, forger := newSigner(t, "else.example", "else", 20), newSigner(t, origin, "forger", 20)
		w := newWitness(t, db, log.key)
		server := httptest.NewServer(w)
		t.Cleanup(server.Close)

		withPath := log.update(t, 0, 7)
		withPath.Path = []logproof.Hash{{}}
		cutShort := log.update(t, 7, 20)
		cutShort.Path = cutShort.Path[1:]
		empty := logproof.Checkpoint{Origin: origin, Root: logproof.EmptyRoot}.Text()
		for _, c := range []struct {
			what   string
			body   string
			status int
			size   string // that a conflict names
		}{
			{"garbage", "old 0\n\nx\n", 400, ""},
			{"nothing", "", 400, ""},
			{"too long", strings.Repeat("x", logproof.MaxProof+1), 400, ""},
			{"unknown log", stranger.update(t, 0, 5).String(), 404, ""},
			{"another key", forger.update(t, 0, 5).String(), 403, ""},
			{"old size beyond the new one", log.update(t, 9, 5).String(), 400, ""},
			{"first with an old size", log.update(t, 3, 7).String(), 409, "0\n"},
			{"first with a proof", withPath.String(), 422, ""},
			{"empty log", (&logproof.Update{Checkpoint: log.sign(t, empty)}).String(), 200, ""},
			{"first", log.update(t, 0, 7).String(), 200, ""},
			{"the same again", log.update(t, 7, 7).String(), 200, ""},
			{"from nothing again", log.update(t, 0, 9).String(), 409, "7\n"},
			{"backwards", log.update(t, 5, 5).String(), 409, "7\n"},
			{"other tree of one size", fork.update(t, 7, 7).String(), 409, "7\n"},
			{"fork", fork.update(t, 7, 20).String(), 422, ""},
			{"broken proof", cutShort.String(), 422, ""},
			{"continuation", log.update(t, 7, 20).String(), 200, ""},
			{"rollback", log.update(t, 7, 12).String(), 409, "20\n"},
		} {
			status, contentType, answer := ask(t, server.URL, c.body)
			if status != c.status {
				t.Errorf("%s: status %d, want %d", c.what, status, c.status)
			}
			if c.status == 409 && (answer != c.size || contentType != "text/x.tlog.size") {
				t.Errorf("%s: %s %q, want size %q", c.what, contentType, answer, c.size)
			}
			if c.status == 200 {
				update, err := logproof.ParseUpdate(c.body)
				if err != nil {
					t.Fatal(err)
				}
				policy := logproof.Policy{Log: log.key, Witnesses: []logproof.Key{w.Key()}, Quorum: 1}
				if _, err := logproof.Open(update.Checkpoint+answer, policy); err != nil {
					t.Errorf("%s: cosignature %q: %v", c.what, answer, err)
				}
			}
		}
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET: status %d", response.StatusCode)
		}
		// Another process, or this one after a restart, remembers.
		if _, err := newWitness(t, db, log.key).Add(t.Context(), log.update(t, 0, 20).String()); err == nil {
			t.Error("a new witness on the same database forgot the log")
		}
	})
}

// Of two branches that are shown to two processes at the same moment one is
// cosigned.
func TestWitness_cosignsOneOfTwoBranchesAtOnce(t *testing.T) {
	eachTwice(t, func(t *testing.T, one, two *database.DB) {
		for round := range 5 {
			name := origin + strings.Repeat("x", round)
			log, fork := newSigner(t, name, "log", 9), newSigner(t, name, "log", 0)
			for i := range 9 {
				fork.add(t, leaf(100+i))
			}
			witnesses := []*merklelog.Witness{newWitness(t, one, log.key), newWitness(t, two, log.key)}
			lines := make([]string, 8)
			var wait sync.WaitGroup
			for i := range lines {
				branch := []*signer{log, fork}[i%2]
				wait.Go(func() { lines[i], _ = witnesses[i/4].Add(t.Context(), branch.update(t, 0, 9).String()) })
			}
			wait.Wait()
			cosigned := 0
			for _, line := range lines {
				if line != "" {
					cosigned++
				}
			}
			if cosigned != 1 {
				t.Errorf("%d of 8 first checkpoints were cosigned, want 1", cosigned)
			}
		}
	})
}

func TestNewWitness_refusesWhatCannotBe(t *testing.T) {
	db := databasetest.Open(t)
	w := newWitness(t, db)
	for what, o := range map[string]merklelog.WitnessOptions{
		"nothing":        {},
		"no name":        {DB: db, Key: secret("w")},
		"witness as log": {DB: db, Name: "w", Key: secret("w"), Logs: []logproof.Key{w.Key()}},
		"zero key":       {DB: db, Name: "w", Key: secret("w"), Logs: []logproof.Key{{}}},
	} {
		if _, err := merklelog.NewWitness(t.Context(), o); !errors.Is(err, merklelog.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A log that asks a witness keeps the cosignatures, and its proofs carry them.
func TestAsk_bringsCosignaturesIntoProofs(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		logDB := open(t)
		w := newWitness(t, databasetest.Open(t), newSigner(t, origin, "log", 0).key)
		server := httptest.NewServer(w)
		t.Cleanup(server.Close)
		l := newLog(t, logDB, func(o *merklelog.Options) { o.Witnesses = []logproof.Key{w.Key()} })
		witnessed := func() {
			t.Helper()
			if err := l.Ask(t.Context(), server.Client(), server.URL, w.Key()); err != nil {
				t.Fatal(err)
			}
		}
		policy := logproof.Policy{Log: l.Key(), Witnesses: []logproof.Key{w.Key()}, Quorum: 1}
		cosigned := func(n int) bool {
			t.Helper()
			proof, err := l.Proof(t.Context(), leaf(n))
			if err != nil {
				t.Fatal(err)
			}
			_, err = logproof.Verify(leaf(n), proof.String(), policy)
			return err == nil
		}
		witnessed() // the empty log
		add(t, logDB, l, leaf(1))
		integrate(t, l)
		if cosigned(1) {
			t.Error("cosigned by nobody")
		}
		witnessed()
		witnessed() // nothing to do
		add(t, logDB, l, leaf(2))
		integrate(t, l)
		if !cosigned(1) || cosigned(2) {
			t.Error("a proof does not prefer the cosigned checkpoint that covers it")
		}
		exec(t, logDB, "DELETE FROM merklelog_signatures WHERE witness") // answers that were lost
		witnessed()
		if !cosigned(2) {
			t.Error("the witness named its size in vain")
		}
		if got := openCheckpoint(t, l, w.Key()); len(got.Cosignatures) != 1 || !got.Cosignatures[0].Time.Equal(noon) {
			t.Errorf("checkpoint has %v", got.Cosignatures)
		}
	})
}

func TestCosign_keepsGoodSignaturesOfItsWitnessesAlone(t *testing.T) {
	db := databasetest.Open(t)
	w := newWitness(t, databasetest.Open(t))
	l := newLog(t, db, func(o *merklelog.Options) { o.Witnesses = []logproof.Key{w.Key()} })
	text := openCheckpoint(t, l).Text
	line := func(text, name, word string) string {
		key, err := logproof.WitnessKey(name, secret(word).Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		line, err := logproof.Sign(text, key, secret(word), noon)
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	good, stranger, wrong := line(text, w.Key().Name(), "witness"), line(text, "else.example", "else"), line("x\n", w.Key().Name(), "witness")
	for _, c := range []struct {
		what, lines string
		size        int64
		stored      int
		want        error
	}{
		{"stranger", stranger, 0, 0, nil},
		{"wrong", good + wrong, 0, 0, logproof.ErrSignature},
		{"no lines", "\n\nx\n", 0, 0, logproof.ErrMalformed},
		{"long", strings.Repeat(stranger, 200), 0, 0, merklelog.ErrInvalid},
		{"unknown size", good, 1, 0, merklelog.ErrUnknown},
		{"good", good + stranger, 0, 1, nil},
		{"again", good, 0, 1, nil},
	} {
		stored, err := l.Cosign(t.Context(), c.size, c.lines)
		if err != nil {
			stored = 0
		}
		if stored != c.stored || !errors.Is(err, c.want) {
			t.Errorf("%s: stored %d, %v; want %d, %v", c.what, stored, err, c.stored, c.want)
		}
	}
	if note, err := l.Checkpoint(t.Context()); err != nil || strings.Contains(note, "else.example") || strings.Count(note, good) != 1 {
		t.Errorf("checkpoint %q, %v", note, err)
	}
}

// A witness that answers nonsense is an error and changes nothing.
func TestAsk_refusesBadAnswers(t *testing.T) {
	db := databasetest.Open(t)
	key := newWitness(t, databasetest.Open(t)).Key()
	l := newLog(t, db, func(o *merklelog.Options) { o.Witnesses = []logproof.Key{key} })
	add(t, db, l, leaf(1))
	integrate(t, l)
	for what, c := range map[string]struct {
		status int
		body   string
	}{
		"error": {500, ""}, "no body": {200, ""}, "no size": {409, "x\n"}, "negative size": {409, "-1\n"},
		"other size each time": {409, "0\n"}, "beyond": {409, "2\n"},
		"of strangers": {200, "\u2014 else.example AAAAAAAAAAAAAAAA\n"},
		"endless":      {200, strings.Repeat("x", 1<<20)},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := l.Ask(t.Context(), server.Client(), server.URL, key)
		server.Close()
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if got := openCheckpoint(t, l, key); len(got.Cosignatures) != 0 {
		t.Errorf("cosigned by %v", got.Cosignatures)
	}
}
