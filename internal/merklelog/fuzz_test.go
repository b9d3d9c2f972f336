package merklelog_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/logproof"
)

// FuzzTilePath: no path gives a tile but one that a checkpoint covers, and of
// the size it asks for.
func FuzzTilePath(f *testing.F) {
	db := databasetest.Open(f)
	l := newLog(f, db)
	var leaves [][]byte
	for i := range 300 {
		leaves = append(leaves, leaf(i))
	}
	bulk(f, db, origin, leaves)
	integrate(f, l)
	known := map[int]bool{256 * 32: true, 256 * 34: true}
	for _, path := range []string{"tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/000", "tile/entries/001.p/3", "tile/0/x001/000"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		w := httptest.NewRecorder()
		l.ServeTile(w, httptest.NewRequest(http.MethodGet, "/", nil), path)
		size := w.Body.Len()
		switch {
		case w.Code == http.StatusNotFound:
		case w.Code != http.StatusOK:
			t.Errorf("%q: status %d", path, w.Code)
		case strings.Contains(path, ".p/"):
			if size == 0 || size%32 != 0 && size%34 != 0 {
				t.Errorf("%q: %d bytes", path, size)
			}
		case !known[size]:
			t.Errorf("%q: %d bytes", path, size)
		}
	})
}

// FuzzWitness: whatever is sent, only a checkpoint of the log is cosigned.
func FuzzWitness(f *testing.F) {
	log := newSigner(f, origin, "log", 6)
	w := newWitness(f, databasetest.Open(f), log.key)
	f.Add(log.update(f, 0, 3).String())
	f.Add(log.update(f, 3, 6).String())
	f.Add(log.update(f, 6, 6).String())
	f.Add("old 0\n\nx\n0\n\n\u2014 x AAAA\n")
	f.Fuzz(func(t *testing.T, request string) {
		line, err := w.Add(t.Context(), request)
		if err != nil {
			return
		}
		update, err := logproof.ParseUpdate(request)
		if err != nil {
			t.Fatal(err)
		}
		policy := logproof.Policy{Log: log.key, Witnesses: []logproof.Key{w.Key()}, Quorum: 1}
		if _, err := logproof.Open(update.Checkpoint+line, policy); err != nil {
			t.Errorf("cosigned %q: %v", request, err)
		}
	})
}
