package agreement

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/logproof"
	"github.com/parleykit/parley/protocol/receipt"
)

// ReceiptTypeAct is the type of a receipt for an act that is no decision, and
// the extension in which every receipt of a room describes its event.
const ReceiptTypeAct = "io.github.parleykit/agreement-act"

// The registered names that a decision and a room's thread are told by.
const (
	receiptTypeConsent = "org.peacprotocol/consent-record"
	groupConsent       = "org.peacprotocol/consent"
	groupCorrelation   = "org.peacprotocol/correlation"
	referencePrefix    = "sha256:"
)

// ReceiptClaims are the claims of the receipt for an event that has no receipt
// yet, without what its issuer adds: iss, iat, jti and policy. The event's own
// bytes are bound by their hash.
func ReceiptClaims(a *Agreement, e Event) (*receipt.Claims, error) {
	e.ReceiptRef = ""
	data, err := e.Canonical()
	if err != nil {
		return nil, fmt.Errorf("agreement: encoding an event: %w", err)
	}
	size := int64(len(data))
	c := &receipt.Claims{
		PeacVersion: receipt.Version, Kind: receipt.KindEvidence, Type: ReceiptTypeAct, Subject: "urn:uuid:" + a.AgreementID,
		Pillars: []string{"provenance"},
		Representation: &receipt.Representation{
			ContentHash: referencePrefix + canonical.Digest(data), ContentType: "application/json", ContentLength: &size,
		},
		OccurredAt: e.At.UTC().Format(time.RFC3339),
		Extensions: map[string]any{
			groupCorrelation: map[string]any{"workflow_id": a.AgreementID},
			ReceiptTypeAct: map[string]any{
				"agreement_id": a.AgreementID, "revision": e.Revision, "revision_digest": e.RevisionDigest, "seq": e.Seq,
				"participant_id": e.ParticipantID, "action": e.Action, "assurance": e.Assurance,
			},
		},
	}
	if status, decided := consentStatus[e.Action]; decided {
		c.Type, c.Pillars = receiptTypeConsent, []string{"consent", "provenance"}
		c.Extensions[groupConsent] = map[string]any{"consent_basis": "explicit", "consent_status": status}
	}
	return c, nil
}

// consentStatus is what the two decisions that say something about the terms
// are as consent.
var consentStatus = map[string]string{ActionAgree: "granted", ActionDisagree: "denied"}

// Acknowledge puts the receipt of the last event into the room: the event gets
// its reference, and the chain goes on from there. It returns the event. Call
// it before the event is stored or sent.
func (r *Room) Acknowledge(jws string) Event {
	last := &r.events[len(r.events)-1]
	last.ReceiptRef = strings.TrimPrefix(receipt.Reference(jws), referencePrefix)
	r.head = last.Hash()
	return *last
}

// Evidence is what third parties say about the events of a closed room. Empty
// when the venue issues no receipts.
type Evidence struct {
	Receipts   []string      `json:"receipts"`         // compact JWS, of the events that have a receipt_ref, in their order
	IssuerKeys []receipt.JWK `json:"issuer_keys"`      // which verify them, in the order of their first use
	LogKey     string        `json:"log_key,omitzero"` // of the log that holds them, a C2SP vkey; "" for none
	LogProofs  []string      `json:"log_proofs"`       // C2SP tlog-proof, of each receipt; none without LogKey
}

// ReceiptReport is what the receipts of a bundle prove. That issuer and log are
// the ones meant is for the caller to know.
type ReceiptReport struct {
	Issuers []string `json:"issuers"` // iss, of a venue without a name of its own one for each key
	Keys    []string `json:"keys"`    // RFC 7638 thumbprints of the keys that verify them
	Count   int      `json:"count"`   // receipts, each of one event
	Logged  int      `json:"logged"`  // of them, proven to be in the log
	Log     string   `json:"log"`     // origin of the log; "" for none
	LogKey  string   `json:"log_key"`
}

// checkEvidence verifies what a bundle holds beside the room, now being when
// the venue closed it. nil when there is nothing.
func checkEvidence(r *Room, given *Evidence, now time.Time) (*ReceiptReport, error) {
	var acknowledged []Event
	for _, e := range r.events {
		if e.ReceiptRef != "" {
			acknowledged = append(acknowledged, e)
		}
	}
	if len(given.Receipts) != len(acknowledged) {
		return nil, refuse(CodeInvalid, "%d receipts for %d events that name one", len(given.Receipts), len(acknowledged))
	}
	if len(acknowledged) == 0 {
		if len(given.IssuerKeys)+len(given.LogKey)+len(given.LogProofs) > 0 {
			return nil, refuse(CodeInvalid, "keys or proofs without a receipt")
		}
		return nil, nil
	}
	report := &ReceiptReport{Count: len(acknowledged)}
	keys := issuerKeys{given: given.IssuerKeys}
	for i, e := range acknowledged {
		if err := checkReceipt(r, e, given.Receipts[i], &keys, now); err != nil {
			return nil, fmt.Errorf("receipt of event %d: %w", e.Seq, err)
		}
	}
	if len(keys.used) != len(given.IssuerKeys) {
		return nil, refuse(CodeInvalid, "an issuer key that verifies nothing")
	}
	report.Issuers, report.Keys = keys.issuers, keys.used
	if err := checkProofs(acknowledged, given, report); err != nil {
		return nil, err
	}
	return report, nil
}

