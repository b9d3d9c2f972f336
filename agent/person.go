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

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/agreement"
)

// PersonRequest names whose data is asked for.
type PersonRequest struct {
	Who string `json:"who"` // npub, hex key or petname
}

// PersonExport is everything the home stores about a key.
type PersonExport struct {
	PubKey string      `json:"pubkey"`
	NPub   string      `json:"npub"`
	Rows   []PersonRow `json:"rows"`
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

// ExportPerson shows what is stored about a key, as of one moment. All of it is
// in memory at once.
func (a *Agent) ExportPerson(ctx context.Context, q PersonRequest) (*PersonExport, error) {
	pubkey, err := a.who(ctx, q.Who)
	if err != nil {
		return nil, err
	}
	export := &PersonExport{PubKey: pubkey, NPub: npub(pubkey), Rows: []PersonRow{}}
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return retention.Export(ctx, tx, append(Retention(), carrier.Retention()...), pubkey, func(line []byte) error {
			var row PersonRow
			if err := json.Unmarshal(line, &row); err != nil {
				return err
			}
			export.Rows = append(export.Rows, row)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	return export, nil
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
	closed, err := a.closedWith(ctx, pubkey)
	if err != nil {
		return nil, err
	}
	if !q.Agreements {
		erased.Kept, closed = len(closed), nil
	}
	if err := a.removeFolders(closed); err != nil {
		return nil, fmt.Errorf("removing the files of an agreement: %w", err)
	}
	err = a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if _, err := a.closedRooms(ctx, tx, pubkey); err != nil {
			return err // one was opened just now
		}
		erased.Removed, err = erase(ctx, tx, pubkey, closed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("erasing: %w", err)
	}
	if err := a.forgetSuccessor(ctx, pubkey); err != nil {
		return nil, fmt.Errorf("erasing a note: %w", err)
	}
	err = database.Compact(ctx, filepath.Join(a.home, databaseName))
	if errors.Is(err, database.ErrBusy) {
		return nil, unavailable("the deleted bytes are still in the write-ahead log: others are reading").hint("erase again")
	}
	return erased, err
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

// closedWith lists the agreements with a key. An open one is an error.
func (a *Agent) closedWith(ctx context.Context, pubkey string) (ids []string, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		ids, err = a.closedRooms(ctx, tx, pubkey)
		return err
	})
	return ids, err
}

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
	tables := append(ofPersons(), carrier.Retention()...)
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

// removeFolders deletes the files of agreements, which the database could
// write again until it forgets them too.
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

// forgetSuccessor takes a key out of the notes of contacts that moved to it.
func (a *Agent) forgetSuccessor(ctx context.Context, pubkey string) error {
	link, err := a.current()
	if err != nil {
		return err
	}
	contacts, err := link.engine.Contacts(ctx)
	if err != nil {
		return err
	}
	for _, c := range contacts {
		if c.Note == movedTo(pubkey) {
			c.Note = ""
			if err := link.engine.AddContact(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
