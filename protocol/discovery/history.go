package discovery

import (
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// maxHistory bounds the keys remembered of one issuer. An issuer that has more
// within Overlap makes its own oldest ones be forgotten, nobody else's.
const maxHistory = 1000

// History is what a verifier remembers of one issuer's keys, by their names: a
// name belongs to one key. It may be stored as JSON between two uses.
type History map[string]Sighting

// Sighting is a key as it was seen.
type Sighting struct {
	Thumbprint string    `json:"thumbprint"` // RFC 7638
	Seen       time.Time `json:"seen"`       // the last time
}

// Observe compares a key set with what was seen before and remembers it. A name
// that had another key within Overlap is refused with E_KID_REUSE_DETECTED, and
// nothing of the set is remembered.
func (h History) Observe(set KeySet, now time.Time) error {
	for kid, sighting := range h {
		if now.Sub(sighting.Seen) > Overlap {
			delete(h, kid)
		}
	}
	for _, key := range set {
		if before, known := h[key.ID]; known && before.Thumbprint != key.Thumbprint() {
			return refuse(receipt.CodeKidReuse, "", "the name of a key belonged to another one at %s", before.Seen.UTC().Format(time.RFC3339))
		}
	}
	for _, key := range set {
		h[key.ID] = Sighting{Thumbprint: key.Thumbprint(), Seen: now}
	}
	for len(h) > maxHistory {
		delete(h, h.oldest())
	}
	return nil
}

func (h History) oldest() string {
	var oldest string
	for kid, sighting := range h {
		if oldest == "" || sighting.Seen.Before(h[oldest].Seen) {
			oldest = kid
		}
	}
	return oldest
}
