package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/issuer/issuertest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/internal/receiptlog/receiptlogtest"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/logproof"
	"github.com/parleykit/parley/protocol/receipt"
)

// signed is a receipt by a fresh key.
func signed(t testing.TB, claims receipt.Claims) string {
	t.Helper()
	dir, err := keys.Open(t.TempDir() + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	key, err := dir.EnsureEd25519(keys.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	claims.Kind, claims.Type = receipt.KindEvidence, "org.example/delivery"
	jws, err := issueReceipt(&claims, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return jws
}

func object(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParseReceipts_findsTheReceiptInEveryForm(t *testing.T) {
	jws := signed(t, receipt.Claims{})
	carrier := receipt.NewCarrier(jws)
	meta, metadata := map[string]any{}, map[string]any{}
	if err := errors.Join(carrier.ToMCP(meta), receipt.ToA2A(metadata, []receipt.Carrier{*carrier})); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ form, text string }{
		"jws":        {formJWS, jws + "\n"},
		"header":     {formHeaders, "HTTP/2 200 \r\nDate: now\r\npeac-receipt: " + jws + "\r\n\r\n"},
		"carrier":    {formCarrier, object(t, carrier)},
		"meta":       {formMCP, object(t, meta)},
		"mcp result": {formMCP, object(t, map[string]any{"_meta": meta, "content": []any{}})},
		"mcp answer": {formMCP, object(t, map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"_meta": meta}})},
		"mcp legacy": {formMCP, object(t, map[string]any{"peac_receipt": jws})},
		"a2a":        {formA2A, object(t, metadata)},
		"a2a status": {formA2A, object(t, map[string]any{"metadata": metadata})},
	} {
		in, err := parseReceipts([]byte(tt.text))
		if err != nil || in.form != tt.form || len(in.receipts) != 1 || in.receipts[0] != jws {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
	}
}

func FuzzParseReceipts(f *testing.F) {
	jws := signed(f, receipt.Claims{})
	f.Add([]byte(jws))
	f.Add([]byte("PEAC-Receipt: " + jws))
	f.Add([]byte(object(f, receipt.NewCarrier(jws))))
	f.Add([]byte(`{"result":{"_meta":{}}}`))
	f.Add([]byte(`{"schema":"x","receipts":[],"log_proofs":["p"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := parseReceipts(data)
		if err != nil {
			return
		}
		ring, err := bundleKeys(in.evidence.IssuerKeys)
		if err != nil {
			return
		}
		for _, jws := range in.receipts {
			if _, err := judgeReceipt(t.Context(), ring.judge, jws, receipt.VerifyOptions{Now: time.Now()}); err != nil && !errors.As(err, new(*agent.Error)) {
				t.Errorf("%T: %v", err, err)
			}
			if d, err := decodeReceipt(jws); err == nil && !json.Valid(d.Claims) {
				t.Errorf("claims of %q are shown as %q", jws, d.Claims)
			}
		}
	})
}

func TestDiscover_asksTheIssuerAndTellsWhatStaysOpen(t *testing.T) {
	server := issuertest.Start(t, issuer.Options{})
	issued, err := server.Issuer.Issue(receipt.Claims{Kind: receipt.KindEvidence, Type: "org.example/delivery"})
	if err != nil {
		t.Fatal(err)
	}
	ask := discovered(server.Resolver(t, issuer.ResolverOptions{}))
	r, err := judgeReceipt(t.Context(), ask, issued.JWS, receipt.VerifyOptions{})
	if err != nil || r.Verdict != issuer.VerdictValid || r.KeySource != sourceDiscovered {
		t.Errorf("of the issuer: %+v, %v", r, err)
	}
	silent := issuertest.StartHost(t, http.NotFoundHandler())
	r, err = judgeReceipt(t.Context(), discovered(silent.Resolver(t, issuer.ResolverOptions{})), signed(t, receipt.Claims{Issuer: silent.Origin}), receipt.VerifyOptions{})
	if err != nil || r.Verdict != issuer.VerdictUndetermined || r.Code != receipt.CodeVerifyIssuerConfigMissing || r.NextAction == "" {
		t.Errorf("of an issuer that says nothing: %+v, %v", r, err)
	}
	s := newSession(t.Context(), &globals{}, nil, io.Discard, io.Discard)
	if code := s.report(s.tell(&receiptsReport{Receipts: []receiptReport{r}})); code != exitNothing {
		t.Errorf("exit code %d", code)
	}
}

func TestAllowPinned_isForTheServerItselfOnly(t *testing.T) {
	for iss, want := range map[string]bool{
		"https://127.0.0.1:8417": true, "https://127.0.0.1:8418": false, "https://localhost:8417": false, "https://127.0.0.1": false,
	} {
		if _, got := allowPinned("https://127.0.0.1:8417", iss); got != want {
			t.Errorf("%s: %v", iss, got)
		}
		if !onLoopback(iss) {
			t.Errorf("%s is not this machine", iss)
		}
	}
	if onLoopback("https://parley.example") || onLoopback("did:key:z6Mk") {
		t.Error("others are this machine")
	}
}

// The failures of a proof have a code and a next action each.
func TestVerify_holdsReceiptsAgainstTheLog(t *testing.T) {
	log := receiptlogtest.Start(t, receiptlog.Options{})
	jws, other := signed(t, receipt.Claims{}), signed(t, receipt.Claims{})
	log.Append(t, receipt.Reference(jws))
	log.Append(t, receipt.Reference(other))
	proof := log.Proof(t, receipt.Reference(jws))
	policy := log.Policy
	stranger := receiptlogtest.Start(t, receiptlog.Options{}).Policy
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	witness, err := logproof.WitnessKey("w.example/w", public)
	if err != nil {
		t.Fatal(err)
	}
	witnessed := logproof.Policy{Log: policy.Log, Witnesses: []logproof.Key{witness}, Quorum: 1}
	report := func(jws string) receiptReport {
		r, err := judgeReceipt(t.Context(), (&keyring{}).judge, jws, receipt.VerifyOptions{Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := report(jws)
	if r.checkLog(policy, proof); r.Verdict != issuer.VerdictValid || r.Log == nil || r.Log.Origin != policy.Log.Name() {
		t.Errorf("in the log: %+v", r)
	}
	checkpoint, err := logproof.Unverified(proof[strings.Index(proof, "\n\n")+2:])
	if err != nil {
		t.Fatal(err)
	}
	cosignature, err := logproof.Sign(checkpoint.Text(), witness, secret, time.Unix(1796000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	r = report(jws)
	r.checkLog(witnessed, proof+cosignature)
	if r.Log == nil || !slices.Equal(r.Log.Witnesses, []string{"w.example/w at 2026-11-30T00:53:20Z"}) {
		t.Errorf("cosigned: %+v", r)
	}
	for code, refuse := range map[receipt.Code]func(r *receiptReport){
		"log_proof_invalid":     func(r *receiptReport) { *r = report(other); r.checkLog(policy, proof) },
		"log_signature_invalid": func(r *receiptReport) { r.checkLog(stranger, proof) },
		"log_witness_missing":   func(r *receiptReport) { r.checkLog(witnessed, proof) },
		"log_keys_unusable":     func(r *receiptReport) { r.checkLog(logproof.Policy{Log: witness}, proof) },
		"log_proof_malformed":   func(r *receiptReport) { r.checkLog(policy, "x"+proof) },
	} {
		r := report(jws)
		if refuse(&r); r.Verdict != issuer.VerdictInvalid || r.Code != code || r.NextAction == "" || r.Claims != nil {
			t.Errorf("%s: %+v", code, r)
		}
	}
}

// A text of a stranger stays harmless in every answer.
func TestTell_printsNothingThatATerminalObeys(t *testing.T) {
	var out, errOut bytes.Buffer
	s := newSession(t.Context(), &globals{}, nil, &out, &errOut)
	r := receiptReport{Report: issuer.Report{Verdict: issuer.VerdictValid, KeyID: "k\x1b[2J", Claims: &receipt.Claims{
		Issuer: "did:\x1b[2J", Type: "t\x1b[2J", Subject: "\u202e", OccurredAt: "\x07",
	}, Warnings: []receipt.Warning{{Code: "c", Pointer: "/\x1b"}}}, Log: &logReport{Origin: "o\x1b"}}
	bad := receiptReport{Report: issuer.Report{Verdict: issuer.VerdictInvalid, Detail: "d\x1b", Pointer: "/\u202e"}}
	_ = s.tell(&receiptsReport{Receipts: []receiptReport{r}})
	_ = s.tell(&receiptsReport{Receipts: []receiptReport{r, bad}})
	if text := out.String() + errOut.String(); bytes.ContainsAny([]byte(text), "\x1b\x07\u202e") {
		t.Errorf("%q", text)
	}
}

// Whoever holds the pinned key cannot sign in the name of another key, and a
// reference beside a receipt must be its own.
func TestVerify_refusesWhatContradictsItself(t *testing.T) {
	dir, err := openReceiptKeys(t.TempDir()+"/keys", true)
	if err != nil {
		t.Fatal(err)
	}
	key, err := dir.Ed25519(keys.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	victim, err := receipt.Decode(signed(t, receipt.Claims{}))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := issueReceipt(&receipt.Claims{Kind: receipt.KindEvidence, Type: "org.example/delivery", Issuer: victim.Claims.Issuer}, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, ring := range map[string]*keyring{
		"its own word": {},
		"a key":        {source: sourcePinned, only: key.PublicKey()},
		"a bundle":     {source: sourceBundle, set: discovery.KeySet{{ID: issuer.KeyID(key.PublicKey()), Public: key.PublicKey()}}},
	} {
		r, err := judgeReceipt(t.Context(), ring.judge, forged, receipt.VerifyOptions{Now: time.Now()})
		if err != nil || r.Verdict != issuer.VerdictInvalid {
			t.Errorf("under %s: %+v, %v", name, r, err)
		}
	}
	mixed := receipt.NewCarrier(forged)
	mixed.ReceiptRef = receipt.Reference("another")
	if in, err := parseReceipts([]byte(object(t, mixed))); receipt.CodeOf(err) != receipt.CodeInvalidFormat {
		t.Errorf("a reference to another receipt: %+v, %v", in, err)
	}
}
