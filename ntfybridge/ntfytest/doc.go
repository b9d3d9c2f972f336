// Package ntfytest starts servers that speak the protocol of ntfy, for tests.
//
// It is imported from test files only; a program that wants such a server uses
// package ntfyserver.
package ntfytest
