package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"
)

// Transactions that decide about the same id, address or recipient exclude
// each other: before it reads, each takes the advisory locks of all stripes
// that its words fall into, in ascending order. A few stripes are enough, as
// a process has one commit at a time, and they bound the server's lock table.
const (
	lockClass   = 0x7061726c // first number of the relay's advisory locks
	lockStripes = 256
)

const lockSQL = `SELECT count(pg_advisory_xact_lock($1, stripe)) FROM unnest($2::int[]) AS stripe`

// lockWords queues the locks of the words.
func lockWords(batch *pgx.Batch, words map[string]struct{}) {
	stripes := map[int32]struct{}{}
	for w := range words {
		h := fnv.New32a()
		h.Write([]byte(w))
		stripes[int32(h.Sum32()%lockStripes)] = struct{}{}
	}
	batch.Queue(lockSQL, int32(lockClass), slices.Sorted(maps.Keys(stripes)))
}

// postgresEvent is a stored event as far as decisions need it.
type postgresEvent struct {
	id, pubkey, recipient, address string // address as the column has it
	at                             nostr.Timestamp
	kind                           int
	rec                            *Record // of this transaction, nil when it was stored before
}

func eventOf(rec *Record) *postgresEvent {
	ev := rec.Event
	return &postgresEvent{
		id: ev.ID, pubkey: ev.PubKey, recipient: rec.Recipient, address: addressColumn(ev),
		at: ev.CreatedAt, kind: ev.Kind, rec: rec,
	}
}

// addressColumn is empty for events that are not replaced.
func addressColumn(ev *nostr.Event) string {
	if a, ok := addressOf(ev); ok {
		return a.column()
	}
	return ""
}

// column is kind, public key and the hash of d.
func (a address) column() string { return string(a.key(tableAddress)[1:]) }

// tombstoneOfID is kept under the id and the key of who asked.
func tombstoneOfID(id, pubkey string) string { return string(deletedIDKey(id, pubkey)[1:]) }

// postgresState is the part of the store that a batch may depend on, with the
// changes the batch makes.
type postgresState struct {
	events     map[string]*postgresEvent // by id
	current    map[string]*postgresEvent // by address
	tombstones map[string]int64
	quota      map[string]int64

	words      map[string]struct{} // to be locked
	gone       []*postgresEvent    // to remove
	added      []*postgresEvent
	newStones  map[string]int64
	quotaReads [][]byte
	ids        [][]byte
	addresses  [][]byte
	stones     [][]byte
}

// newPostgresState collects what deciding the batch must read.
func newPostgresState(batch []*Record) *postgresState {
	s := &postgresState{
		events: map[string]*postgresEvent{}, current: map[string]*postgresEvent{},
		tombstones: map[string]int64{}, quota: map[string]int64{},
		words: map[string]struct{}{}, newStones: map[string]int64{},
	}
	for _, rec := range batch {
		s.need(&s.ids, unhex(rec.Event.ID))
		s.stones = append(s.stones, []byte(tombstoneOfID(rec.Event.ID, rec.Event.PubKey)))
		if a := addressColumn(rec.Event); a != "" {
			s.need(&s.addresses, []byte(a))
			s.stones = append(s.stones, []byte(a))
		}
		if rec.Recipient != "" {
			s.need(&s.quotaReads, unhex(rec.Recipient))
		}
		if rec.Event.Kind == kindDeletion {
			s.needTargets(rec.Event)
		}
	}
	return s
}

func (s *postgresState) needTargets(del *nostr.Event) {
	ids, addresses := deletionTargets(del)
	for _, id := range ids {
		s.need(&s.ids, unhex(id))
		s.stones = append(s.stones, []byte(tombstoneOfID(id, del.PubKey)))
	}
	for _, a := range addresses {
		s.need(&s.addresses, []byte(a.column()))
		s.stones = append(s.stones, []byte(a.column()))
	}
}

// need notes a key to be read, and locks it.
func (s *postgresState) need(list *[][]byte, key []byte) {
	*list = append(*list, key)
	s.words[string(key)] = struct{}{}
}

func unhex(s string) []byte { return appendHex(nil, s) }

