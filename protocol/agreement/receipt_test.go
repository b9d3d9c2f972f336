package agreement

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/protocol/logproof"
	"github.com/parleykit/parley/protocol/receipt"
)

// notary issues receipts for the events of a room and logs them.
type notary struct {
	key     ed25519.PrivateKey
	issuer  string
	count   int
	log     ed25519.PrivateKey
	logKey  logproof.Key
	hashes  []tlog.Hash // stored, of the tree
	entries int64
	Evidence
}

func newNotary(t testing.TB, name string) *notary {
	t.Helper()
	seed := func(what string) ed25519.PrivateKey {
		sum := sha256.Sum256([]byte(what + name))
		return ed25519.NewKeyFromSeed(sum[:])
	}
	n := &notary{key: seed("issuer "), log: seed("log ")}
	n.issuer = receipt.DIDKey(n.key.Public().(ed25519.PublicKey))
	var err error
	if n.logKey, err = logproof.LogKey(name+".example/receipts/log", n.log.Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	n.LogKey = n.logKey.String()
	n.IssuerKeys = []receipt.JWK{receipt.NewJWK(n.key.Public().(ed25519.PublicKey), "")}
	return n
}

// acknowledge gives the last event of the room its receipt.
func (n *notary) acknowledge(t testing.TB, r *Room) {
	t.Helper()
	c, err := ReceiptClaims(r.agreement, r.events[len(r.events)-1])
	if err != nil {
		t.Fatal(err)
	}
	n.count++
	c.Issuer, c.IssuedAt, c.ID = n.issuer, start.Unix(), fmt.Sprint("receipt ", n.count)
	jws, err := receipt.Issue(c, n.IssuerKeys[0].KeyID, func(message []byte) ([]byte, error) {
		return ed25519.Sign(n.key, message), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e := r.Acknowledge(jws)
	n.Receipts = append(n.Receipts, jws)
	leaf, _ := hex.DecodeString(e.ReceiptRef)
	hashes, err := tlog.StoredHashes(n.entries, leaf, n.reader())
	if err != nil {
		t.Fatal(err)
	}
	n.hashes, n.entries = append(n.hashes, hashes...), n.entries+1
}

func (n *notary) reader() tlog.HashReaderFunc {
	return func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, n.hashes[i])
		}
		return list, nil
	}
}

// evidence proves every receipt by one checkpoint.
func (n *notary) evidence(t testing.TB) *Evidence {
	t.Helper()
	root, err := tlog.TreeHash(n.entries, n.reader())
	if err != nil {
		t.Fatal(err)
	}
	text := logproof.Checkpoint{Origin: n.logKey.Name(), Size: n.entries, Root: root}.Text()
	line, err := logproof.Sign(text, n.logKey, n.log, start)
	if err != nil {
		t.Fatal(err)
	}
	n.LogProofs = nil
	for i := range n.entries {
		path, err := tlog.ProveRecord(n.entries, i, n.reader())
		if err != nil {
			t.Fatal(err)
		}
		p := logproof.Proof{Index: i, Path: path, Checkpoint: text + "\n" + line}
		n.LogProofs = append(n.LogProofs, p.String())
	}
	e := n.Evidence
	e.Receipts, e.IssuerKeys, e.LogProofs = slices.Clone(e.Receipts), slices.Clone(e.IssuerKeys), slices.Clone(e.LogProofs)
	return &e
}

// acknowledgedRoom is a room of two whose every event has a receipt.
func acknowledgedRoom(t testing.TB, n *notary) *Room {
	t.Helper()
	r := openRoom(t, sample(2))
	n.acknowledge(t, r)
	for i, action := range []string{ActionComment, ActionAgree, ActionAgree} {
		body := ""
		if action == ActionComment {
			body = "Chart datum."
		}
		mustAct(t, r, i%2+1, action, body, start)
		n.acknowledge(t, r)
	}
	return r
}

