package receiptlog_test

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/logproof"
)

// A log and its witness in another database, over HTTP: the checkpoint that Run
// makes is cosigned, and the reader can demand it.
func TestRunHasItsCheckpointsCosigned(t *testing.T) {
	const name = "witness.example/receipts/witness"
	_, witnessSecret, _ := ed25519.GenerateKey(nil)
	public, logSecret, _ := ed25519.GenerateKey(nil)
	logKey, err := logproof.LogKey("parley.example/receipts/log", public)
	if err != nil {
		t.Fatal(err)
	}
	w, err := merklelog.NewWitness(t.Context(), merklelog.WitnessOptions{
		DB: databasetest.Open(t), Name: name, Key: witnessSecret, Logs: []logproof.Key{logKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	route := receiptlog.WitnessRoute(w)
	mux := http.NewServeMux()
	mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	server := httptest.NewServer(mux)
	defer server.Close()
	asked, err := receiptlog.ParseWitness(w.Key().String(), server.URL+receiptlog.WitnessPath)
	if err != nil {
		t.Fatal(err)
	}
	log, err := receiptlog.New(t.Context(), receiptlog.Options{
		DB: databasetest.Open(t), Key: logSecret, Origin: "https://parley.example",
		Witnesses: []receiptlog.Witness{asked}, Client: server.Client(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	policy := logproof.Policy{Log: log.Key(), Witnesses: []logproof.Key{w.Key()}, Quorum: 1}
	for range 1000 {
		var signed string
		if signed, err = log.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err = logproof.Open(signed, policy); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err != nil {
		t.Errorf("checkpoint: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAWitnessIsNamedByAWitnessKey(t *testing.T) {
	public, _, _ := ed25519.GenerateKey(nil)
	logKey, err := logproof.LogKey("parley.example/receipts/log", public)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "x", logKey.String()} {
		if _, err := receiptlog.ParseWitness(key, "https://w.example"); err == nil {
			t.Errorf("%q is taken for a witness's key", key)
		}
	}
}