const (
	knownSQL = `SELECT id, pubkey, kind, age, recipient, address FROM relay_events WHERE id = ANY($1::bytea[])
		UNION ALL
		SELECT id, pubkey, kind, age, recipient, address FROM relay_events WHERE address = ANY($2::bytea[])`
	stonesSQL = `SELECT key, created_at FROM relay_tombstones WHERE key = ANY($1::bytea[])`
	quotaSQL  = `SELECT recipient, events FROM relay_quota WHERE recipient = ANY($1::bytea[])`
)

// read queues the reading of the state.
func (s *postgresState) read(batch *pgx.Batch) {
	batch.Queue(knownSQL, s.ids, s.addresses).Query(s.readEvents)
	batch.Queue(stonesSQL, s.stones).Query(func(rows pgx.Rows) error {
		return readNumbers(rows, func(key []byte, n int64) { s.tombstones[string(key)] = n })
	})
	if len(s.quotaReads) > 0 {
		batch.Queue(quotaSQL, s.quotaReads).Query(func(rows pgx.Rows) error {
			return readNumbers(rows, func(key []byte, n int64) { s.quota[hex.EncodeToString(key)] = n })
		})
	}
}

func (s *postgresState) readEvents(rows pgx.Rows) error {
	var id, pubkey, recipient, address []byte
	var kind int32
	var age int64
	_, err := pgx.ForEachRow(rows, []any{&id, &pubkey, &kind, &age, &recipient, &address}, func() error {
		ev := &postgresEvent{
			id: hex.EncodeToString(id), pubkey: hex.EncodeToString(pubkey), recipient: hex.EncodeToString(recipient),
			address: string(address), at: nostr.Timestamp(-age), kind: int(kind),
		}
		s.events[ev.id] = ev
		if ev.address != "" {
			s.current[ev.address] = ev
		}
		return nil
	})
	return err
}

func readNumbers(rows pgx.Rows, take func([]byte, int64)) error {
	var key []byte
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&key, &n}, func() error {
		take(key, n)
		return nil
	})
	return err
}

// decide is the outcome rec would have.
func (s *postgresState) decide(rec *Record, quota int) Outcome {
	ev := rec.Event
	a := addressColumn(ev)
	old := s.current[a]
	switch {
	case s.events[ev.ID] != nil:
		return Duplicate
	case s.isDeleted(ev, a):
		return Deleted
	case a != "" && old != nil && !newer(ev.CreatedAt, ev.ID, old.at, old.id):
		return Stale
	case rec.Recipient != "" && s.quota[rec.Recipient] >= int64(quota):
		return OverQuota
	}
	return Stored
}

// isDeleted looks for a deletion by the event's own author. A deletion
// request cannot be deleted (NIP-09).
func (s *postgresState) isDeleted(ev *nostr.Event, a string) bool {
	if ev.Kind == kindDeletion {
		return false
	}
	if _, found := s.tombstones[tombstoneOfID(ev.ID, ev.PubKey)]; found {
		return true
	}
	at, found := s.tombstones[a]
	return found && a != "" && int64(ev.CreatedAt) <= at
}

// add decides rec and notes what storing it changes.
func (s *postgresState) add(rec *Record, quota int) Outcome {
	outcome := s.decide(rec, quota)
	if outcome != Stored {
		return outcome
	}
	ev := eventOf(rec)
	if ev.address != "" {
		if old := s.current[ev.address]; old != nil {
			s.remove(old)
		}
		s.current[ev.address] = ev
	}
	if ev.kind == kindDeletion {
		s.applyDeletion(rec.Event)
	}
	s.events[ev.id] = ev
	s.added = append(s.added, ev)
	if ev.recipient != "" {
		s.quota[ev.recipient]++
	}
	return Stored
}

// remove takes out an event, one of this batch as well.
func (s *postgresState) remove(ev *postgresEvent) {
	delete(s.events, ev.id)
	if ev.address != "" && s.current[ev.address] == ev {
		delete(s.current, ev.address)
	}
	if ev.recipient != "" {
		s.quota[ev.recipient]--
	}
	if ev.rec == nil {
		s.gone = append(s.gone, ev)
		return
	}
	s.added = slices.DeleteFunc(s.added, func(other *postgresEvent) bool { return other == ev })
}

