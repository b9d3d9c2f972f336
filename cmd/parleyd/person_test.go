package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
)

// inhabitants are two persons that a server has stored something about. The
// texts are random, so that compression leaves them as they are.
type inhabitants struct {
	alice, bob         *keys.Nostr
	aliceText, bobText string
}

// inhabit stores a wrap and a sent message for each of two persons and a room
// of both.
func inhabit(ctx context.Context, s *storage, outcome string) (*inhabitants, error) {
	p := &inhabitants{aliceText: rand.Text(), bobText: rand.Text()}
	var err error
	if p.alice, err = keys.GenerateNostr(); err != nil {
		return nil, err
	}
	if p.bob, err = keys.GenerateNostr(); err != nil {
		return nil, err
	}
	for _, to := range []struct {
		key  *keys.Nostr
		text string
	}{{p.alice, p.aliceText}, {p.bob, p.bobText}} {
		if err := storeWrap(ctx, s.events, to.key, to.text); err != nil {
			return nil, err
		}
	}
	return p, s.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error { return p.insert(ctx, tx, outcome) })
}

// insert stores the rows of the database. The room's text is alice's.
func (p *inhabitants) insert(ctx context.Context, tx *sql.Tx, outcome string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO venue_rooms (agreement, revision, digest, initiator, locked_at, deadline, head, outcome)
		VALUES ('room', $1, 'digest', $2, 1, 2000000000, 'head', $3)`, p.aliceText, p.bob.PublicKey(), outcome)
	if err != nil {
		return err
	}
	for i, key := range []*keys.Nostr{p.bob, p.alice} {
		_, err := tx.ExecContext(ctx, "INSERT INTO venue_members (pubkey, agreement, participant) VALUES ($1, 'room', $2)", key.PublicKey(), fmt.Sprintf("p%d", i+1))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO carrier_outbox (recipient, message_id, type, scheme, in_reply_to, state, reason, rounds, created_at,
			expires_at, keep_until, sent_ms, resend_ms, acked_at, message) VALUES ($1, 'm', 'text', '', '', 'acked', '', 1, 1, 2, 9, 1, 1, 1, $2)`,
			key.PublicKey(), []byte([]string{p.bobText, p.aliceText}[i]))
		if err != nil {
			return err
		}
	}
	return nil
}

// storeWrap commits an event to a person.
func storeWrap(ctx context.Context, store relay.Store, to *keys.Nostr, text string) error {
	sender, err := keys.GenerateNostr()
	if err != nil {
		return err
	}
	ev := nostr.Event{Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Content: text, Tags: nostr.Tags{{"p", to.PublicKey()}}}
	if err := sender.Sign(&ev); err != nil {
		return err
	}
	data, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = store.Commit(ctx, []*relay.Record{{Event: &ev, JSON: data, Recipient: to.PublicKey(), Expires: time.Now().Add(time.Hour).Unix()}}, 100)
	return err
}

// populate FILE OUTCOME: the stopped server of a configuration gets a room of
// that outcome, and messages. ALICE, BOB and their texts ALICETEXT and BOBTEXT
// are set.
func populate(ts *testscript.TestScript, _ bool, args []string) {
	cfg, err := config.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	cfg.Data = ts.MkAbs(cfg.Data)
	s, err := openStorage(context.Background(), cfg, slog.New(slog.DiscardHandler))
	ts.Check(err)
	p, err := inhabit(context.Background(), s, args[1])
	ts.Check(err)
	ts.Check(s.close())
	ts.Setenv("ALICE", p.alice.NPub())
	ts.Setenv("BOB", p.bob.PublicKey())
	ts.Setenv("ALICETEXT", p.aliceText)
	ts.Setenv("BOBTEXT", p.bobText)
}

// absent FOLDER TEXT: no file below the folder holds the text; with ! one does.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	holds, err := holding(ts.MkAbs(args[0]), args[1])
	ts.Check(err)
	if neg != (len(holds) > 0) {
		ts.Fatalf("files that hold the text: %v", holds)
	}
}

func holding(folder, text string) (found []string, err error) {
	return found, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
}

