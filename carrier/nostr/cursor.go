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

// day is how often a relay is read from its first wrap: what was sent late, or
// was refused while a clock was wrong, lies before any mark.
const day = 24 * time.Hour

// mark is how far one relay was read.
type mark struct {
	newest int64 // created_at of the newest wrap that was dealt with
	whole  int64 // number of the day, since 1970, on which it was last read from its first wrap
}

// position remembers the mark of every relay. As a Cursor it is a list of
// "key.newest.whole" with a comma between, key being eight hex characters of
// the SHA-256 of the URL and the numbers in base 36.
type position struct {
	mu     sync.Mutex
	relays []string
	marks  map[string]mark // by key
}

func relayKey(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:4])
}

// newPosition reads a cursor. What it cannot read, and relays that are no
// longer listened to, are left out: such a relay is read from the start.
func newPosition(from carrier.Cursor, relays []string) *position {
	p := &position{relays: relays, marks: make(map[string]mark)}
	known := make(map[string]bool)
	for _, url := range relays {
		known[relayKey(url)] = true
	}
	for _, entry := range strings.Split(string(from), ",") {
		key, numbers, _ := strings.Cut(entry, ".")
		newest, whole, _ := strings.Cut(numbers, ".")
		at, err := strconv.ParseInt(newest, 36, 64)
		if err != nil || at <= 0 || at > maxTime || !known[key] {
			continue
		}
		n, err := strconv.ParseInt(whole, 36, 64)
		if err != nil || n < 0 || n > dayOf(maxTime) {
			n = 0
		}
		p.marks[key] = mark{at, n}
	}
	return p
}

// maxTime bounds what is believed of a cursor, so that twelve marks fit one.
const maxTime = 36*36*36*int64(day/time.Second) - 1

// dayOf is the number of the day of a Unix time.
func dayOf(at int64) int64 { return at / int64(day/time.Second) }

// of returns the mark of a relay; zero when it was never read.
func (p *position) of(url string) mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks[relayKey(url)]
}

// since is the created_at from which a relay is to be read at now; 0 for the
// first wrap. A mark ahead of the clock was made by a clock that was wrong, and
// is not believed.
func (m mark) since(now int64) int64 {
	if m.newest == 0 || m.newest > now || m.whole != dayOf(now) {
		return 0
	}
	return max(0, m.newest-int64(reread/time.Second))
}

// set moves a relay's mark, also backwards.
func (p *position) set(url string, m mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks[relayKey(url)] = m
}

// cursor writes the position.
func (p *position) cursor() carrier.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []string
	for _, url := range p.relays {
		if m := p.marks[relayKey(url)]; m.newest > 0 {
			entries = append(entries, relayKey(url)+"."+strconv.FormatInt(m.newest, 36)+"."+strconv.FormatInt(m.whole, 36))
		}
	}
	return carrier.Cursor(strings.Join(entries, ","))
}