// applyDeletion removes what the deletion request names and remembers it, so
// that nothing of it is stored again (NIP-09).
func (s *postgresState) applyDeletion(del *nostr.Event) {
	ids, addresses := deletionTargets(del)
	for _, id := range ids {
		s.bury(tombstoneOfID(id, del.PubKey), del.CreatedAt)
		if ev := s.events[id]; ev != nil && ev.pubkey == del.PubKey && ev.kind != kindDeletion {
			s.remove(ev)
		}
	}
	for _, a := range addresses {
		s.bury(a.column(), del.CreatedAt)
		if ev := s.current[a.column()]; ev != nil && ev.at <= del.CreatedAt {
			s.remove(ev)
		}
	}
}

// bury remembers a deletion; the later one of several counts.
func (s *postgresState) bury(key string, at nostr.Timestamp) {
	if before, found := s.tombstones[key]; found && before >= int64(at) {
		return
	}
	s.tombstones[key], s.newStones[key] = int64(at), int64(at)
}

// commitTo decides the batch and writes it into the open transaction. claim
// gets the ids before anybody is told of them.
func commitTo(ctx context.Context, tx pgx.Tx, records []*Record, quota int, claim func([]string)) ([]Outcome, error) {
	state := newPostgresState(records)
	reads := &pgx.Batch{}
	lockWords(reads, state.words)
	state.read(reads) // each statement sees what was committed when it starts
	if err := tx.SendBatch(ctx, reads).Close(); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	outcomes := make([]Outcome, len(records))
	for i, rec := range records {
		outcomes[i] = state.add(rec, quota)
	}
	writes := &pgx.Batch{}
	claim(state.write(writes))
	if writes.Len() == 0 {
		return outcomes, nil
	}
	if err := tx.SendBatch(ctx, writes).Close(); err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return outcomes, nil
}

const (
	wordSize = 1 + tagHashSize // of a row in relay_tags

	removeSQL = `WITH gone AS (
			DELETE FROM relay_events WHERE id = ANY($1::bytea[]) RETURNING id, age, words, recipient
		), untagged AS (
			DELETE FROM relay_tags t USING (
				SELECT id, age, substring(words FROM i * 17 + 1 FOR 17) AS tag
				FROM gone, generate_series(0, length(words) / 17 - 1) AS i
			) g WHERE t.tag = g.tag AND t.age = g.age AND t.id = g.id
		), counted AS (
			UPDATE relay_quota q SET events = q.events - c.n
			FROM (SELECT recipient, count(*) AS n FROM gone WHERE recipient IS NOT NULL GROUP BY recipient) c
			WHERE q.recipient = c.recipient RETURNING q.recipient
		) SELECT count(*) FROM gone`
	forgetSQL = `DELETE FROM relay_quota WHERE events <= 0 AND recipient = ANY($1::bytea[])`
	insertSQL = `INSERT INTO relay_events (id, pubkey, kind, age, address, expires, recipient, words, json)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int[], $4::bigint[], $5::bytea[], $6::bigint[],
			$7::bytea[], $8::bytea[], $9::bytea[])`
	tagSQL   = `INSERT INTO relay_tags (tag, age, id) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])`
	countSQL = `INSERT INTO relay_quota (recipient, events) SELECT * FROM unnest($1::bytea[], $2::bigint[])
		ON CONFLICT (recipient) DO UPDATE SET events = relay_quota.events + excluded.events`
	burySQL = `INSERT INTO relay_tombstones (key, created_at) SELECT * FROM unnest($1::bytea[], $2::bigint[])
		ON CONFLICT (key) DO UPDATE SET created_at = greatest(relay_tombstones.created_at, excluded.created_at)`
	notifySQL = `SELECT pg_notify($1, $2)`
)