// capture NAME REGEXP: what the group of the expression matches in the last
// stdout.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	match := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if match == nil {
		ts.Fatalf("nothing matches %q", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// fingerprint FILE HEX: the server document is signed by the key of that
// fingerprint.
func fingerprint(ts *testscript.TestScript, _ bool, args []string) {
	doc, err := wellknown.Open([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	if doc.Fingerprint() != args[1] {
		ts.Fatalf("%s is of %s, want %s", args[0], doc.Fingerprint(), args[1])
	}
}

// On PostgreSQL the verbs work beside a running server.
func TestErase_besideARunningServerOnPostgresTakesOnePersonEverywhere(t *testing.T) {
	address := databasetest.NewPostgres(t)
	s := startServer(t, func(cfg *config.Config) { cfg.Database, cfg.Relay.Store = address, config.StoreDatabase })
	file := filepath.Join(t.TempDir(), "parley.yaml")
	secretFile := filepath.Join(t.TempDir(), "password")
	_, secret, _ := strings.Cut(strings.TrimPrefix(address, "postgres://"), ":")
	secret, rest, _ := strings.Cut(secret, "@")
	if err := os.WriteFile(secretFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(address, "postgres://"), ":")
	text := fmt.Sprintf("data: %s\ndatabase: postgres://%s@%s\ndatabase_password_file: %s\nrelay: {store: database}\n", s.cfg.Data, user, rest, secretFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	stores, err := openStorage(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p, err := inhabit(t.Context(), stores, "reached")
	if err != nil {
		t.Fatal(err)
	}
	if err := stores.close(); err != nil {
		t.Fatal(err)
	}
	call := func(words ...string) string {
		var out, log bytes.Buffer
		if err := run(t.Context(), append([]string{"-c", file}, words...), &out, &log); err != nil {
			t.Fatalf("parleyd %s: %v", strings.Join(words, " "), err)
		}
		return out.String()
	}
	if out := call("export", p.alice.NPub()); strings.Count(out, "\n") != 4 || !strings.Contains(out, p.aliceText) {
		t.Errorf("exported %s", out)
	}
	if out := call("erase", p.alice.NPub()); !regexp.MustCompile(`relay_events +1\n`).MatchString(out) || !regexp.MustCompile(`venue_rooms +1\n`).MatchString(out) {
		t.Errorf("erase says %s", out)
	}
	if out := call("export", p.alice.NPub()); out != "" {
		t.Errorf("left after the erase: %s", out)
	}
	if out := call("export", p.bob.PublicKey()); strings.Count(out, "\n") != 2 || !strings.Contains(out, p.bobText) {
		t.Errorf("of the other person is left: %s", out)
	}
	if out := call("vacuum"); !strings.Contains(out, "autovacuum") {
		t.Errorf("vacuum says %s", out)
	}
}

// besieged is a relay to which strangers write all the time.
type besieged struct {
	relay.Store
	steps []int // events removed by each step
}

func (b *besieged) Erase(_ context.Context, _ string, _ time.Time, limit int) (int, error) {
	if len(b.steps) == 0 {
		b.steps = append(b.steps, limit)
	} else {
		b.steps = append(b.steps, 1)
	}
	if len(b.steps) > 3 {
		return 0, errors.New("asked again and again")
	}
	return b.steps[len(b.steps)-1], nil
}

func TestErase_endsAlthoughStrangersGoOnWriting(t *testing.T) {
	events := new(besieged)
	removed, err := (&storage{events: events}).erase(t.Context(), strings.Repeat("a", 64), func(string, ...any) {})
	if err != nil || len(events.steps) != 2 || removed["relay_events"] != eraseStep+1 {
		t.Errorf("removed %v in steps of %v, %v", removed, events.steps, err)
	}
}

func TestExport_thatFailsLeavesNoPartOfAFile(t *testing.T) {
	folder := t.TempDir()
	file, out := filepath.Join(folder, "parley.yaml"), filepath.Join(folder, "person.jsonl")
	if err := os.WriteFile(file, []byte("data: "+folder+"/data\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cfg.KeysDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	db := databasetest.OpenURL(t, cfg.DatabaseURL(), database.Options{})
	err = errors.Join(carrier.Migrate(t.Context(), db), db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DROP TABLE carrier_inbox")
		return err
	}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	err = run(t.Context(), []string{"-c", file, "export", strings.Repeat("a", 64), out}, &said, &said)
	if err == nil || !strings.Contains(err.Error(), "carrier_inbox") {
		t.Errorf("exported a table that is not there: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the export is left: %v", err)
	}
}

func TestExport_keepsOffTerminals(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	defer terminal.Close()
	for _, c := range []struct {
		words   []string
		refused bool
	}{{[]string{"key"}, true}, {[]string{"key", filepath.Join(t.TempDir(), "file")}, false}} {
		in := &invocation{words: c.words, stdout: terminal}
		if _, _, err := in.exportFile(); (err != nil) != c.refused {
			t.Errorf("export %q on a terminal: %v", c.words, err)
		}
	}
}

// Every command that the pages show is in a script that runs it.
func TestTheDocumentedCommandsAreRun(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, page := range []string{"retention.md", "keys.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`(?m)^\$ (parleyd .*)$`).FindAllStringSubmatch(string(text), -1)
		if len(shown) < 2 {
			t.Errorf("docs/%s shows %d commands", page, len(shown))
		}
		for _, m := range shown {
			if command := strings.ReplaceAll(m[1], "npub1…", "$ALICE"); !strings.Contains(all.String(), "exec "+command+"\n") {
				t.Errorf("docs/%s shows %q, which no script runs", page, m[1])
			}
		}
	}
}
