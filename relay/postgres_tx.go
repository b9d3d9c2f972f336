package relay

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

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

// commitTo decides the batch and writes it into the open transaction. claim
// gets the ids before anybody is told of them.
func commitTo(ctx context.Context, tx pgx.Tx, records []*Record, quota int, claim func([]string)) ([]Outcome, error) {
	state := newPostgresState(records)
	reads := &pgx.Batch{}
	lockWords(reads, state.words)
	state.readVanishing(reads)
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
	// A word, of a row in relay_tags, is 17 bytes: the letter and 16 of the hash.
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
		bury(batch, s.newStones)
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

// bury queues tombstones, given by key with the time of the deletion.
func bury(batch *pgx.Batch, stones map[string]int64) {
	keys := slices.Sorted(maps.Keys(stones))
	columns, times := make([][]byte, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		columns[i], times[i] = []byte(key), stones[key]
	}
	batch.Queue(burySQL, columns, times)
}

// insert queues the rows of the new events.
func (s *postgresState) insert(batch *pgx.Batch) {
	n := len(s.added)
	ids, pubkeys, jsons, words := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
	addresses, recipients := make([][]byte, n), make([][]byte, n)
	kinds, ages, expires := make([]int32, n), make([]int64, n), make([]*int64, n)
	for i, ev := range s.added {
		ids[i], pubkeys[i], kinds[i], ages[i] = unhex(ev.id), unhex(ev.pubkey), int32(ev.kind), -int64(ev.at)
		addresses[i], recipients[i] = orNull([]byte(ev.address)), orNull(unhex(ev.recipient))
		words[i], jsons[i] = append([]byte{}, slices.Concat(wordsOf(ev.rec.Event)...)...), ev.rec.JSON
		if ev.rec.Expires != 0 {
			expires[i] = &ev.rec.Expires
		}
	}
	batch.Queue(insertSQL, ids, pubkeys, kinds, ages, addresses, expires, recipients, words, jsons)
	s.insertTags(batch)
	s.count(batch)
}

func (s *postgresState) insertTags(batch *pgx.Batch) {
	var tags, ids [][]byte
	var ages []int64
	for _, ev := range s.added {
		for _, w := range wordsOf(ev.rec.Event) {
			tags, ages, ids = append(tags, w), append(ages, -int64(ev.at)), append(ids, unhex(ev.id))
		}
	}
	if len(tags) > 0 {
		batch.Queue(tagSQL, tags, ages, ids)
	}
}

// count queues the new numbers of the recipients.
func (s *postgresState) count(batch *pgx.Batch) {
	counts := map[string]int64{}
	for _, ev := range s.added {
		if ev.recipient != "" {
			counts[ev.recipient]++
		}
	}
	if len(counts) == 0 {
		return
	}
	recipients := slices.Sorted(maps.Keys(counts))
	numbers := make([]int64, len(recipients))
	for i, r := range recipients {
		numbers[i] = counts[r]
	}
	batch.Queue(countSQL, unhexAll(recipients), numbers)
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
