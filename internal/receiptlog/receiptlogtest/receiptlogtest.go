package receiptlogtest

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/logproof"
)

// Origin is the origin of the log's name, unless Options say otherwise.
const Origin = "https://parley.example"

// Server is a running log. It ends with the test that started it.
type Server struct {
	Log *receiptlog.Log
	DB  *database.DB
	URL string // of the HTTP server, without a path

	// Policy believes the log's key and needs no witness.
	Policy logproof.Policy
}

// Start starts a log. Options that are empty get a SQLite database in a folder
// of the test, a fresh key and Origin. A log started again on the same DB and
// Key goes on where it was.
func Start(t testing.TB, o receiptlog.Options) *Server {
	t.Helper()
	if o.DB == nil {
		o.DB = databasetest.Open(t)
	}
	if o.Key == nil {
		_, secret, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatalf("making the log's key: %v", err)
		}
		o.Key = secret
	}
	if o.Origin == "" {
		o.Origin = Origin
	}
	log, err := receiptlog.New(t.Context(), o)
	if err != nil {
		t.Fatalf("making the log: %v", err)
	}
	mux := http.NewServeMux()
	for _, route := range log.Routes() {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	run(t, log)
	return &Server{Log: log, DB: o.DB, URL: server.URL, Policy: logproof.Policy{Log: log.Key()}}
}

// run ends before the database is closed, which was opened earlier.
func run(t testing.TB, log *receiptlog.Log) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("running the log: %v", err)
		}
	})
}

// Append adds a receipt in a transaction of its own.
func (s *Server) Append(t testing.TB, ref string) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return s.Log.Append(ctx, tx, ref) })
	if err != nil {
		t.Fatalf("appending a receipt: %v", err)
	}
	s.Log.Wake()
}

// Proof is the proof of a receipt that was appended. It makes the checkpoint
// that covers it, where Run has not.
func (s *Server) Proof(t testing.TB, ref string) string {
	t.Helper()
	if err := s.Log.CatchUp(t.Context()); err != nil {
		t.Fatalf("making a checkpoint: %v", err)
	}
	proof, err := s.Log.Proof(t.Context(), ref)
	if err != nil {
		t.Fatalf("proving a receipt: %v", err)
	}
	return proof
}
