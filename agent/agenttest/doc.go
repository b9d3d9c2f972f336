// Package agenttest starts a whole server (relay, venue and signed document) on
// loopback ports, and agents that use it, for the tests of other packages.
//
// Standards: none of its own. Trust: it is for tests only; a Venue made with
// HostileVenue speaks with the venue's key and says whatever the test wants.
// Concurrency: a Server is safe for concurrent use; everything ends with the
// test that started it.
package agenttest
