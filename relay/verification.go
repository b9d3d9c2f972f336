package relay

import (
	"context"
	"runtime"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

// provenSignatures is how many valid signatures are remembered, about a
// megabyte of them.
const provenSignatures = 1 << 13

// verifier checks signatures, the dearest check there is: as many at a time as
// there are processors, and none twice that was found valid.
type verifier struct {
	slots chan struct{}

	mu     sync.Mutex
	proven generations[signature, struct{}]
}

// signature is an event's id with its signature, both in hex. The id names the
// author, so nothing else decides.
type signature struct{ id, sig string }

func newVerifier() *verifier {
	return &verifier{slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// verify reports whether the signature of an event whose id is right is valid.
func (v *verifier) verify(ctx context.Context, ev *nostr.Event) bool {
	s := signature{ev.ID, ev.Sig}
	if v.isProven(s) {
		return true
	}
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-v.slots }()
	if !signatureIsValid(ev) {
		return false
	}
	v.prove(s)
	return true
}

func (v *verifier) isProven(s signature) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.proven.has(s)
}

func (v *verifier) prove(s signature) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.proven.get(s, provenSignatures, func() struct{} { return struct{}{} })
}

// rejectSignature is the last check that costs nothing but time.
func (r *Relay) rejectSignature(ctx context.Context, ev *nostr.Event) (bool, string) {
	return !r.verifier.verify(ctx, ev), "invalid: the signature is wrong"
}
