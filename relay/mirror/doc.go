// Package mirror moves stored events: from a file into a relay, from a relay
// into a file, and from one relay to another.
//
// A file holds JSON Lines: one event in NIP-01 JSON a line, in any order. Of
// every event that is moved, wherever it comes from, the shape, the id and the
// signature are checked here (NIP-01), on all processors, before anybody else
// is asked about it.
//
// Standards: NIP-01 for reading and writing over the wire, NIP-77 for finding
// what two relays lack. A relay without NIP-77 is read page by page, the newest
// events first. Not implemented: authentication of the client, so that wraps
// (NIP-59) are neither read nor written over the wire; protected events
// (NIP-70) are refused by the relay they are sent to.
//
// Trust: a file or a relay may hold anything. A line is bounded before it is
// read, memory by the events on their way; an event that is wrong is counted
// and left out, and the rest goes on. A relay can withhold events; it cannot
// make this package pass on a forged one.
//
// A function of this package may run beside others; a Journal belongs to one
// Import.
package mirror
