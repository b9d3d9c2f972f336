// Package venuetest starts a real venue for the tests of other packages: its
// delivery engine on a relay, its database in a folder of the test, its rooms
// open to everybody.
//
// It speaks what package venue speaks, nothing more. It is imported from test
// files only; nothing here is safe to use outside of the test that asked for
// it. A Server is safe for concurrent use.
package venuetest
