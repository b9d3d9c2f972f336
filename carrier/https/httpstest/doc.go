// Package httpstest starts a real mailbox on a loopback port for the tests of other
// packages. It ends with its test and is imported from tests only.
package httpstest
