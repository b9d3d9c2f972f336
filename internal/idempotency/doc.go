// Package idempotency remembers what was answered to a request that carries a
// key, so that the same request sent again gets the same answer and does
// nothing twice. One table serves every part of a process; each part keeps its
// rows under scopes of its own.
//
// The rules:
//   - The same scope, key and hash get the stored answer. Another hash under a
//     key that is taken gets ErrConflict, for as long as the row is there.
//   - A refused request binds nothing: whoever refuses does not call Keep, and
//     the key may carry the corrected request.
//   - Keep is called in the transaction that does the work. Of concurrent
//     requests with one key one is done; the others, on whatever process of
//     the database, run again and find its answer.
//   - A row is honoured until Sweep removes it, also past its expiry. Each
//     owner sweeps its own rows and no others.
//   - A scope is the owner, a slash, and whose keys they are, such as
//     venue/<agreement>/<participant>. The owner is the name of a package. Two
//     callers share a scope only if one may read the answers of the other.
//
// The functions take the caller's transaction: database.DB's Tx, or Write for
// work that is small. They have no effect outside of it and no clock.
//
// Trust: key and request come from a caller that may be hostile. It reaches
// only the scope that the caller's part made of who it is. What is kept is a
// hash of the request, never the request; the answer is stored as it is given,
// so it holds no secret. Every column is bounded. How many rows one caller may
// bind is for the owner to bound.
package idempotency
