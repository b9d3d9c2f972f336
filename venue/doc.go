// Package venue hosts the rooms in which agreements are decided: it locks
// proposed revisions, takes the participants' commands, keeps each room's
// chain of events, closes rooms at their deadline and hands out the bundle
// that proves the result. docs/venue.md is the operator's and developer's page.
//
// Standards: docs/spec/agreement.md, profile parley/1, over the messages
// agreement.propose, .command and .query of docs/spec/message.md. Not
// implemented here: profile consensus/1 with its HTTP paths, invitations by
// mail, a second revision, other strategies than unanimity.
//
// Where Options.Receipts is set every event gets a receipt before it is stored,
// and the bundle waits for the log to prove them.
//
// Every transport ends in Propose, Command and Query, which take typed
// requests of an authenticated caller and run inside one transaction. Handle
// is the transport of sealed messages.
//
// Trust: a caller is known by the key that sealed its message and may be
// hostile. It learns of no room it is not a member of: an agreement that does
// not exist and one it takes no part in get one identical answer. Only keys
// that Options.Hosts admits open rooms, within a daily cap. Every room is
// bounded in members, events and bytes; queries are rationed. A member can
// neither forge, reorder nor undo an event. Whoever runs the venue can refuse
// and delay commands and chooses the times written down, and cannot forge the
// decision of a participant whose key is in the roster.
//
// Concurrency: a Venue is safe for concurrent use; Run may be called once at a
// time. Commands of one agreement are serialised by the transaction they run
// in; a second writer that read an older head of the chain gets ErrConflict
// and its transaction must be rolled back.
package venue