// issuerKeys hands out the keys of a bundle, which must be listed in the order
// of their first use.
type issuerKeys struct {
	given   []receipt.JWK
	issuers []string // in the order of their first use
	used    []string // thumbprints
}

// find is the key of a receipt that nobody believes yet.
func (k *issuerKeys) find(d *receipt.Decoded) (receipt.JWK, error) {
	i := slices.IndexFunc(k.given, func(j receipt.JWK) bool { return j.KeyID == d.KeyID })
	if i < 0 || i > len(k.used) {
		return receipt.JWK{}, refuse(CodeInvalid, "no issuer key for it, or not in the order of use")
	}
	if !slices.Contains(k.issuers, d.Claims.Issuer) {
		k.issuers = append(k.issuers, d.Claims.Issuer)
	}
	key := k.given[i]
	if i == len(k.used) {
		if slices.Contains(k.used, key.Thumbprint()) {
			return receipt.JWK{}, refuse(CodeInvalid, "an issuer key under two names")
		}
		k.used = append(k.used, key.Thumbprint())
	}
	return key, nil
}

func checkReceipt(r *Room, e Event, jws string, keys *issuerKeys, now time.Time) error {
	if receipt.Reference(jws) != referencePrefix+e.ReceiptRef {
		return refuse(CodeInvalid, "not the receipt that the event names")
	}
	decoded, err := receipt.Decode(jws)
	if err != nil {
		return err
	}
	jwk, err := keys.find(decoded)
	if err != nil {
		return err
	}
	key, err := jwk.PublicKey()
	if err != nil {
		return err
	}
	if jwk != receipt.NewJWK(key, decoded.KeyID) {
		return refuse(CodeInvalid, "issuer key in another form than a receipt's")
	}
	if strings.HasPrefix(decoded.Claims.Issuer, "did:key:") && decoded.Claims.Issuer != receipt.DIDKey(key) {
		return refuse(CodeInvalid, "issuer key is not the one that the issuer's name is made of")
	}
	verified, err := receipt.Verify(jws, key, receipt.VerifyOptions{Now: now})
	if err != nil {
		return err
	}
	return checkClaims(r, e, verified.Claims)
}

// checkClaims holds a receipt against the event it is for.
func checkClaims(r *Room, e Event, got receipt.Claims) error {
	want, err := ReceiptClaims(r.agreement, e)
	if err != nil {
		return err
	}
	want.Issuer, want.IssuedAt, want.ID, want.Policy = got.Issuer, got.IssuedAt, got.ID, got.Policy
	expected, err := canonical.Marshal(want)
	if err != nil {
		return err
	}
	if actual, err := canonical.Marshal(got); err != nil || !bytes.Equal(actual, expected) {
		return refuse(CodeInvalid, "it says something else than the event")
	}
	return nil
}

func checkProofs(acknowledged []Event, given *Evidence, report *ReceiptReport) error {
	if given.LogKey == "" && len(given.LogProofs) == 0 {
		return nil
	}
	key, err := logproof.ParseKey(given.LogKey)
	if err != nil {
		return fmt.Errorf("log key: %w", err)
	}
	if key.String() != given.LogKey || len(given.LogProofs) != len(acknowledged) {
		return refuse(CodeInvalid, "log key in another form, or %d proofs for %d receipts", len(given.LogProofs), len(acknowledged))
	}
	for i, e := range acknowledged {
		if err := checkProof(e.ReceiptRef, given.LogProofs[i], key); err != nil {
			return fmt.Errorf("log proof of event %d: %w", e.Seq, err)
		}
	}
	report.Log, report.LogKey, report.Logged = key.Name(), given.LogKey, len(acknowledged)
	return nil
}

// checkProof admits nothing in a proof that its verification does not cover:
// no extra data, and no signature but the log's.
func checkProof(ref, text string, key logproof.Key) error {
	leaf, err := hex.DecodeString(ref)
	if err != nil {
		return refuse(CodeInvalid, "reference %q", ref)
	}
	if _, err := logproof.Verify(leaf, text, logproof.Policy{Log: key}); err != nil {
		return err
	}
	p, err := logproof.ParseProof(text)
	if err != nil {
		return err
	}
	_, signatures, _ := strings.Cut(p.Checkpoint, "\n\n")
	if p.Extra != nil || strings.Count(signatures, "\n") != 1 || p.String() != text {
		return refuse(CodeInvalid, "more than the log's own signature")
	}
	return nil
}
