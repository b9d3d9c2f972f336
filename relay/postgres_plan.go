package relay

import (
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"
)

const (
	maxKinds = 64   // different kinds looked up for a filter of authors alone
	pageWork = 8192 // index entries read for one page, over all its ranges
	minPage  = 16   // entries of one page
	maxPage  = 128  // entries of one page
)

// source is a way through one index: ranges of it, named by one or two lists
// of equal length, each in the order of answers.
type source struct {
	table  string
	ranges string // the lists as a row source r, $4 and $5
	where  string
	lists  []any
	n      int // ranges
}

// page is the SQL for the next entries after ($1, $2) up to the age $3.
func (src source) page(limit int) string {
	inner := fmt.Sprintf(`SELECT i.age, i.id FROM %s i WHERE %s (i.age, i.id) > ($1::bigint, $2::bytea) AND i.age <= $3::bigint
		ORDER BY i.age, i.id LIMIT %d`, src.table, src.where, limit)
	if src.ranges == "" {
		return inner
	}
	return fmt.Sprintf(`SELECT DISTINCT x.age, x.id FROM %s CROSS JOIN LATERAL (%s) x ORDER BY x.age, x.id LIMIT %d`,
		src.ranges, inner, limit)
}

// entries is the SQL for a page with what the filter asks for.
func (src source) entries() string {
	return `SELECT e.age, e.id, e.kind, e.pubkey, coalesce(e.expires, 0), octet_length(e.json), NULL::bytea, NULL::bytea
		FROM (` + src.page(src.pageSize()) + `) p JOIN relay_events e ON e.id = p.id ORDER BY e.age, e.id`
}

// pageSize keeps the work for one page bounded over all ranges.
func (src source) pageSize() int { return min(max(pageWork/max(src.n, 1), minPage), maxPage) }

// probe is the SQL that counts entries up to probeDepth.
func (src source) probe() string {
	inner := fmt.Sprintf(`SELECT 1 FROM %s i WHERE %s (i.age, i.id) > ($1::bigint, $2::bytea) AND i.age <= $3::bigint
		ORDER BY i.age, i.id LIMIT %d`, src.table, src.where, probeDepth)
	if src.ranges != "" {
		inner = fmt.Sprintf(`SELECT 1 FROM %s CROSS JOIN LATERAL (%s) x LIMIT %d`, src.ranges, inner, probeDepth)
	}
	return `SELECT count(*) FROM (` + inner + `) counted`
}

func authorSource(authors []string, kinds []int) source {
	var keys [][]byte
	var numbers []int32
	for _, author := range authors {
		for _, kind := range kinds {
			keys, numbers = append(keys, unhex(author)), append(numbers, int32(kind))
		}
	}
	return source{
		table: "relay_events", ranges: "unnest($4::bytea[], $5::int[]) AS r(pubkey, kind)",
		where: "i.pubkey = r.pubkey AND i.kind = r.kind AND", lists: []any{keys, numbers}, n: len(keys),
	}
}

func tagSource(letter byte, values []string) source {
	tags := make([][]byte, len(values))
	for i, v := range values {
		tags[i] = tagPrefix(letter, v)[1:]
	}
	return source{
		table: "relay_tags", ranges: "unnest($4::bytea[]) AS r(tag)", where: "i.tag = r.tag AND",
		lists: []any{tags}, n: len(tags),
	}
}

func kindSource(kinds []int) source {
	numbers := make([]int32, len(kinds))
	for i, k := range kinds {
		numbers[i] = int32(k)
	}
	return source{
		table: "relay_events", ranges: "unnest($4::int[]) AS r(kind)", where: "i.kind = r.kind AND",
		lists: []any{numbers}, n: len(numbers),
	}
}

// span is the part of an index that the filter's since and until leave, both
// inclusive (NIP-01): everything after (after, no id) up to the age last.
func span(f nostr.Filter) (after, last int64) {
	after, last = math.MinInt64, math.MaxInt64
	if f.Until != nil {
		after = -int64(*f.Until)
	}
	if f.Since != nil && *f.Since > 0 {
		last = -int64(*f.Since)
	}
	return after, last
}

// plan returns the source with the fewest entries for the filter.
func (q *postgresReading) plan() (source, error) {
	candidates, err := q.candidates()
	if err != nil || len(candidates) == 1 {
		return candidates[0], err
	}
	batch, counts := &pgx.Batch{}, make([]int, len(candidates))
	for i, src := range candidates {
		args := append([]any{q.age, q.id, q.last}, src.lists...)
		batch.Queue(src.probe(), args...).QueryRow(func(row pgx.Row) error { return row.Scan(&counts[i]) })
	}
	if err := q.store.pool.SendBatch(q.ctx, batch).Close(); err != nil {
		return source{}, fmt.Errorf("comparing indexes: %w", err)
	}
	best := 0
	for i, n := range counts {
		if n < counts[best] {
			best = i
		}
	}
	return candidates[best], nil
}

// candidates are the usable indexes, the one that is most selective as a rule
// first. There is at least one.
func (q *postgresReading) candidates() ([]source, error) {
	f := q.filter
	var all []source
	if f.Authors != nil {
		kinds, known, err := q.kinds()
		if err != nil {
			return []source{{}}, err
		}
		if known && len(f.Authors)*len(kinds) <= maxRanges {
			all = append(all, authorSource(f.Authors, kinds))
		}
	}
	for name, values := range f.Tags {
		if isTagLetter(name) && len(values) <= maxRanges {
			all = append(all, tagSource(name[0], values))
		}
	}
	if f.Kinds != nil && len(f.Kinds) <= maxRanges {
		all = append(all, kindSource(f.Kinds))
	}
	if len(all) == 0 {
		all = append(all, source{table: "relay_events"})
	}
	return all, nil
}

const kindsSQL = `WITH RECURSIVE k(kind, n) AS (
		SELECT min(kind), 1 FROM relay_events
		UNION ALL
		SELECT (SELECT min(e.kind) FROM relay_events e WHERE e.kind > k.kind), n + 1 FROM k WHERE k.kind IS NOT NULL AND n <= $1
	) SELECT kind FROM k WHERE kind IS NOT NULL`

// kinds are those of the filter, or all that are stored unless they are many.
func (q *postgresReading) kinds() ([]int, bool, error) {
	if q.filter.Kinds != nil {
		return q.filter.Kinds, true, nil
	}
	rows, err := q.store.pool.Query(q.ctx, kindsSQL, maxKinds)
	if err != nil {
		return nil, false, fmt.Errorf("reading kinds: %w", err)
	}
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return kinds, len(kinds) <= maxKinds, err
}

// directSQL reads events by id or address; few of them with their JSON.
func directSQL(column string, whole bool) string {
	bodies := "NULL::bytea, NULL::bytea"
	if whole {
		bodies = "json, recipient"
	}
	return strings.Join([]string{
		"SELECT age, id, kind, pubkey, coalesce(expires, 0), octet_length(json),", bodies,
		"FROM relay_events WHERE", column, "= ANY($1::bytea[]) ORDER BY age, id",
	}, " ")
}
