package nostr

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
)

// reread is how far before its cursor a relay is read again: a wrap's
// created_at lies up to 48 hours before it was sent, and an hour is for what
// was on its way.
const reread = 49 * time.Hour

// position remembers, for every relay, the newest created_at that was dealt
// with. As a Cursor it is a list of "key.time" with a comma between, key being
// eight hex characters of the SHA-256 of the URL and time base-36 seconds.
type position struct {
	mu     sync.Mutex
	relays []string
	newest map[string]int64 // by key
}

func relayKey(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:4])
}

// newPosition reads a cursor. What it cannot read, and relays that are no
// longer listened to, are left out: such a relay is read from the start.
func newPosition(from carrier.Cursor, relays []string) *position {
	p := &position{relays: relays, newest: make(map[string]int64)}
	known := make(map[string]bool)
	for _, url := range relays {
		known[relayKey(url)] = true
	}
	for _, entry := range strings.Split(string(from), ",") {
		key, text, _ := strings.Cut(entry, ".")
		at, err := strconv.ParseInt(text, 36, 64)
		if err == nil && at > 0 && known[key] {
			p.newest[key] = at
		}
	}
	return p
}

// of returns the newest created_at of a relay; 0 when it was never read.
func (p *position) of(url string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest[relayKey(url)]
}

// set moves a relay's mark, also backwards.
func (p *position) set(url string, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest[relayKey(url)] = at
}

// cursor writes the position.
func (p *position) cursor() carrier.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []string
	for _, url := range p.relays {
		if at := p.newest[relayKey(url)]; at > 0 {
			entries = append(entries, relayKey(url)+"."+strconv.FormatInt(at, 36))
		}
	}
	return carrier.Cursor(strings.Join(entries, ","))
}
