package ntfybridge

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"

	"github.com/parleykit/parley/carrier"
)

// MaxServers is the most servers one carrier listens to: their ids must fit
// one cursor.
const MaxServers = 10

var idPattern = regexp.MustCompile(`^[A-Za-z0-9]{12}$`)

// position is the id of the last message of every server that was dealt with.
// As a Cursor it is a list of "key=id" with a comma between, key being eight
// hex characters of the SHA-256 of the origin.
type position struct {
	mu  sync.Mutex
	ids map[string]string // by key
}

func originKey(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:4])
}

var keyPattern = regexp.MustCompile(`^[0-9a-f]{8}$`)

// newPosition reads a cursor. What it cannot read is left out: such a server is
// read from its oldest message.
func newPosition(from carrier.Cursor) *position {
	p := &position{ids: make(map[string]string)}
	for _, entry := range strings.Split(string(from), ",") {
		key, id, _ := strings.Cut(entry, "=")
		if keyPattern.MatchString(key) && idPattern.MatchString(id) {
			p.ids[key] = id
		}
	}
	return p
}

// of is the id after which a server is to be read; "" for all it has.
func (p *position) of(origin string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[originKey(origin)]
}

func (p *position) set(origin, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[originKey(origin)] = id
}

// with is the cursor that has one more server's id; an empty id changes
// nothing. The position itself moves once the cursor is stored. Servers that
// are no longer listened to are left out.
func (p *position) with(origins []string, origin, id string) carrier.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []string
	for _, o := range origins {
		at := p.ids[originKey(o)]
		if o == origin && id != "" {
			at = id
		}
		if at != "" {
			entries = append(entries, originKey(o)+"="+at)
		}
	}
	return carrier.Cursor(strings.Join(entries, ","))
}
