package agreement

import (
	"bytes"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
)

// Profiles of agreement/v1.
const (
	ProfileConsensus = "consensus/1" // humans initiate, participants stand by commitments to their addresses
	ProfileParley    = "parley/1"    // agents may initiate, participants stand by their keys
)

// Unanimity is the one strategy of this version: every participant agrees.
const Unanimity = "unanimity"

// Limits of one agreement. Text is counted in Unicode code points after
// decoding, without normalisation.
const (
	MaxAgreementSize = 1 << 20 // bytes, before parsing
	MaxTitle         = 200
	MaxObjective     = 8000
	MaxRules         = 50 // entries in must, and as many in must_not
	MaxRule          = 1000
	MaxLabel         = 100
	MinParticipants  = 2
	MaxParticipants  = 8
)

// Revision is the only revision an agreement has. A change of the terms is a
// new agreement.
const Revision = 1

// Agreement is one locked revision, agreement/v1. Build it with New or
// ParseAgreement; a value changed afterwards has another digest.
type Agreement struct {
	Schema       string         `json:"schema"`  // an http(s) origin and "/schemas/agreement/v1"
	Profile      string         `json:"profile"` // ProfileParley or ProfileConsensus
	AgreementID  string         `json:"agreement_id"`
	Venue        string         `json:"venue"` // parley/1: the venue's public key, hex; consensus/1: its https origin
	Revision     int64          `json:"revision"`
	Supersedes   *Supersedes    `json:"supersedes,omitzero"`
	Title        string         `json:"title"`
	Objective    string         `json:"objective"`
	Must         []string       `json:"must"`
	MustNot      []string       `json:"must_not"`
	Participants []Participant  `json:"participants"`
	Strategy     Strategy       `json:"strategy"`
	Deadline     canonical.Time `json:"deadline"`
}

// Supersedes names the agreement that this one replaces once it is reached.
type Supersedes struct {
	AgreementID string `json:"agreement_id"`
	Digest      string `json:"digest"`
}

// Strategy is how decisions make an outcome. Threshold is kept as written: a
// decimal or a fraction such as "2/3". Unanimity does not read it.
type Strategy struct {
	Name      string `json:"name"`
	Threshold string `json:"threshold,omitempty"`
}

// ParseAgreement reads an agreement/v1 document strictly: the I-JSON gate, no
// unknown, missing or null member, every limit and every rule of the roster.
// The bytes need not be canonical. Errors are *Refusal with CodeInvalid.
func ParseAgreement(data []byte) (*Agreement, error) {
	a := new(Agreement)
	if err := decode(data, MaxAgreementSize, a); err != nil {
		return nil, err
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	return a, nil
}

// Check tells whether a is a valid agreement/v1: every limit and rule that
// ParseAgreement applies. Errors are *Refusal with CodeInvalid.
func (a *Agreement) Check() error {
	for _, check := range []func() *Refusal{
		a.checkHead, a.checkSupersedes, a.checkTerms, a.checkRoster, a.checkStrategy,
	} {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

func (a *Agreement) checkHead() *Refusal {
	switch {
	case a.Profile != ProfileParley && a.Profile != ProfileConsensus:
		return refuse(CodeInvalid, "/profile: neither %s nor %s", ProfileParley, ProfileConsensus)
	case !validSchema(a.Schema, schemaAgreement):
		return refuse(CodeInvalid, "/schema: not an http or https origin with %s", schemaAgreement)
	case !canonical.IsUUID(a.AgreementID, 7):
		return refuse(CodeInvalid, "/agreement_id: not a lower-case UUID of version 7")
	case a.Revision != Revision:
		return refuse(CodeInvalid, "/revision: only revision 1 exists")
	case !validDeadline(a.Deadline.Time):
		return refuse(CodeInvalid, "/deadline: missing or outside the years 2000 to 9999")
	}
	return a.checkVenue()
}

func (a *Agreement) checkVenue() *Refusal {
	if a.Profile == ProfileParley {
		if !validKey(a.Venue) {
			return refuse(CodeInvalid, "/venue: not a public key in lower-case hex")
		}
		return nil
	}
	if !strings.HasPrefix(a.Venue, "https://") || a.Venue != a.Origin() {
		return refuse(CodeInvalid, "/venue: not the https origin of the schema")
	}
	return nil
}

func (a *Agreement) checkSupersedes() *Refusal {
	switch s := a.Supersedes; {
	case s == nil:
		return nil
	case a.Profile != ProfileParley:
		return refuse(CodeInvalid, "/supersedes: not in profile %s", a.Profile)
	case !canonical.IsUUID(s.AgreementID, 7) || s.AgreementID == a.AgreementID:
		return refuse(CodeInvalid, "/supersedes/agreement_id: not the id of another agreement")
	case !canonical.IsHex(s.Digest, 32):
		return refuse(CodeInvalid, "/supersedes/digest: not 64 lower-case hex characters")
	}
	return nil
}

func (a *Agreement) checkStrategy() *Refusal {
	switch {
	case a.Strategy.Name != Unanimity:
		return refuse(CodeInvalid, "/strategy/name: this version knows only %s", Unanimity)
	case a.Strategy.Threshold != "" && a.Profile != ProfileParley:
		return refuse(CodeInvalid, "/strategy/threshold: not in profile %s", a.Profile)
	case a.Strategy.Threshold != "" && !validThreshold(a.Strategy.Threshold):
		return refuse(CodeInvalid, "/strategy/threshold: neither a decimal nor a fraction of at most 32 characters")
	}
	return nil
}

func validDeadline(t time.Time) bool { return t.Year() >= 2000 && t.Year() <= 9999 }

// Canonical returns the RFC 8785 bytes that the digest covers.
func (a *Agreement) Canonical() ([]byte, error) { return canonical.Marshal(a) }

// Digest is the lowercase hex SHA-256 of the canonical bytes. It is empty for
// a value that has no canonical form, which no checked agreement is.
func (a *Agreement) Digest() string {
	data, err := a.Canonical()
	if err != nil {
		return ""
	}
	return canonical.Digest(data)
}

// Origin is the origin of the agreement's schema, such as
// "https://parley.example". The schemas of its commands, events and bundle
// stand on the same origin.
func (a *Agreement) Origin() string { return strings.TrimSuffix(a.Schema, schemaAgreement) }

// decode reads one document of at most limit bytes into v, and refuses it when
// v does not say exactly what the document said: a member that is missing,
// null or empty where it may only be absent.
func decode(data []byte, limit int, v any) error {
	if len(data) > limit {
		return refuse(CodeInvalid, "%d bytes, at most %d are read", len(data), limit)
	}
	if err := canonical.Decode(data, v); err != nil {
		return refuse(CodeInvalid, "%s", place(err))
	}
	given, err := canonical.Transform(data)
	if err != nil {
		return refuse(CodeInvalid, "%s", place(err))
	}
	read, err := canonical.Marshal(v)
	if err != nil || !bytes.Equal(given, read) {
		return refuse(CodeInvalid, "a member is missing, null, or empty where it should be left out")
	}
	return nil
}
