package relay

import retained "github.com/parleykit/parley/internal/retention"

// Retention declares what the relay stores about the authors and recipients of
// events. The conditions are for PostgreSQL and for reading: Store.Involving
// and Store.Erase do the work in both stores, since an erased event leaves a
// tombstone. The embedded store keeps the same under other names.
func Retention() []retained.Table {
	return []retained.Table{
		{
			Name: "relay_tags", Holds: "hashes of the tags by which events are found",
			Lifetime: "as long as the event",
			Person:   "id IN (SELECT id FROM relay_events WHERE pubkey = decode($1, 'hex') OR recipient = decode($1, 'hex'))",
		},
		{
			Name: "relay_events", Holds: "events: cards, profiles, relay lists, deletion requests, sealed messages",
			Lifetime: "until they expire or are replaced: sealed messages 32 days at most, all others 181 days at most",
			Person:   "pubkey = decode($1, 'hex') OR recipient = decode($1, 'hex')",
		},
		{
			Name: "relay_quota", Holds: "how many sealed messages are stored for a recipient",
			Lifetime: "as long as one is stored", Person: "recipient = decode($1, 'hex')",
		},
		{
			Name: "relay_tombstones", Holds: "ids and addresses, both with the author's key, of what was deleted and must not come back; keys that asked to vanish, and ids of the sealed messages for them",
			Lifetime: "as long as the deletion request; after an erase or a request to vanish for good",
		},
		{
			Name: "relay_rulings", Holds: "what administrators ruled: banned and allowed keys and events, blocked networks, each with a reason and the administrator's key",
			Lifetime: "until an administrator takes it back",
		},
	}
}
