package envelope

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// MaxParts is the most wraps one message may take.
const MaxParts = 64

// Part is one slice of a message too long for one wrap. Parts of one message
// have the sender, Digest, Total and Deflate in common; keep them by (sender,
// Digest, Index) until Total are there, then Join.
type Part struct {
	Index   int    // 1 to Total
	Total   int    // 2 to MaxParts
	Digest  string // lowercase hex SHA-256 of the whole message JSON
	Slice   string // at most EventLimit bytes
	Deflate bool   // the joined slices are base64 of deflated JSON
}

// tag writes everything but Slice and Deflate.
func (p Part) tag() nostr.Tag {
	return nostr.Tag{"part", strconv.Itoa(p.Index), strconv.Itoa(p.Total), p.Digest}
}

// parsePart reads a part tag.
func parsePart(tag nostr.Tag) (*Part, error) {
	if len(tag) != 4 || !canonical.IsHex(tag[3], 32) {
		return nil, fmt.Errorf("%w: part tag", ErrRumor)
	}
	index, total := smallNumber(tag[1]), smallNumber(tag[2])
	if total < 2 || total > MaxParts || index < 1 || index > total {
		return nil, fmt.Errorf("%w: part %d of %d", ErrRumor, index, total)
	}
	return &Part{Index: index, Total: total, Digest: tag[3]}, nil
}

// smallNumber reads one or two digits without a leading zero, else gives -1.
func smallNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) > 2 || strconv.Itoa(n) != s {
		return -1
	}
	return n
}

// Join puts the parts of one message together, given in any order. They must
// all come from Open with the same Sender, which sender names; me is the key
// that opened them. Every part must be there exactly once, the joined bytes
// must have the digest the parts name, and the message must be from sender, to
// me and valid at now.
func Join(parts []*Part, sender, me string, now time.Time) (*message.Message, error) {
	slices, err := arrange(parts)
	if err != nil {
		return nil, err
	}
	data, err := unpack(strings.Join(slices, ""), parts[0].Deflate)
	if err != nil {
		return nil, err
	}
	if canonical.Digest(data) != parts[0].Digest {
		return nil, fmt.Errorf("%w: digest differs", ErrParts)
	}
	return read(data, sender, me, now)
}

// arrange orders the slices and makes sure they are all of one message.
func arrange(parts []*Part) ([]string, error) {
	if len(parts) < 2 || len(parts) > MaxParts {
		return nil, fmt.Errorf("%w: %d parts", ErrParts, len(parts))
	}
	first := parts[0]
	if len(parts) != first.Total {
		return nil, fmt.Errorf("%w: %d of %d parts", ErrParts, len(parts), first.Total)
	}
	slices := make([]string, len(parts))
	for _, p := range parts {
		switch {
		case p.Total != first.Total, p.Digest != first.Digest, p.Deflate != first.Deflate:
			return nil, fmt.Errorf("%w: of different messages", ErrParts)
		case p.Index < 1 || p.Index > p.Total || slices[p.Index-1] != "":
			return nil, fmt.Errorf("%w: part %d repeated or out of range", ErrParts, p.Index)
		case p.Slice == "" || len(p.Slice) > EventLimit:
			return nil, fmt.Errorf("%w: slice of %d bytes", ErrParts, len(p.Slice))
		}
		slices[p.Index-1] = p.Slice
	}
	return slices, nil
}
