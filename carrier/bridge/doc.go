// Package bridge moves signed events between two sides, such as a relay and a
// broker, without any agent's key. An event is taken once, whichever side it
// comes from, so that rings of bridges end.
//
// Standards: NIP-01 events, gift wraps of NIP-59 and cards of docs/spec/card.md; frames
// of docs/spec/frame.md are put together. Not implemented: anything that would have to
// open an envelope.
//
// What a side hands in is stored with the cursor in one transaction, and acknowledged
// afterwards. A crash between a write and its note repeats that one write; receivers
// know an event by its id. Of several processes with one bridge one holds its lease.
//
// Trust: sides may hand in anything. Size, id, signature, kind, recipient and expiry
// are checked before a row is kept; what waits is bounded in number and bytes, and past
// it the reading side waits. A bridge key opens nothing.
//
// Concurrency: Run may be called once; everything else is safe for concurrent use.
package bridge
