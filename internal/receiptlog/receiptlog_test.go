package receiptlog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/internal/receiptlog/receiptlogtest"
	"github.com/parleykit/parley/protocol/logproof"
)

// ref is the reference of a made-up receipt.
func ref(n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "receipt %d", n))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func get(t *testing.T, url string) (status int, header http.Header, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(data)
}

func TestReceipt_isProvedByTheDigestOfItsReference(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		s := receiptlogtest.Start(t, receiptlog.Options{DB: open(t)})
		for n := range 3 {
			s.Append(t, ref(n))
		}
		digest := sha256.Sum256([]byte("receipt 1"))
		entry, err := logproof.Verify(digest[:], s.Proof(t, ref(1)), s.Policy)
		if err != nil || entry.Origin != "parley.example/receipts/log" {
			t.Errorf("Verify = %+v, %v", entry, err)
		}
		if _, err := logproof.Verify([]byte(ref(1)), s.Proof(t, ref(1)), s.Policy); !errors.Is(err, logproof.ErrProof) {
			t.Errorf("the text of the reference: %v", err)
		}
		before := s.Proof(t, ref(1))
		s.Append(t, ref(1)) // again
		if after := s.Proof(t, ref(1)); after != before {
			t.Error("a receipt that was appended twice has another proof")
		}
	})
}

func TestRoutes_serveCheckpointTilesAndProofs(t *testing.T) {
	s := receiptlogtest.Start(t, receiptlog.Options{})
	s.Append(t, ref(1))
	proof := s.Proof(t, ref(1))
	base := s.URL + "/receipts/log/"
	status, header, body := get(t, base+"proof/"+ref(1))
	if status != 200 || body != proof || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("Cache-Control") != "no-cache" {
		t.Errorf("proof: %d %v %q", status, header, body)
	}
	if status, _, body := get(t, base+"checkpoint"); status != 200 || !strings.HasSuffix(proof, body) {
		t.Errorf("checkpoint: %d %q", status, body)
	}
	leaf, err := receiptlog.Leaf(ref(1))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, body := get(t, base+"tile/entries/000.p/1"); status != 200 || body != "\x00\x20"+string(leaf) {
		t.Errorf("entries: %d %q", status, body)
	}
	for path, want := range map[string]int{
		"proof/" + ref(2): 404, "proof/" + strings.ToUpper(ref(1)): 400, "proof/x": 400, "proof/": 404, "tile/0/000.p/1": 200, "tile/0/000": 404, "": 404,
	} {
		if status, _, _ := get(t, base+path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}

func TestRoutes_fitTheServer(t *testing.T) {
	s := receiptlogtest.Start(t, receiptlog.Options{})
	server, err := httpserver.New(httpserver.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Handle(s.Log.Routes()...); err != nil {
		t.Error(err)
	}
}

// A receipt without a checkpoint is told from one that nobody appended.
func TestProof_waitsForACheckpoint(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		reg := prometheus.NewPedanticRegistry()
		l, err := receiptlog.New(t.Context(), receiptlog.Options{
			DB: db, Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Origin: "http://127.0.0.1:8417", Registerer: reg,
		})
		if err != nil {
			t.Fatal(err)
		}
		appendRef(t, db, l, ref(1))
		if _, err := l.Proof(t.Context(), ref(1)); !errors.Is(err, receiptlog.ErrWaiting) {
			t.Errorf("waiting: %v", err)
		}
		if _, err := l.Proof(t.Context(), ref(2)); !errors.Is(err, receiptlog.ErrUnknown) {
			t.Errorf("unknown: %v", err)
		}
		if err := l.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Proof(t.Context(), ref(1)); err != nil {
			t.Error(err)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP parley_receiptlog_checkpoints_total Checkpoints of the receipt log that this process signed.
# TYPE parley_receiptlog_checkpoints_total counter
parley_receiptlog_checkpoints_total 2
# HELP parley_receiptlog_entries Receipts that the newest checkpoint of this process covers.
# TYPE parley_receiptlog_entries gauge
parley_receiptlog_entries 1
`), "parley_receiptlog_checkpoints_total", "parley_receiptlog_entries"); err != nil {
			t.Error(err)
		}
	})
}

func appendRef(t *testing.T, db *database.DB, l *receiptlog.Log, ref string) {
	t.Helper()
	if err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return l.Append(ctx, tx, ref) }); err != nil {
		t.Fatal(err)
	}
}

func TestReference_hasOneForm(t *testing.T) {
	for _, bad := range []string{
		"", "sha256:", ref(1)[7:], ref(1)[1:], ref(1) + "0", ref(1)[:70], "sha512:" + ref(1)[7:],
		strings.ToUpper(ref(1)), "sha256:" + strings.ToUpper(ref(1)[7:]), " " + ref(1),
	} {
		if _, err := receiptlog.Leaf(bad); !errors.Is(err, receiptlog.ErrReference) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNew_wantsAnOriginWithoutAPath(t *testing.T) {
	for _, bad := range []string{"", "parley.example", "https://parley.example/", "ftp://parley.example", "https://", "https://a@parley.example", "https://parley.example?x"} {
		_, err := receiptlog.New(t.Context(), receiptlog.Options{DB: databasetest.Open(t), Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Origin: bad})
		if err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
