// Package carrier delivers sealed messages: the Carrier interface that every
// transport implements, and the Engine, a durable outbox and inbox above any
// number of carriers.
//
// Standards: the delivery rules of docs/spec/envelope.md and docs/delivery.md.
// At least once on the wire, processed once: a wrap is sealed once and its
// bytes are sent again until the recipient acknowledges them; what arrives is
// told apart by wrap id and by (sender, message id). Frames of docs/spec/frame.md
// for carriers with small limits.
//
// Several processes of one agent may run an Engine each on one PostgreSQL. All
// receive and process; a message is sent by the one that has leased it, and by
// another when that fell silent for half a minute, so clocks may differ by some
// seconds. Circuits, metrics and the changes of Subscribe are each process's own.
//
// Trust: whoever knows the agent's key can send it wraps, and every carrier
// may lose, repeat, delay, reorder and invent them. A wrap leaves no row
// before envelope.Open has verified it. Strangers land in the request box,
// which is bounded by sender and in total; they are never acknowledged, never
// reach Handle and never cause a connection, except for what the application
// takes through Options.Stranger. Frames show no sender: they are bounded by
// carrier and inlet, forged ones cost a wrap another round, and nobody is
// answered because of them. Incomplete parts are bounded the same way
// and forgotten after 12 hours. Addresses come from Options.Resolve; carriers
// dial them through the egress rules. Message texts never stand in logs.
//
// Concurrency: an Engine is safe for concurrent use. Run may be called once at
// a time; Send, Sync and the listings work with or without it. The callbacks
// of Options that take a transaction run inside it: they have no outside
// effect, may be run again, and do not call the Engine's methods that write,
// except those that take the transaction themselves.
package carrier
