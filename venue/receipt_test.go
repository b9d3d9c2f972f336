package venue_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

// withNotary lets a house issue receipts; its log makes a checkpoint only when
// the test says so.
func withNotary(t testing.TB) (adjust func(*venue.Options), notary *receiptlog.Notary) {
	t.Helper()
	notary = new(receiptlog.Notary)
	return func(o *venue.Options) {
		dir, err := keys.Open(filepath.Join(t.TempDir(), "keys"))
		if err != nil {
			t.Fatal(err)
		}
		at, err := httpserver.ParseOrigin(origin)
		if err != nil {
			t.Fatal(err)
		}
		if notary.Issuer, err = issuer.New(issuer.Options{Keys: dir, Origin: at, Now: o.Now}); err != nil {
			t.Fatal(err)
		}
		key, err := dir.EnsureEd25519(keys.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		if notary.Log, err = receiptlog.New(t.Context(), receiptlog.Options{DB: o.DB, Key: key, Origin: origin, Now: o.Now}); err != nil {
			t.Fatal(err)
		}
		o.Receipts = notary
	}, notary
}

// reach opens an agreement of two that both agree to.
func (h *house) reach() *party {
	h.t.Helper()
	p := h.open(h.newParty(2))
	wantAccepted(h.t, h.do(p, "p1", agreement.ActionComment, "The tide is high at six."))
	wantAccepted(h.t, h.do(p, "p1", agreement.ActionAgree, ""))
	wantAccepted(h.t, h.do(p, "p2", agreement.ActionAgree, ""))
	return p
}

func TestEveryAcceptedActHasAReceiptThatTheLogProves(t *testing.T) {
	adjust, notary := withNotary(t)
	h := newHouse(t, adjust)
	p := h.reach()
	if sent := tally(h.outbox.drain(), p.names()); sent[message.TypeAgreementArtifact+" p1"] != 0 {
		t.Error("a bundle was sent before its receipts were proven")
	}
	if waiting, err := h.venue.Prove(t.Context()); err != nil || waiting != 1 {
		t.Errorf("%d rooms wait, %v; want 1 before the checkpoint", waiting, err)
	}
	if err := notary.Log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds nothing to do
		if waiting, err := h.venue.Prove(t.Context()); err != nil || waiting != 0 {
			t.Fatalf("%d rooms wait, %v", waiting, err)
		}
	}
	sent := tally(h.outbox.drain(), p.names())
	if sent[message.TypeAgreementArtifact+" p1"] != 1 || sent[message.TypeAgreementArtifact+" p2"] != 1 {
		t.Errorf("sent %v, want one bundle for each", sent)
	}
	report := h.bundleOf(p.a.AgreementID)
	if got := report.Receipts; got == nil || got.Count != report.Events || got.Logged != report.Events || got.Issuers[0] != origin {
		t.Errorf("receipts %+v of %d events", got, report.Events)
	}
}

func TestACommandThatIsRefusedOrRepeatedMakesNoReceipt(t *testing.T) {
	adjust, _ := withNotary(t)
	h := newHouse(t, adjust)
	p := h.open(h.newParty(2))
	req := h.request(p, "p1", agreement.ActionComment, "once")
	first, again := h.command(req), h.command(req)
	wantAccepted(t, first)
	if !again.Replayed || string(again.Event) != string(first.Event) {
		t.Errorf("repeated command: %+v", again)
	}
	outsider := h.request(p, "p1", agreement.ActionComment, "no")
	outsider.Caller.PubKey = newKey(t).PublicKey()
	wantRefusal(t, h.command(outsider), agreement.CodeUnknownAgreement)
	if n := h.count("venue_receipts"); n != 2 {
		t.Errorf("%d receipts of 2 events", n)
	}
}

// A room that expires has a bundle of its own making, and its receipts too.
func TestRunProvesWhatItCloses(t *testing.T) {
	adjust, notary := withNotary(t)
	h := newHouse(t, adjust)
	p := h.open(h.newParty(2))
	h.clock.advance(25 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- notary.Log.Run(ctx) }()
	go func() { ended <- h.venue.Run(ctx) }()
	for range 1000 {
		if h.count("venue_rooms WHERE bundle IS NOT NULL") == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	report := h.bundleOf(p.a.AgreementID)
	if report.Outcome != agreement.OutcomeExpired || report.Receipts == nil || report.Receipts.Logged != 2 {
		t.Errorf("outcome %s, receipts %+v", report.Outcome, report.Receipts)
	}
}

// Receipts that were switched off while a room was open are proven still, and
// those that lie in a log of another name stand without proofs.
func TestARoomOutlivesItsReceipts(t *testing.T) {
	for name, change := range map[string]func(*receiptlog.Notary, *venue.Options){
		"switched off": func(n *receiptlog.Notary, _ *venue.Options) { n.Closed = true },
		"other log": func(n *receiptlog.Notary, o *venue.Options) {
			_, key, _ := ed25519.GenerateKey(nil)
			log, err := receiptlog.New(t.Context(), receiptlog.Options{DB: o.DB, Key: key, Origin: "https://other.example", Now: o.Now})
			if err != nil {
				t.Fatal(err)
			}
			n.Log = log
		},
	} {
		t.Run(name, func(t *testing.T) {
			adjust, notary := withNotary(t)
			h := newHouse(t, adjust)
			p := h.open(h.newParty(2))
			first := notary.Log
			h.venue = h.newVenue(func(o *venue.Options) {
				o.Receipts = notary
				change(notary, o)
			})
			wantAccepted(t, h.do(p, "p2", agreement.ActionDisagree, ""))
			for _, log := range []*receiptlog.Log{first, notary.Log} {
				if err := log.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if waiting, err := h.venue.Prove(t.Context()); err != nil || waiting != 0 {
				t.Fatalf("%d rooms wait, %v", waiting, err)
			}
			got := h.bundleOf(p.a.AgreementID).Receipts
			if closed := notary.Closed; got == nil || closed && (got.Count != 1 || got.Logged != 1) || !closed && (got.Count != 2 || got.Logged != 0) {
				t.Errorf("receipts %+v", got)
			}
		})
	}
}

// A room that was opened before its venue made receipts goes on with them.
func TestARoomMayBeOlderThanItsReceipts(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	adjust, notary := withNotary(t)
	h.venue = h.newVenue(adjust)
	wantAccepted(t, h.do(p, "p2", agreement.ActionDisagree, ""))
	if err := notary.Log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.venue.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.bundleOf(p.a.AgreementID).Receipts; got == nil || got.Count != 1 {
		t.Errorf("receipts %+v, want one", got)
	}
}

// count counts the rows of a table.
func (h *house) count(table string) (n int) {
	h.t.Helper()
	err := h.db.View(h.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}
