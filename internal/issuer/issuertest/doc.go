// Package issuertest starts a real issuer of receipts, with its documents and
// its verification endpoint over TLS, for the tests of other packages.
//
// Names are led to the loopback address, so that an issuer can be named by an
// https origin as a public one is. It is imported from tests only. A Server is
// safe for concurrent use and ends with its test.
package issuertest
