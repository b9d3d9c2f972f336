// Package ntfyserver is a small server that speaks the protocol of ntfy: for
// tests, and for a server that is run on one's own machine to try things out.
//
// It does what ntfy 2.13 was seen to do where that matters to a carrier: texts
// that become attachments at the limit, silent truncation with up=1, resuming
// by id, the bucket of requests. Implemented: publishing by PUT, POST, GET and
// JSON; subscriptions as JSON, server-sent events, raw text and WebSocket;
// poll, since, scheduled; delays; users, tokens and access by topic. Not
// implemented: what attachments hold, filters, e-mail and calls, web push,
// templates, the administration interface.
//
// Trust: it is no server for the public. Sizes, rates, subscriptions and the
// number of kept messages are bounded, and who knows a topic may use it unless
// Options.Access says more.
//
// A Server is safe for concurrent use.
package ntfyserver
