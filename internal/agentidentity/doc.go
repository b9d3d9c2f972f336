// Package agentidentity finds out which agent sent an HTTP request: it checks
// that the sender holds the key it names, and lets clients show that they do.
//
// Standards: HTTP Message Signatures (RFC 9421) with Ed25519 and
// ECDSA P-256, Content-Digest (RFC 9530), DPoP (RFC 9449), certificate
// thumbprints over mutual TLS (RFC 8705), JWK thumbprints (RFC 7638), and the
// PEAC-Agent-Identity header of the PEAC protocol with its binding message.
// Not implemented: component parameters, @query-param and responses of RFC
// 9421, RSA and HMAC, DPoP nonces chosen by the server, key attestations,
// certificates forwarded by a proxy (RFC 9440). No key is ever fetched: the
// caller's Directory has them. docs/spec/agent-identity.md has the rules.
//
// Trust: a request comes from anyone. Headers are bounded before they are
// parsed; the body is read only once the signature over its digest is good, and
// is bounded as well. A key is used with the one algorithm that the Directory
// names, never with what a request asks for. A proof counts once; the memory of
// used proofs is bounded for each key and in total, and refuses when it is full
// rather than forget. What the header claims beside the agent's name is the
// sender's word: Identity says how far a signature covers it. The URL that
// proofs are about comes from Options, never from the Host header.
//
// A Verifier and a Client are safe for concurrent use.
package agentidentity
