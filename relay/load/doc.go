// Package load measures a relay from outside, as its clients feel it: how many
// cards it stores, looks up and passes on, and how long each takes.
//
// Run connects over WebSocket and plays scenarios one after the other. A
// scenario is named by what is done and by how many connections do it:
//
//   - ingest-N: N connections publish cards, each waits for its OK.
//   - lookup-N: N connections look cards up by author, kind and d tag, each
//     waits for its EOSE.
//   - tag-N: the same by one t tag, which finds twenty cards.
//   - inbox-N: N recipients read twenty of their own gift wraps since a time,
//     after NIP-42 authentication where the relay asks for it.
//   - fanout-N: N connections subscribe to one author, who publishes the next
//     event after the OK of the last.
//   - burst-N: the same, all events at once.
//   - stopped-N: N connections subscribe to one author, who publishes at a
//     fixed pace; then the same beside a subscriber that reads nothing.
//   - idle-N: N connections with one subscription each do nothing.
//   - soak-N: half of what ingest-N stores, for as long as Options.Soak says.
//
// Events are signed before the clock starts. The cards are of about a kilobyte,
// valid, each of a key of its own, and expire after a day. Time on the processor
// is given apart for the client, which is this process, and for the relay where
// its process is on this machine and known.
//
// Trust: a relay that misbehaves can make a scenario fail or time out; what it
// sends is bounded and never stored. Run writes to the relay under test: events
// that cannot be taken back. It is called once at a time.
package load
