// Package relaytest starts a real relay on a loopback port for the tests of
// other packages.
//
// It speaks the protocol of package relay and trusts nobody more than that does.
// Each Start makes a server of its own, safe for concurrent use, which ends with
// its test. It is imported from tests only.
package relaytest
