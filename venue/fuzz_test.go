package venue_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/venue"
)

// Whatever bytes a member sends as a command, it gets an answer, and only a
// well-formed one changes the room.
func FuzzCommand(f *testing.F) {
	h := newHouse(f)
	p := h.open(h.newParty(2))
	for _, action := range []string{agreement.ActionComment, agreement.ActionAgree} {
		req := h.request(p, "p1", action, "")
		f.Add(req.Command, req.Key)
	}
	f.Add([]byte(`{"agreement_id":"`+p.a.AgreementID+`"}`), "a key")
	f.Add([]byte("\xff"), "")
	caller := venue.Caller{PubKey: p.keys["p1"].PublicKey()}
	f.Fuzz(func(t *testing.T, command []byte, key string) {
		err := h.db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
			for _, id := range []string{"", p.a.AgreementID} {
				result, err := h.venue.Command(ctx, tx, venue.CommandRequest{Caller: caller, AgreementID: id, Key: key, Command: command})
				if err != nil {
					return err
				}
				if (result.Event == nil) == (result.Refusal == nil) {
					t.Errorf("answer %+v", result)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
