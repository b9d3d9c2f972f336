package card

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr"
)

// Namespaces of the NIP-32 labels that a card carries.
const (
	spaceCarrier  = "parley.carrier"
	spaceProtocol = "parley.protocol"
)

var (
	namePattern     = regexp.MustCompile(`^[a-z0-9._-]{1,32}$`)
	protocolPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}/[a-z0-9][a-z0-9._-]{0,15}$`)
)

// reading gathers one card from its tags.
type reading struct {
	card   *Card
	once   map[string]bool     // tags that may stand only once and have been seen
	labels map[string][]string // namespace → labels
	spaces map[string]bool     // namespaces declared by an L tag
}

// readers has one function for each tag name this version knows. It returns
// what is wrong, "" if nothing. The number is the tag's exact length.
var readers = map[string]struct {
	length int
	once   bool
	read   func(*reading, nostr.Tag) string
}{
	"d":          {2, true, (*reading).name},
	"alt":        {2, true, (*reading).alt},
	"expiration": {2, true, (*reading).expiration},
	"carrier":    {4, false, (*reading).carrier},
	"L":          {2, false, (*reading).space},
	"l":          {3, false, (*reading).label},
	"t":          {2, false, (*reading).capability},
	"k":          {2, false, (*reading).kind},
	"a2a":        {2, false, (*reading).endpoint},
	"p":          {4, false, (*reading).key},
	"moved":      {2, true, (*reading).moved},
	"proof":      {3, true, (*reading).proof},
}

func (r *reading) tags(tags nostr.Tags) error {
	r.once = map[string]bool{}
	for i, tag := range tags {
		if len(tag) == 0 {
			return fmt.Errorf("%w: tag %d is empty", ErrMalformed, i+1)
		}
		known, ok := readers[tag[0]]
		if !ok {
			continue
		}
		problem := ""
		switch {
		case len(tag) != known.length:
			problem = fmt.Sprintf("must have %d elements", known.length)
		case known.once && r.once[tag[0]]:
			problem = "stands twice"
		default:
			problem = known.read(r, tag)
		}
		if problem != "" {
			return fmt.Errorf("%w: tag %d (%s): %s", ErrMalformed, i+1, tag[0], problem)
		}
		r.once[tag[0]] = true
	}
	return nil
}

// whole checks what only all tags together can tell.
func (r *reading) whole() error {
	for _, name := range []string{"d", "alt", "expiration"} {
		if !r.once[name] {
			return fmt.Errorf("%w: no %s tag", ErrMalformed, name)
		}
	}
	c := r.card
	c.Carriers = byPriority(c.Carriers)
	c.Protocols = r.labels[spaceProtocol]
	mailto := slices.ContainsFunc(c.Carriers, func(c Carrier) bool { return c.Scheme == SchemeMailto })
	twins := slices.Sorted(slices.Values(r.labels[spaceCarrier]))
	switch {
	case c.Expires.After(c.CreatedAt.Add(MaxLifetime)):
		return fmt.Errorf("%w: expiration is more than 180 days ahead", ErrMalformed)
	case !slices.Equal(twins, schemes(c.Carriers)):
		return fmt.Errorf("%w: l tags of %s are not the carriers' schemes", ErrMalformed, spaceCarrier)
	case mailto != (c.Proof != nil):
		return fmt.Errorf("%w: a mailto carrier and a proof go together", ErrMalformed)
	}
	return r.declared()
}

// declared checks that each namespace with labels has its L tag and the other
// way round.
func (r *reading) declared() error {
	for _, space := range []string{spaceCarrier, spaceProtocol} {
		if r.spaces[space] != (len(r.labels[space]) > 0) {
			return fmt.Errorf("%w: L and l tags of %s do not match", ErrMalformed, space)
		}
	}
	return nil
}

func (r *reading) name(tag nostr.Tag) string {
	if !namePattern.MatchString(tag[1]) {
		return "not 1 to 32 bytes of a-z 0-9 . _ -"
	}
	r.card.Name = tag[1]
	return ""
}

func (r *reading) alt(tag nostr.Tag) string {
	text := tag[1]
	if strings.TrimSpace(text) == "" || len(text) > MaxAlt || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Sprintf("not one line of 1 to %d bytes", MaxAlt)
	}
	r.card.Alt = text
	return ""
}

func (r *reading) expiration(tag nostr.Tag) string {
	// A second of the year 9999 has twelve digits.
	unix, ok := decimal(tag[1], 253402300799)
	if !ok {
		return "not a time in seconds"
	}
	r.card.Expires = time.Unix(unix, 0).UTC()
	return ""
}

func (r *reading) carrier(tag nostr.Tag) string {
	if len(r.card.Carriers) == MaxCarriers {
		return fmt.Sprintf("more than %d carriers", MaxCarriers)
	}
	priority, ok := decimal(tag[3], 65535)
	if !ok {
		return "priority is not 0 to 65535"
	}
	if problem := checkAddress(tag[1], tag[2]); problem != "" {
		return problem
	}
	for _, c := range r.card.Carriers {
		if c.Scheme == tag[1] && c.Address == tag[2] {
			return "the same address twice"
		}
	}
	r.card.Carriers = append(r.card.Carriers, Carrier{tag[1], tag[2], int(priority)})
	return ""
}

func (r *reading) space(tag nostr.Tag) string {
	if r.spaces[tag[1]] {
		return "the same namespace twice"
	}
	r.spaces[tag[1]] = true
	return ""
}

// label reads the two namespaces of a card and passes over others.
func (r *reading) label(tag nostr.Tag) string {
	value, space := tag[1], tag[2]
	if space != spaceCarrier && space != spaceProtocol {
		return ""
	}
	if space == spaceProtocol && !protocolPattern.MatchString(value) {
		return "not a protocol name and version"
	}
	if slices.Contains(r.labels[space], value) {
		return "the same label twice"
	}
	r.labels[space] = append(r.labels[space], value)
	return ""
}

func (r *reading) capability(tag nostr.Tag) string {
	word := tag[1]
	odd := func(c rune) bool {
		return !unicode.In(c, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("-_.", c)
	}
	if word == "" || len(word) > MaxWord || !utf8.ValidString(word) || strings.ContainsFunc(word, odd) || word != strings.ToLower(word) {
		return fmt.Sprintf("not a lower-case word of 1 to %d bytes", MaxWord)
	}
	return addOnce(&r.card.Capabilities, word)
}

func (r *reading) kind(tag nostr.Tag) string {
	kind, ok := decimal(tag[1], 65535)
	if !ok {
		return "not 0 to 65535"
	}
	return addOnce(&r.card.Kinds, int(kind))
}

func (r *reading) endpoint(tag nostr.Tag) string {
	if _, problem := checkURL(tag[1], "https", "http"); problem != "" {
		return problem
	}
	return addOnce(&r.card.A2A, tag[1])
}

func (r *reading) key(tag nostr.Tag) string {
	if problem := r.other(tag[1]); problem != "" {
		return problem
	}
	if tag[2] != "" {
		return "third element is not empty"
	}
	switch tag[3] {
	case "owner":
		return setOnce(&r.card.Owner, tag[1])
	case "agent":
		return addOnce(&r.card.Agents, tag[1])
	case "previous":
		return setOnce(&r.card.Previous, tag[1])
	}
	return "marker is not owner, agent or previous"
}

func (r *reading) moved(tag nostr.Tag) string {
	r.card.Moved = tag[1]
	return r.other(tag[1])
}

// other checks a key that must not be the card's own.
func (r *reading) other(key string) string {
	switch {
	case len(key) != 64 || !nostr.IsValidPublicKey(key):
		return "not a public key in lower-case hex"
	case key == r.card.PubKey:
		return "the card's own key"
	}
	return ""
}

func (r *reading) proof(tag nostr.Tag) string {
	for _, part := range tag[1:] {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if len(part) > MaxProof || err != nil || len(raw) == 0 || strings.ContainsAny(part, "\r\n") {
			return "not base64url"
		}
	}
	r.card.Proof = &Proof{tag[1], tag[2]}
	return ""
}

// decimal reads a number from 0 to limit in its only spelling.
func decimal(s string, limit int64) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= limit && strconv.FormatInt(n, 10) == s
}

func addOnce[T comparable](list *[]T, v T) string {
	if slices.Contains(*list, v) {
		return "the same value twice"
	}
	*list = append(*list, v)
	return ""
}

func setOnce(field *string, v string) string {
	if *field != "" {
		return "a second key with this marker"
	}
	*field = v
	return ""
}