func TestReceipts_ofEveryEventAreProvenByTheBundle(t *testing.T) {
	n := newNotary(t, "notary")
	r := acknowledgedRoom(t, n)
	_, data, err := NewBundle(r, venueKey, n.evidence(t), start)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Verify(data)
	if err != nil {
		t.Fatal(err)
	}
	got := report.Receipts
	if got == nil || got.Count != 4 || got.Logged != 4 || len(got.Issuers) != 1 || got.Issuers[0] != n.issuer || got.LogKey != n.LogKey ||
		len(got.Keys) != 1 || got.Keys[0] != n.IssuerKeys[0].Thumbprint() {
		t.Errorf("report %+v", got)
	}
	replayed, err := Replay(r.agreement, r.Events())
	if err != nil || replayed.Head() != r.Head() {
		t.Errorf("replay gives another chain: %v", err)
	}
	n.LogKey, n.LogProofs = "", nil // a log is not demanded
	evidence := n.Evidence
	if _, data, err = NewBundle(r, venueKey, &evidence, start); err != nil {
		t.Fatal(err)
	}
	if report, err = Verify(data); err != nil || report.Receipts.Logged != 0 {
		t.Errorf("without a log: %+v, %v", report, err)
	}
}

func TestReceipts_ofADecisionAreConsentRecords(t *testing.T) {
	r := reachedRoom(t, sample(2))
	for _, e := range r.events {
		c, err := ReceiptClaims(r.agreement, e)
		if err != nil {
			t.Fatal(err)
		}
		if decision := e.Action == ActionAgree; (c.Type == receiptTypeConsent) != decision {
			t.Errorf("%s has a receipt of type %s", e.Action, c.Type)
		}
	}
}

