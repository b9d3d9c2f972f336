// Package ntfybridge carries envelopes, wake-ups and notices over ntfy servers,
// and is the ntfy side of a bridge to a relay.
//
// It implements the HTTP protocol of ntfy, version 2.13, with a client of its
// own: publishing, the JSON stream, polling, resuming by id. docs/spec/wakeup.md
// has the texts it sends. Not implemented: delays, attachments, updates and
// deletions by sequence id, web push; unknown events are ignored.
//
// Trust: an ntfy server may withhold, delay, repeat and invent, and who knows a
// topic may write to it. Nothing that arrives is believed: envelopes are
// checked by whoever they are handed to, and a wake-up only makes the receiver
// read its own relays again, at most once in ten seconds. Answers, lines and
// waiting times are bounded. No title, tag or address stands beside an
// envelope. A server learns the addresses of both sides, when they talk and how
// much. Credentials go to the origin they are configured for and nowhere else:
// no redirect is followed.
//
// Client, Carrier, Notifier and Side are safe for concurrent use.
package ntfybridge
