// Package httpserver is the one HTTP front of a Parley server: it binds the
// listeners, hands requests to the services' routes and keeps the rules that
// hold for all of them.
//
// Standards: RFC 9110 and 9112 through net/http, RFC 9457 problem details, the
// X-Forwarded-For convention behind named proxies, RFC 6454 origins. Not
// implemented: RFC 7239 Forwarded, ACME, PROXY protocol, HTTP/3.
//
// Trust: requests come from anyone. The Host must be the server's own, so a
// foreign name that resolves here reaches nothing. X-Forwarded-For counts only
// as far as the chain of trusted proxies goes. Headers, bodies and times are
// bounded; a panic of a handler is answered, logged and counted. The metrics
// listener has no authentication and is refused outside of loopback unless the
// owner asks for it. What a handler does after taking over a connection (a
// WebSocket) is its own; such connections are closed when the drain ends.
//
// New binds both listeners or neither. Handle is called before Run. All other
// methods are safe for concurrent use.
package httpserver
