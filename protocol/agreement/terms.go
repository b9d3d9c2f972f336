package agreement

import (
	"crypto/rand"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/parleykit/parley/protocol/canonical"
)

// Terms is what the initiator decides; New adds the rest.
type Terms struct {
	Origin       string // origin of the schema ids, such as "https://parley.example"
	Profile      string // "" means ProfileParley
	Venue        string // the venue's public key in hex, or its origin in ProfileConsensus
	Supersedes   *Supersedes
	Title        string
	Objective    string
	Must         []string
	MustNot      []string
	Participants []Participant // the initiator first; empty ids, roles and labels are filled in
	Strategy     Strategy      // an empty name means Unanimity
	Deadline     time.Time     // cut to the second
}

// New makes an agreement from terms: a fresh id (UUIDv7 of now), the schema
// id, the participant ids p1…pn in the order given, the roles, and the id as
// the label where none is given. The deadline must lie after now. Errors are
// *Refusal with CodeInvalid, or an error of the system's random source.
func New(t Terms, now time.Time) (*Agreement, error) {
	id, err := newUUID(now)
	if err != nil {
		return nil, err
	}
	a := &Agreement{
		Schema: t.Origin + schemaAgreement, Profile: t.Profile, AgreementID: id, Venue: t.Venue,
		Revision: Revision, Supersedes: t.Supersedes, Title: t.Title, Objective: t.Objective,
		Must: append([]string{}, t.Must...), MustNot: append([]string{}, t.MustNot...),
		Participants: number(t.Participants), Strategy: t.Strategy, Deadline: canonical.At(t.Deadline),
	}
	if a.Profile == "" {
		a.Profile = ProfileParley
	}
	if a.Strategy.Name == "" {
		a.Strategy.Name = Unanimity
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	if !a.Deadline.After(now) {
		return nil, refuse(CodeInvalid, "/deadline: not in the future")
	}
	return a, nil
}

// number returns a copy of the roster with ids, roles and labels filled in.
func number(roster []Participant) []Participant {
	out := append([]Participant{}, roster...)
	for i := range out {
		p := &out[i]
		p.ID = participantID(i)
		if p.Role == "" {
			p.Role = RoleInvited
			if i == 0 {
				p.Role = RoleInitiator
			}
		}
		if p.Label == "" {
			p.Label = p.ID
		}
	}
	return out
}

// newUUID makes a UUID of version 7 (RFC 9562, section 5.7) for the instant
// now.
func newUUID(now time.Time) (string, error) {
	var id uuid.UUID
	if _, err := rand.Read(id[6:]); err != nil {
		return "", fmt.Errorf("agreement: reading random bytes: %w", err)
	}
	ms := now.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String(), nil
}

func (a *Agreement) checkTerms() *Refusal {
	if r := checkText("/title", a.Title, MaxTitle, false); r != nil {
		return r
	}
	if r := checkText("/objective", a.Objective, MaxObjective, true); r != nil {
		return r
	}
	if r := checkRules("/must", a.Must); r != nil {
		return r
	}
	return checkRules("/must_not", a.MustNot)
}

func checkRules(path string, rules []string) *Refusal {
	if len(rules) > MaxRules {
		return refuse(CodeInvalid, "%s: %d rules, at most %d", path, len(rules), MaxRules)
	}
	for i, rule := range rules {
		if r := checkText(fmt.Sprintf("%s/%d", path, i), rule, MaxRule, true); r != nil {
			return r
		}
	}
	return nil
}

// checkText bounds one text of the parties: valid UTF-8, something visible, at
// most limit code points, no control character but tab and line feed, and
// those only where lines are allowed.
func checkText(path, s string, limit int, lines bool) *Refusal {
	visible := false
	for _, r := range s {
		if unicode.Is(unicode.Cc, r) && !(lines && (r == '\n' || r == '\t')) {
			return refuse(CodeInvalid, "%s: control character U+%04X", path, r)
		}
		visible = visible || !hidden(r) && !unicode.IsSpace(r)
	}
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		return refuse(CodeInvalid, "%s: invalid UTF-8", path)
	case !visible:
		return refuse(CodeInvalid, "%s: empty", path)
	case n > limit:
		return refuse(CodeInvalid, "%s: %d code points, at most %d", path, n, limit)
	}
	return nil
}
