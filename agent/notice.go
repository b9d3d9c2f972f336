package agent

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/canonical"
)

// Kinds of Notice.
const (
	NoticeText       = "text"       // a text from a contact was stored
	NoticeRequest    = "request"    // a stranger wrote
	NoticeInvitation = "invitation" // an agreement arrived and was checked
	NoticeEvent      = "event"      // a room went one event further
	NoticeArtifact   = "artifact"   // a bundle passed every check
	NoticeResult     = "result"     // the venue answered a command
	NoticeRefused    = "refused"    // something failed a check and was not applied
)

// keptNotices bounds agent_notices and agent_refusals, in rows.
const keptNotices = 1000

// Notice is one line of the live stream. It names things; the operations show
// them.
type Notice struct {
	N           int64          `json:"n"` // grows by one or more; pass it as after to resume
	At          canonical.Time `json:"at"`
	Kind        string         `json:"kind"`
	Peer        string         `json:"peer,omitempty"` // hex key of who caused it
	ID          string         `json:"id,omitempty"`   // message id
	AgreementID string         `json:"agreement_id,omitempty"`
	Seq         int64          `json:"seq,omitempty"`
	Outcome     string         `json:"outcome,omitempty"`
}

// note appends a notice in the caller's transaction; readers see it after the
// commit.
func (a *Agent) note(ctx context.Context, tx *sql.Tx, n Notice) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO agent_notices (at, kind, peer, id, agreement_id, seq, outcome)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		a.now().Unix(), n.Kind, n.Peer, n.ID, n.AgreementID, n.Seq, n.Outcome)
	if err != nil {
		return fmt.Errorf("storing a notice: %w", err)
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM agent_notices WHERE n <= (SELECT max(n) FROM agent_notices) - $1`, keptNotices)
	if err != nil {
		return fmt.Errorf("bounding the notices: %w", err)
	}
	a.feed.poke()
	return nil
}

// noteRequest tells that a stranger wrote.
func (a *Agent) noteRequest(ctx context.Context, change carrier.Change) {
	err := a.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return a.note(ctx, tx, Notice{Kind: NoticeRequest, Peer: change.Peer, ID: change.MessageID})
	})
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "noting a request", "err", err)
	}
}

// notices reads at most 100 after n.
func (a *Agent) notices(ctx context.Context, after int64) ([]Notice, error) {
	var list []Notice
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT n, at, kind, peer, id, agreement_id, seq, outcome
			FROM agent_notices WHERE n > $1 ORDER BY n LIMIT 100`, after)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n Notice
			var at int64
			if err := rows.Scan(&n.N, &at, &n.Kind, &n.Peer, &n.ID, &n.AgreementID, &n.Seq, &n.Outcome); err != nil {
				return err
			}
			n.At = canonical.At(time.Unix(at, 0))
			list = append(list, n)
		}
		return rows.Err()
	})
	return list, err
}

func (a *Agent) lastNotice(ctx context.Context) (n int64, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT coalesce(max(n), 0) FROM agent_notices`).Scan(&n)
	})
	return n, err
}

// serveEvents streams notices as lines of JSON from ?after=N on, or from now.
func (a *Agent) serveEvents(w http.ResponseWriter, r *http.Request) {
	after, err := a.startOfStream(r)
	if err != nil {
		writeProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	stream := http.NewResponseController(w)
	if stream.Flush() != nil {
		return
	}
	for {
		changed := a.feed.wait()
		list, err := a.notices(r.Context(), after)
		if err != nil {
			return
		}
		for _, n := range list {
			if encodeJSON(w, n) != nil {
				return
			}
			after = n.N
		}
		if len(list) > 0 {
			if stream.Flush() != nil {
				return
			}
			continue
		}
		if !a.feed.sleep(r.Context(), changed) {
			return
		}
	}
}

func (a *Agent) startOfStream(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return a.lastNotice(r.Context())
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("after must be the number of a notice")
	}
	return n, nil
}

// feed wakes readers when something may have changed. A poke may come just
// before the commit it announces, so a sleeper also looks again by itself.
type feed struct {
	mu      sync.Mutex
	changed chan struct{}
	closed  chan struct{}
	once    sync.Once
}

// lookAgain is how long a sleeper trusts that nothing was missed.
const lookAgain = 100 * time.Millisecond

func newFeed() *feed {
	return &feed{changed: make(chan struct{}), closed: make(chan struct{})}
}

func (f *feed) poke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait returns a channel that the next poke closes.
func (f *feed) wait() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// sleep returns true when it is worth looking again, false when ctx or the feed
// has ended.
func (f *feed) sleep(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.closed:
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}

func (f *feed) close() { f.once.Do(func() { close(f.closed) }) }

// await calls check until it reports true, at most for limit; false means that
// the time ran out. A process that does not stay works meanwhile.
func (a *Agent) await(ctx context.Context, limit time.Duration, check func(context.Context) (bool, error)) (bool, error) {
	if done, err := check(ctx); done || err != nil || limit <= 0 {
		return done, err
	}
	a.startWorking()
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		changed := a.feed.wait()
		done, err := check(ctx)
		if done || err != nil {
			return done, err
		}
		if !a.feed.sleep(timed, changed) {
			return false, ctx.Err()
		}
	}
}

// exec runs one statement that belongs to an agent table.
func exec(ctx context.Context, db *database.DB, query string, args ...any) error {
	return db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}