// TestReceipts_thatDoNotBelongAreRefused encodes each forgery correctly.
func TestReceipts_thatDoNotBelongAreRefused(t *testing.T) {
	n, other := newNotary(t, "notary"), newNotary(t, "other")
	r := acknowledgedRoom(t, n)
	acknowledgedRoom(t, other)
	mine, theirs := n.evidence(t), other.evidence(t)
	swap := func(list []string) { list[1], list[2] = list[2], list[1] }
	for name, forge := range map[string]func(*Evidence){
		"none":                      func(e *Evidence) { *e = Evidence{} },
		"one missing":               func(e *Evidence) { e.Receipts = e.Receipts[1:] },
		"order":                     func(e *Evidence) { swap(e.Receipts) },
		"of another issuer":         func(e *Evidence) { e.Receipts[1] = theirs.Receipts[1] },
		"no key":                    func(e *Evidence) { e.IssuerKeys = nil },
		"another key":               func(e *Evidence) { e.IssuerKeys = theirs.IssuerKeys },
		"another key of that name":  func(e *Evidence) { e.IssuerKeys[0].X = theirs.IssuerKeys[0].X },
		"a key that is of no use":   func(e *Evidence) { e.IssuerKeys = append(e.IssuerKeys, theirs.IssuerKeys...) },
		"a key with other words":    func(e *Evidence) { e.IssuerKeys[0].Use = "" },
		"another log":               func(e *Evidence) { e.LogKey = theirs.LogKey },
		"log key in blanks":         func(e *Evidence) { e.LogKey += "\n" },
		"proofs of another log":     func(e *Evidence) { e.LogKey, e.LogProofs = theirs.LogKey, theirs.LogProofs },
		"order of proofs":           func(e *Evidence) { swap(e.LogProofs) },
		"one proof missing":         func(e *Evidence) { e.LogProofs = e.LogProofs[1:] },
		"proofs without a key":      func(e *Evidence) { e.LogKey = "" },
		"a key without proofs":      func(e *Evidence) { e.LogProofs = nil },
		"a signature of a stranger": func(e *Evidence) { e.LogProofs[0] += strings.SplitAfter(theirs.LogProofs[0], "\n\n")[2] },
		"extra data": func(e *Evidence) {
			e.LogProofs[0] = strings.Replace(e.LogProofs[0], "\nindex", "\nextra AAAA\nindex", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := *mine
			e.Receipts, e.IssuerKeys, e.LogProofs = slices.Clone(e.Receipts), slices.Clone(e.IssuerKeys), slices.Clone(e.LogProofs)
			forge(&e)
			_, data, err := NewBundle(r, venueKey, &e, start)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(data); !errors.Is(err, ErrBundle) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A receipt that is genuine, and of this issuer, but about something else.
func TestReceipts_thatSaySomethingElseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*receipt.Claims){
		"other subject": func(c *receipt.Claims) { c.Subject = "urn:uuid:other" },
		"other content": func(c *receipt.Claims) { c.Representation.ContentHash = "sha256:" + ZeroHash },
		"denied":        func(c *receipt.Claims) { c.Extensions[ReceiptTypeAct].(map[string]any)["action"] = ActionDisagree },
		"more":          func(c *receipt.Claims) { c.PurposeDeclared = "train" },
		"later":         func(c *receipt.Claims) { c.IssuedAt = start.Add(time.Hour).Unix() },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNotary(t, "notary")
			r := openRoom(t, sample(2))
			c, err := ReceiptClaims(r.agreement, r.events[0])
			if err != nil {
				t.Fatal(err)
			}
			c.Issuer, c.IssuedAt, c.ID = n.issuer, start.Unix(), "1"
			change(c)
			jws, err := receipt.Issue(c, n.IssuerKeys[0].KeyID, func(message []byte) ([]byte, error) {
				return ed25519.Sign(n.key, message), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			r.Acknowledge(jws)
			mustAct(t, r, 1, ActionWithdraw, "", start)
			e := Evidence{Receipts: []string{jws}, IssuerKeys: n.IssuerKeys}
			_, data, err := NewBundle(r, venueKey, &e, start)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(data); !errors.Is(err, ErrBundle) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestReceipts_noChangedByteOfThemVerifies(t *testing.T) {
	n := newNotary(t, "notary")
	r := openRoom(t, sample(2))
	n.acknowledge(t, r)
	mustAct(t, r, 1, ActionWithdraw, "", start)
	n.acknowledge(t, r)
	_, data, err := NewBundle(r, venueKey, n.evidence(t), start)
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(data), `"issuer_keys"`)
	for i := from; i < len(data); i += 11 {
		changed := slices.Clone(data)
		changed[i] ^= 1
		if _, err := Verify(changed); !errors.Is(err, ErrBundle) {
			t.Fatalf("byte %d, %q: %v", i, data[max(0, i-20):min(len(data), i+20)], err)
		}
	}
}

// TestReceipts_ofTheLongestRoomFit holds the bundle of as many events as the
// rules allow, all with receipts and proofs in a log of a million entries.
func TestReceipts_ofTheLongestRoomFit(t *testing.T) {
	n := newNotary(t, strings.Repeat("n", 63))
	a := sample(MaxParticipants)
	r := openRoom(t, a)
	n.acknowledge(t, r)
	body := strings.Repeat("x", 1200)
	for p := 1; p <= MaxParticipants; p++ {
		for err := error(nil); err == nil; {
			if _, err = act(r, p, ActionComment, body, start); err == nil {
				n.acknowledge(t, r)
			}
		}
		mustAct(t, r, p, ActionAgree, "", start)
		n.acknowledge(t, r)
	}
	_, data, err := NewBundle(r, venueKey, n.evidence(t), start)
	if err != nil {
		t.Fatal(err)
	}
	longer := len(r.events) * (20 - 9) * 45 // a million entries make a path of 20 hashes
	t.Logf("bundle of %d bytes and up to %d more, %d events", len(data), longer, len(r.events))
	if len(data)+longer > MaxBundleSize {
		t.Error("too long")
	}
}
