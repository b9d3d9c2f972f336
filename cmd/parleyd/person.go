package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/venue"
)

// eraseStep is how many events of the relay one transaction removes.
const eraseStep = 500

// personVerbs are those that look after what is stored.
func personVerbs() []verb {
	return []verb{
		{
			name: "export", args: "KEY [FILE]", least: 1, most: 2, line: "write what is stored about a person",
			help: `KEY is npub1… or 64 hex digits. One JSON document a line: {"table":"…","row":{…}},
byte strings in base64; events of the relay as they are. FILE must not exist;
without it the lines go to standard output, which is no terminal. docs/retention.md explains the tables.
` + offline + `

Examples:
  parleyd -c parley.yaml export npub1… person.jsonl
  parleyd -c parley.yaml export npub1… | less`, run: runExport,
		},
		{
			name: "erase", args: "KEY", least: 1, most: 1, line: "remove what is stored about a person",
			help: `KEY is npub1… or 64 hex digits. Refused while the person takes part in an open
room; see parleyd venue close. Closed rooms go whole: their other members have the bundle. Backups that
were made before still hold the person.
` + offline + `

Example:
  parleyd -c parley.yaml erase npub1…`, run: runErase,
		},
		{
			name: "vacuum", line: "give the space of removed data back to the disk",
			help: `SQLite is rewritten (VACUUM), the relay's embedded store compacted. It needs as
much free space as they use. PostgreSQL does the like by itself (autovacuum).
` + offline + `

Example:
  parleyd -c parley.yaml vacuum`, run: runVacuum,
		},
	}
}

const offline = "Stop the server first, unless everything it stores is in PostgreSQL."

// runExport writes a person's rows and events.
func runExport(ctx context.Context, in *invocation) (err error) {
	s, person, err := in.openFor(ctx)
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out, finish, err := in.exportFile()
	if err != nil {
		return in.refused(err)
	}
	n := 0
	emit := func(line []byte) error {
		n++
		in.progress("%d rows", n)
		_, err := out.Write(append(line, '\n'))
		return err
	}
	if err := errors.Join(s.export(ctx, person, emit), finish()); err != nil {
		if len(in.words) == 2 { // a part would pass for the whole
			err = errors.Join(err, os.Remove(in.words[1]))
		}
		return fmt.Errorf("exporting: %w", err)
	}
	in.progress("")
	if len(in.words) == 2 {
		fmt.Fprintf(in.stdout, "wrote %s: %d rows; it is private\n", in.words[1], n)
	}
	return nil
}

// exportFile is the new file that was named, or standard output. A terminal
// would obey what strangers wrote.
func (in *invocation) exportFile() (out io.Writer, finish func() error, err error) {
	if len(in.words) < 2 {
		if isTerminal(in.stdout) {
			return nil, nil, errors.New("standard output is a terminal; name a file or a pipe")
		}
		return in.stdout, func() error { return nil }, nil
	}
	file, err := os.OpenFile(in.words[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("%s exists; nothing is replaced", in.words[1])
	}
	if err != nil {
		return nil, nil, err
	}
	return file, func() error { return errors.Join(file.Sync(), file.Close()) }, nil
}

// export gives every row about a person to emit.
func (s *storage) export(ctx context.Context, person string, emit func(line []byte) error) error {
	if s.db != nil {
		err := s.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return retention.Export(ctx, tx, slices.Concat(venue.Retention(), carriedRows()), person, emit)
		})
		if err != nil {
			return err
		}
	}
	if s.events == nil {
		return nil
	}
	for rec, err := range s.events.Involving(ctx, person) {
		if err != nil {
			return err
		}
		if err := emit(fmt.Appendf(nil, `{"table":"relay_events","row":%s}`, rec.JSON)); err != nil {
			return err
		}
	}
	return nil
}

// runErase removes a person's rows and events, and their bytes from the files.
func runErase(ctx context.Context, in *invocation) (err error) {
	s, person, err := in.openFor(ctx)
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.venueKey != nil && s.venueKey.PublicKey() == person {
		return in.refused(errors.New("this is the key of the server's own venue"))
	}
	removed, err := s.erase(ctx, person, in.progress)
	var open *venue.OpenRoomsError
	if errors.As(err, &open) {
		return in.refused(open)
	}
	if err == nil { // also where an earlier run was cut off after the rows went
		err = s.vacuum(ctx, in.progress)
	}
	in.progress("")
	for _, table := range slices.Sorted(maps.Keys(removed)) {
		fmt.Fprintf(in.stdout, "%-22s %d\n", table, removed[table])
	}
	if err != nil {
		return fmt.Errorf("erasing was cut off, run it again: %w", err)
	}
	if len(removed) == 0 {
		fmt.Fprintln(in.stdout, "nothing is stored about this key")
		return nil
	}
	fmt.Fprintln(in.stdout, "erased; backups that were made before still hold it")
	return nil
}

// erase removes what is stored about a person and tells how much of each table.
func (s *storage) erase(ctx context.Context, person string, progress func(string, ...any)) (map[string]int64, error) {
	removed := make(map[string]int64)
	if s.db != nil {
		err := s.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			clear(removed)
			return eraseRows(ctx, tx, person, removed)
		})
		if err != nil {
			clear(removed)
			return removed, err
		}
	}
	// A step that is not full has found the last one; strangers who go on
	// writing to the person must not keep the erase from its end.
	for n := eraseStep; s.events != nil && n == eraseStep; {
		var err error
		if n, err = s.events.Erase(ctx, person, time.Now(), eraseStep); err != nil {
			return removed, err
		}
		if n > 0 {
			removed["relay_events"] += int64(n)
			progress("%d events removed", removed["relay_events"])
		}
	}
	return removed, nil
}

// eraseRows is the erase in the database: the venue's rooms, what was said in
// them, and what the delivery engine has.
func eraseRows(ctx context.Context, tx *sql.Tx, person string, removed map[string]int64) error {
	rooms, ofVenue, err := venue.Erase(ctx, tx, person)
	if err != nil {
		return err
	}
	ofRooms, err := carrier.EraseThreads(ctx, tx, rooms)
	if err != nil {
		return err
	}
	ofEngine, err := retention.Erase(ctx, tx, carriedRows(), person)
	if err != nil {
		return err
	}
	maps.Copy(removed, ofVenue)
	maps.Copy(removed, ofEngine)
	if ofRooms > 0 {
		removed["messages in rooms"] = ofRooms
	}
	return nil
}

// carriedRows are the tables of the delivery engine, the mailbox and the bridges.
func carriedRows() []retention.Table {
	return slices.Concat(carrier.Retention(), https.Retention(), bridge.Retention())
}

// openFor opens the stores for the person named first on the command line.
func (in *invocation) openFor(ctx context.Context) (*storage, string, error) {
	person, err := keys.ParsePublic(in.words[0])
	if err != nil {
		return nil, "", fmt.Errorf("%.80q is not a public key (npub1… or 64 hex digits)", in.words[0])
	}
	cfg, err := loadConfig(in.arguments, nil)
	if err != nil {
		return nil, "", err
	}
	s, err := openStorage(ctx, cfg, in.errorsOnly())
	return s, person, err
}