// write queues the changes and returns the ids that are stored.
func (s *postgresState) write(batch *pgx.Batch) (ids []string) {
	if len(s.newStones) > 0 {
		keys := slices.Sorted(maps.Keys(s.newStones))
		columns, times := make([][]byte, len(keys)), make([]int64, len(keys))
		for i, key := range keys {
			columns[i], times[i] = []byte(key), s.newStones[key]
		}
		batch.Queue(burySQL, columns, times)
	}
	if len(s.gone) > 0 {
		var ids, recipients [][]byte
		for _, ev := range s.gone {
			ids, recipients = append(ids, unhex(ev.id)), append(recipients, unhex(ev.recipient))
		}
		batch.Queue(removeSQL, ids)
		batch.Queue(forgetSQL, recipients)
	}
	if len(s.added) == 0 {
		return nil
	}
	s.insert(batch)
	for _, ev := range s.added {
		ids = append(ids, ev.id)
	}
	for part := range slices.Chunk(ids, notifiedIDs) {
		batch.Queue(notifySQL, notifyChannel, strings.Join(part, ""))
	}
	return ids
}

func (s *postgresState) insert(batch *pgx.Batch) {
	var ids, pubkeys, addresses, recipients, allWords, jsons, tags, tagIDs [][]byte
	var kinds []int32
	var ages, tagAges []int64
	var expires []*int64
	counts := map[string]int64{}
	for _, ev := range s.added {
		id, age := unhex(ev.id), -int64(ev.at)
		words := wordsOf(ev.rec.Event)
		ids, pubkeys, kinds, ages = append(ids, id), append(pubkeys, unhex(ev.pubkey)), append(kinds, int32(ev.kind)), append(ages, age)
		addresses = append(addresses, orNull([]byte(ev.address)))
		recipients = append(recipients, orNull(unhex(ev.recipient)))
		expires = append(expires, numberOrNull(ev.rec.Expires))
		allWords, jsons = append(allWords, slices.Concat(words...)), append(jsons, ev.rec.JSON)
		for _, w := range words {
			tags, tagAges, tagIDs = append(tags, w), append(tagAges, age), append(tagIDs, id)
		}
		if ev.recipient != "" {
			counts[ev.recipient]++
		}
	}
	for i := range allWords {
		if allWords[i] == nil {
			allWords[i] = []byte{}
		}
	}
	batch.Queue(insertSQL, ids, pubkeys, kinds, ages, addresses, expires, recipients, allWords, jsons)
	if len(tags) > 0 {
		batch.Queue(tagSQL, tags, tagAges, tagIDs)
	}
	if len(counts) > 0 {
		recipients := slices.Sorted(maps.Keys(counts))
		numbers := make([]int64, len(recipients))
		for i, r := range recipients {
			numbers[i] = counts[r]
		}
		batch.Queue(countSQL, unhexAll(recipients), numbers)
	}
}

// wordsOf are the rows of the event in relay_tags, each once.
func wordsOf(ev *nostr.Event) [][]byte {
	var words [][]byte
	seen := map[string]bool{}
	for _, tag := range ev.Tags {
		if len(tag) < 2 || !isTagLetter(tag[0]) {
			continue
		}
		if w := tagPrefix(tag[0][0], tag[1])[1:]; !seen[string(w)] {
			seen[string(w)] = true
			words = append(words, w)
		}
	}
	return words
}

func unhexAll(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = unhex(s)
	}
	return out
}

func orNull(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func numberOrNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

const expiredSQL = `SELECT id, recipient, address FROM relay_events WHERE expires <= $1 ORDER BY expires, id LIMIT $2`

// sweepFrom removes expired events in the open transaction.
func sweepFrom(ctx context.Context, tx pgx.Tx, now time.Time, limit int) (int, error) {
	var ids, recipients [][]byte
	words := map[string]struct{}{}
	rows, err := tx.Query(ctx, expiredSQL, now.Unix(), limit)
	if err != nil {
		return 0, fmt.Errorf("reading expirations: %w", err)
	}
	var id, recipient, address []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &recipient, &address}, func() error {
		ids = append(ids, slices.Clone(id))
		for _, w := range [][]byte{id, recipient, address} {
			if len(w) > 0 {
				words[string(w)] = struct{}{}
			}
		}
		if len(recipient) > 0 {
			recipients = append(recipients, slices.Clone(recipient))
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	batch := &pgx.Batch{}
	lockWords(batch, words)
	removed := 0
	batch.Queue(removeSQL, ids).QueryRow(func(row pgx.Row) error { return row.Scan(&removed) })
	if len(recipients) > 0 {
		batch.Queue(forgetSQL, recipients)
	}
	return removed, tx.SendBatch(ctx, batch).Close()
}
