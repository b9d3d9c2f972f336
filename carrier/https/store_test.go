package https

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/envelope"
)

// Whatever is put, removed and purged, the totals of the boxes are what a count says.
func TestTotalsEqualACount(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		now := time.Unix(1_800_000_000, 0)
		m, err := NewMailbox(t.Context(), MailboxOptions{
			DB: open(t), Origin: "https://mail.example", Key: exampleKey(), Quota: 4, QuotaBytes: 200, Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(r *rapid.T) {
			recipients := rapid.SampledFrom([]string{"a", "b"})
			ids := rapid.Custom(func(r *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 12).Draw(r, "id")) })
			for range rapid.IntRange(1, 15).Draw(r, "steps") {
				switch rapid.IntRange(0, 3).Draw(r, "act") {
				case 0, 1:
					out := envelope.Outside{ID: ids.Draw(r, "put"), Recipient: recipients.Draw(r, "of"), Expires: now.Add(time.Duration(rapid.IntRange(1, 4).Draw(r, "life")) * time.Second)}
					if _, err := m.put(t.Context(), out, make([]byte, rapid.IntRange(1, 90).Draw(r, "size"))); err != nil && err != errFull {
						r.Fatal(err)
					}
				case 2:
					if _, err := m.remove(t.Context(), recipients.Draw(r, "from"), rapid.SliceOfN(ids, 1, 3).Draw(r, "remove")); err != nil {
						r.Fatal(err)
					}
				case 3:
					now = now.Add(time.Second)
					if _, err := m.purge(t.Context()); err != nil {
						r.Fatal(err)
					}
				}
				holdTotals(t.Context(), r, m)
			}
		})
	})
}

// holdTotals compares https_boxes with https_envelopes.
func holdTotals(ctx context.Context, r *rapid.T, m *Mailbox) {
	read := func(query string) (rows []string) {
		err := m.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			rows = nil
			found, err := tx.QueryContext(ctx, query)
			if err != nil {
				return err
			}
			defer found.Close()
			for found.Next() {
				var recipient string
				var count, size int64
				if err := found.Scan(&recipient, &count, &size); err != nil {
					return err
				}
				if count > 4 || size > 200 {
					return fmt.Errorf("a box beyond its quota: %d, %d bytes", count, size)
				}
				rows = append(rows, fmt.Sprint(recipient, " ", count, " ", size))
			}
			return found.Err()
		})
		if err != nil {
			r.Fatal(err)
		}
		return rows
	}
	kept := read("SELECT recipient, count, size FROM https_boxes ORDER BY recipient")
	counted := read("SELECT recipient, count(*), sum(size) FROM https_envelopes GROUP BY recipient ORDER BY recipient")
	if !slices.Equal(kept, counted) {
		r.Fatalf("kept %v, counted %v", kept, counted)
	}
}

func TestExpiredEnvelopesAreNotShownAndPurged(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m, err := NewMailbox(t.Context(), MailboxOptions{DB: databasetest.Open(t), Origin: "https://mail.example", Key: exampleKey(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	const many = 2*purgeBatch + 1
	for i := range many {
		out := envelope.Outside{ID: fmt.Sprint(i), Recipient: "a", Expires: now.Add(time.Second)}
		if _, err := m.put(t.Context(), out, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Second)
	if page, err := m.page(t.Context(), "a", maxPage); err != nil || len(page) > 0 {
		t.Errorf("%d expired envelopes are shown (%v)", len(page), err)
	}
	if purged, err := m.purge(t.Context()); err != nil || purged != many {
		t.Errorf("purged %d (%v)", purged, err)
	}
	if count, size, err := m.total(t.Context()); err != nil || count != 0 || size != 0 {
		t.Errorf("left: %d of %d bytes (%v)", count, size, err)
	}
}

func FuzzPost(f *testing.F) {
	m, err := NewMailbox(f.Context(), MailboxOptions{DB: databasetest.Open(f), Origin: "https://mail.example", Key: exampleKey(), Rate: 1 << 30})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "{}", "null", `{"kind":1059,"tags":[["p"],["expiration","1"]]}`, `{"id":"","pubkey":"","created_at":0,"kind":1059,"tags":[],"content":"","sig":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		m.post(w, httptest.NewRequest(http.MethodPost, EnvelopesPath, bytes.NewReader(body)))
		_, err := envelope.Inspect(body, time.Now())
		if (err == nil) != (w.Code == http.StatusAccepted) {
			t.Fatalf("status %d for an envelope of which %v", w.Code, err)
		}
	})
}
