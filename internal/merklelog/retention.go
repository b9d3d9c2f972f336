package merklelog

import "github.com/parleykit/parley/internal/retention"

// Retention declares what logs store. Nothing of it names a person, and
// nothing can be taken out of a log without breaking every proof.
func Retention() []retention.Table {
	return []retention.Table{
		{Name: "merklelog_logs", Holds: "names and sizes of the logs of this server", Lifetime: "for good; one row a log"},
		{Name: "merklelog_waiting", Holds: "hashes of receipts that have no place in a log yet", Lifetime: "until the next checkpoint, a second"},
		{Name: "merklelog_leaves", Holds: "entries of logs: hashes of receipts, and nothing else of them", Lifetime: "for good"},
		{Name: "merklelog_tiles", Holds: "hashes over the entries of logs", Lifetime: "for good"},
		{Name: "merklelog_checkpoints", Holds: "sizes and root hashes of logs that were signed", Lifetime: "for good"},
		{Name: "merklelog_signatures", Holds: "signatures of checkpoints, by this server and by witnesses", Lifetime: "for good"},
		{Name: "merklelog_witnessed", Holds: "size and root of other logs, as this server cosigned them last", Lifetime: "for good; one row a log"},
	}
}
