// Package doctor looks at a Parley server from outside, as a client on another
// machine would: its name, ports, certificate, clock, document, relay and other
// carriers.
//
// It implements no protocol of its own. Every check makes a few small requests, in
// order; one that rests on another which failed is skipped. Nothing is published,
// and no key is used but one made for the check.
//
// Trust: the address is typed by the person who asks, so private addresses are
// dialed. Answers are bounded in size and time, and shown as text only.
//
// Server is safe for concurrent use.
package doctor
