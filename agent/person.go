package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/agreement"
)

// PersonRequest names whose data is asked for.
type PersonRequest struct {
	Who string `json:"who"` // npub, hex key or petname
}

// PersonRow is one row of one table.
type PersonRow struct {
	Table string          `json:"table"`
	Row   json.RawMessage `json:"row"` // the columns by name; byte strings in base64
}

// EraseRequest names whose data is deleted.
type EraseRequest struct {
	Who        string `json:"who"`                  // npub, hex key or petname
	Agreements bool   `json:"agreements,omitempty"` // closed agreements with it too, and their files
}

// PersonErased says what is gone. Again: nothing more is.
type PersonErased struct {
	PubKey  string           `json:"pubkey"`
	NPub    string           `json:"npub"`
	Removed map[string]int64 `json:"removed"` // rows by table
	Kept    int              `json:"kept"`    // closed agreements with it that stay
}

// ExportPerson gives emit what is stored about a key, as of one moment, each row
// as the JSON of a PersonRow. One row at a time is in memory; emit must not keep
// it.
func (a *Agent) ExportPerson(ctx context.Context, q PersonRequest, emit func(line []byte) error) error {
	pubkey, err := a.who(ctx, q.Who)
	if err != nil {
		return err
	}
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return retention.Export(ctx, tx, slices.Concat(Retention(), []retention.Table{keysOfRequests}, carrier.Retention(), https.Retention()), pubkey, emit)
	})
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return nil
}

// ErasePerson deletes what is stored about a key and makes the bytes disappear
// from the database. It refuses while an agreement with it is open. What others
// hold, such as relays and the other participants, is not reached.
func (a *Agent) ErasePerson(ctx context.Context, q EraseRequest) (*PersonErased, error) {
	pubkey, err := a.who(ctx, q.Who)
	if err != nil {
		return nil, err
	}
	if err := a.erasable(ctx, pubkey); err != nil {
		return nil, err
	}
	a.writing.Lock() // no file of an agreement comes back meanwhile
	defer a.writing.Unlock()
	erased := &PersonErased{PubKey: pubkey, NPub: npub(pubkey)}
	if err := a.eraseRows(ctx, q, erased); err != nil {
		return nil, fmt.Errorf("erasing: %w", err)
	}
	if _, err := a.eraseFiles(ctx); err != nil {
		return nil, err
	}
	a.introduceSoon(ctx) // its topics are listened to no more
	return erased, a.compact(ctx)
}

// eraseRows is the erase in the database: all of it or nothing. The files of
// the agreements that it takes are noted and go after the commit.
func (a *Agent) eraseRows(ctx context.Context, q EraseRequest, erased *PersonErased) error {
	return a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		closed, err := a.closedRooms(ctx, tx, erased.PubKey)
		if err != nil {
			return err
		}
		if !q.Agreements {
			erased.Kept, closed = len(closed), nil
		}
		for _, id := range closed {
			if _, err := tx.ExecContext(ctx, `INSERT INTO agent_erasing (agreement_id) VALUES ($1) ON CONFLICT (agreement_id) DO NOTHING`, id); err != nil {
				return err
			}
		}
		if erased.Removed, err = erase(ctx, tx, erased.PubKey, closed); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE carrier_contacts SET note = '' WHERE note = $1`, movedTo(erased.PubKey))
		return err
	})
}

// eraseFiles removes the folders of erased agreements and forgets which they
// were; some reports whether there were any. The caller holds writing.
func (a *Agent) eraseFiles(ctx context.Context) (some bool, err error) {
	ids, err := a.erasing(ctx)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	if err := a.removeFolders(ids); err != nil {
		return true, fmt.Errorf("removing the files of an agreement: %w", err)
	}
	if err := exec(ctx, a.db, `DELETE FROM agent_erasing`); err != nil {
		return true, fmt.Errorf("noting that files are gone: %w", err)
	}
	return true, nil
}

// erasing lists the erased agreements whose files may still be there.
func (a *Agent) erasing(ctx context.Context) (ids []string, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT agreement_id FROM agent_erasing`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("reading erased agreements: %w", err)
	}
	return ids, nil
}

// endErasure completes an erase that was cut off after its commit.
func (a *Agent) endErasure(ctx context.Context) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if some, err := a.eraseFiles(ctx); err != nil || !some {
		return err
	}
	return a.compact(ctx)
}

// compact makes the bytes of deleted rows disappear from the database's files.
func (a *Agent) compact(ctx context.Context) error {
	err := database.Compact(ctx, filepath.Join(a.home, databaseName))
	if errors.Is(err, database.ErrBusy) {
		return unavailable("the deleted bytes are still in the write-ahead log: others are reading").hint("erase again")
	}
	return err
}

// erasable refuses keys without which the agent does not work.
func (a *Agent) erasable(ctx context.Context, pubkey string) error {
	own, err := a.ownKeys(ctx)
	if err != nil {
		return err
	}
	if own[pubkey] {
		return refused("this is a key of this agent itself").hint("to end the agent, remove its home: %s", a.home)
	}
	servers, err := a.servers(ctx)
	if err != nil {
		return fmt.Errorf("reading the servers: %w", err)
	}
	for _, s := range servers {
		if s.Venue == pubkey {
			return refused("this is the venue of the pinned server %s, no person", s.Origin)
		}
	}
	return nil
}

// closedRooms lists the agreements with a key. An open one is an error.
func (a *Agent) closedRooms(ctx context.Context, tx *sql.Tx, pubkey string) (ids []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+roomColumns+` FROM agent_rooms WHERE `+withPerson, pubkey)
	if err != nil {
		return nil, fmt.Errorf("reading agreements: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRoom(rows)
		if err != nil {
			return nil, fmt.Errorf("reading agreements: %w", err)
		}
		id := r.agreement.AgreementID
		if r.outcome == agreement.OutcomePending && r.state != StateRefused && a.now().Before(r.agreement.Deadline.Time) {
			return nil, refused("the agreement %s with this key is open until %s", id, r.agreement.Deadline).
				hint("read it: parley review %s; decide or withdraw, or erase after its deadline", id)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// erase deletes the rows about a key, and those of the closed agreements that
// are named.
func erase(ctx context.Context, tx *sql.Tx, pubkey string, closed []string) (map[string]int64, error) {
	tables := slices.Concat([]retention.Table{keysOfRequests}, ofPersons(), carrier.Retention(), https.Retention())
	if len(closed) == 0 {
		return retention.Erase(ctx, tx, tables, pubkey)
	}
	traces, err := retention.Erase(ctx, tx, tracesOfRooms(), pubkey)
	if err != nil {
		return nil, err
	}
	messages, err := carrier.EraseThreads(ctx, tx, closed)
	if err != nil {
		return nil, err
	}
	removed, err := retention.Erase(ctx, tx, append(tables, ofRooms()...), pubkey)
	if err != nil {
		return nil, err
	}
	for table, n := range traces {
		removed[table] += n
	}
	if messages > 0 {
		removed["messages of agreements"] = messages
	}
	return removed, nil
}

// removeFolders deletes the files of agreements.
func (a *Agent) removeFolders(ids []string) error {
	for _, id := range ids {
		if err := os.RemoveAll(a.folder(id)); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err := durable.SyncFolder(filepath.Join(a.home, agreementsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
