package merklelog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

func serve(t testing.TB, l *merklelog.Log) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkpoint", l.ServeCheckpoint)
	mux.HandleFunc("GET /tile/", func(w http.ResponseWriter, r *http.Request) {
		l.ServeTile(w, r, strings.TrimPrefix(r.URL.Path, "/"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func get(t testing.TB, url string) (status int, header http.Header, body []byte) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

// overHTTP is a client of C2SP tlog-tiles on the reader of golang.org/x/mod.
type overHTTP struct {
	t   testing.TB
	url string
}

func (c *overHTTP) Height() int                     { return 8 }
func (c *overHTTP) SaveTiles([]tlog.Tile, [][]byte) {}
func (c *overHTTP) ReadTiles(tiles []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range tiles {
		status, _, body := get(c.t, c.url+"/"+strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
		if status != http.StatusOK {
			return nil, fmt.Errorf("tile %v: status %d", tile, status)
		}
		data = append(data, body)
	}
	return data, nil
}

// A reader that knows the key alone takes the whole log from what is served,
// proves every entry and finds the entries themselves.
func TestServed_isAWholeLogForAReaderOfTiles(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		l := newLog(t, db)
		var leaves [][]byte
		for i := range 600 {
			leaves = append(leaves, leaf(i))
		}
		bulk(t, db, origin, leaves)
		integrate(t, l)
		url := serve(t, l)

		status, header, note := get(t, url+"/checkpoint")
		if status != 200 || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("Cache-Control") != "no-cache" {
			t.Errorf("checkpoint: %d, %v", status, header)
		}
		signed, err := logproof.Open(string(note), logproof.Policy{Log: l.Key()})
		if err != nil || signed.Size != 600 {
			t.Fatalf("checkpoint %v, %v", signed, err)
		}
		reader := tlog.TileHashReader(tlog.Tree{N: signed.Size, Hash: signed.Root}, &overHTTP{t, url})
		for _, i := range []int64{0, 255, 256, 599} {
			path, err := tlog.ProveRecord(signed.Size, i, reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(path, signed.Size, signed.Root, i, tlog.RecordHash(leaf(int(i)))); err != nil {
				t.Error(err)
			}
		}
		status, header, entries := get(t, url+"/tile/entries/001")
		if status != 200 || header.Get("Content-Type") != "application/octet-stream" || !strings.Contains(header.Get("Cache-Control"), "immutable") {
			t.Errorf("entries: %d, %v", status, header)
		}
		var want []byte
		for _, leaf := range leaves[256:512] {
			want = append(binary.BigEndian.AppendUint16(want, 32), leaf...)
		}
		if !bytes.Equal(entries, want) {
			t.Errorf("entries have %d bytes, want %d", len(entries), len(want))
		}
		if _, _, part := get(t, url+"/tile/entries/001.p/7"); !bytes.Equal(part, want[:7*34]) {
			t.Errorf("seven entries have %d bytes", len(part))
		}
	})
}

func TestServed_isNothingThatNoCheckpointCovers(t *testing.T) {
	db := databasetest.Open(t)
	l := newLog(t, db)
	var leaves [][]byte
	for i := range 258 {
		leaves = append(leaves, leaf(i))
	}
	bulk(t, db, origin, leaves)
	integrate(t, l)
	add(t, db, l, leaf(258))
	url := serve(t, l)
	for path, want := range map[string]int{
		"tile/0/000": 200, "tile/0/000.p/255": 200, "tile/0/001.p/2": 200, "tile/1/000.p/1": 200, "tile/entries/001.p/2": 200,
		"tile/0/001": 404, "tile/0/001.p/3": 404, "tile/1/000": 404, "tile/1/000.p/2": 404, "tile/2/000.p/1": 404,
		"tile/entries/001.p/3": 404, "tile/entries/002.p/1": 404, "tile/63/000.p/1": 404, "tile/64/000.p/1": 404,
		"tile/0/000.p/0": 404, "tile/0/000.p/256": 404, "tile/0/0": 404, "tile/0/x000/000": 404, "tile/00/000": 404, "tile/-1/000": 404,
		"tile/data/000": 404, "tile/8/0/000": 404, "tile/0/000/": 404, "tile/0": 404, "tile/": 404, "tile/0/000.p": 404,
		"tile/0/x999/x999/x999/x999/x999/x999/999": 404, "tile/0/x036/x028/x797/x018/x963/968": 404,
		"tile/0/" + strings.Repeat("x001/", 40) + "000": 404,
	} {
		if status, _, _ := get(t, url+"/"+path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}
