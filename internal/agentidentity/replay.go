package agentidentity

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// How many proofs are remembered in each of two generations.
const (
	maxUsed    = 1 << 17
	maxUsedKey = 1 << 14 // of one key, so that no agent shuts the others out
)

// memory remembers the proofs that were used. There are two generations, each
// of the window's length: a proof is remembered for at least one window, which
// is as long as it can be fresh, and forgotten after two.
type memory struct {
	window         time.Duration
	limit, limitOf int

	mu                sync.Mutex
	since             time.Time // of the current generation
	current, previous generation
}

type generation struct {
	used map[[sha256.Size]byte]struct{}
	of   map[string]int // by key
}

func newGeneration() generation {
	return generation{used: map[[sha256.Size]byte]struct{}{}, of: map[string]int{}}
}

func newMemory(window time.Duration) *memory {
	return &memory{window: window, limit: maxUsed, limitOf: maxUsedKey, current: newGeneration(), previous: newGeneration()}
}

// use remembers a proof of a key, and refuses one that is remembered already.
func (m *memory) use(key, proof string, now time.Time) error {
	sum := sha256.Sum256([]byte(key + "\x00" + proof))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	_, used := m.current.used[sum]
	if _, before := m.previous.used[sum]; used || before {
		return refuse(receipt.CodeIdentityBindingStale, "The proof was used before.")
	}
	if len(m.current.used) >= m.limit || m.current.of[key] >= m.limitOf {
		return refuse(receipt.CodeIdentityDirectoryUnavailable, "Too many proofs were used, try again in some minutes.")
	}
	m.current.used[sum] = struct{}{}
	m.current.of[key]++
	return nil
}

// turn begins a new generation when the current one is a window old.
func (m *memory) turn(now time.Time) {
	age := now.Sub(m.since)
	if age < m.window {
		return
	}
	m.previous = m.current
	if age >= 2*m.window {
		m.previous = newGeneration()
	}
	m.current, m.since = newGeneration(), now
}
