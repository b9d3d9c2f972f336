package relay

import (
	"encoding/hex"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"
)

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
	vanishing  []string // keys with a request to vanish
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
		s.need(&s.stones, unhex(rec.Event.PubKey)) // has it vanished?
		s.stones = append(s.stones, []byte(tombstoneOfID(rec.Event.ID, rec.Event.PubKey)))
		if a := addressColumn(rec.Event); a != "" {
			s.need(&s.addresses, []byte(a))
			s.stones = append(s.stones, []byte(a))
		}
		if rec.Recipient != "" {
			s.need(&s.quotaReads, unhex(rec.Recipient))
		}
		switch rec.Event.Kind {
		case kindDeletion:
			s.needTargets(rec.Event)
		case kindVanish:
			s.vanishing = append(s.vanishing, rec.Event.PubKey)
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
	vanishingSQL = `SELECT id, pubkey, kind, age, recipient, address FROM relay_events WHERE id IN (` + involvingSQL + `)`
	stonesSQL    = `SELECT key, created_at FROM relay_tombstones WHERE key = ANY($1::bytea[])`
	quotaSQL     = `SELECT recipient, events FROM relay_quota WHERE recipient = ANY($1::bytea[])`
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

// readVanishing queues the reading of what requests to vanish may take along.
func (s *postgresState) readVanishing(batch *pgx.Batch) {
	for _, key := range s.vanishing {
		pubkey, tag := involvingKeys(key)
		batch.Queue(vanishingSQL, pubkey, tag).Query(s.readEvents)
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
	case ev.Kind == kindVanish && s.vanished(ev):
		return Stale
	case s.isDeleted(ev, a):
		return Deleted
	case a != "" && old != nil && !newer(ev.CreatedAt, ev.ID, old.at, old.id):
		return Stale
	case rec.Recipient != "" && s.quota[rec.Recipient] >= int64(quota):
		return OverQuota
	}
	return Stored
}

// vanished reports whether the event is from before its author vanished.
func (s *postgresState) vanished(ev *nostr.Event) bool {
	at, found := s.tombstones[string(unhex(ev.PubKey))]
	return found && int64(ev.CreatedAt) <= at
}

// isDeleted looks for a deletion by the event's own author. Requests to delete
// and to vanish cannot be deleted (NIP-09, NIP-62).
func (s *postgresState) isDeleted(ev *nostr.Event, a string) bool {
	if s.vanished(ev) {
		return true
	}
	if ev.Kind == kindDeletion || ev.Kind == kindVanish {
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
	switch ev.kind {
	case kindDeletion:
		s.applyDeletion(rec.Event)
	case kindVanish:
		s.vanish(rec.Event)
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
		if ev := s.events[id]; ev != nil && ev.pubkey == del.PubKey && ev.kind != kindDeletion && ev.kind != kindVanish {
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

// vanish removes what the request takes along and remembers it for good
// (NIP-62): all that the key published by one mark, the wraps for it one by one.
func (s *postgresState) vanish(request *nostr.Event) {
	for _, ev := range s.events {
		if !vanishes(request, ev.pubkey, ev.recipient, ev.at) {
			continue
		}
		if ev.pubkey != request.PubKey {
			s.bury(tombstoneOfID(ev.id, ev.pubkey), request.CreatedAt)
		}
		s.remove(ev)
	}
	s.bury(string(unhex(request.PubKey)), request.CreatedAt)
}

// bury remembers a deletion; the later one of several counts.
func (s *postgresState) bury(key string, at nostr.Timestamp) {
	if before, found := s.tombstones[key]; found && before >= int64(at) {
		return
	}
	s.tombstones[key], s.newStones[key] = int64(at), int64(at)
}
