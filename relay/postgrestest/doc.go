// Package postgrestest starts a real PostgreSQL server for tests.
//
// The server listens on a loopback port, trusts every local user and ends with
// its test; it runs as the user nobody when the tests run as root. A Cluster may
// be used concurrently. It is imported from tests only.
package postgrestest
