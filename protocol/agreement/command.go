package agreement

import (
	"slices"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// Actions. The first is the initiator's, the next three are advisory, the
// three after them decide; ActionWithdraw takes a proposal back before the
// first decision (parley/1). ActionExpire and ActionClose are the venue's.
const (
	ActionPropose       = "propose"
	ActionComment       = "comment"
	ActionQuestion      = "question"
	ActionChangeRequest = "change_request"
	ActionAgree         = "agree"
	ActionDisagree      = "disagree"
	ActionAbstain       = "abstain"
	ActionWithdraw      = "withdraw"
	ActionExpire        = "expire"
	ActionClose         = "close"
)

// MaxBody is the longest advisory text in code points. A decision has none.
const MaxBody = 4000

// MaxCommandSize bounds a room-command/v1 in bytes before parsing.
const MaxCommandSize = 64 << 10

// Command is room-command/v1: one act of one participant on one digest. Its
// canonical bytes are what an idempotency key stands for.
type Command struct {
	Schema         string `json:"schema"`
	AgreementID    string `json:"agreement_id"`
	ParticipantID  string `json:"participant_id"`
	Action         string `json:"action"`
	Body           string `json:"body"`
	Revision       int64  `json:"revision"`
	RevisionDigest string `json:"revision_digest"`
}

// NewCommand fills a command on the agreement a.
func NewCommand(a *Agreement, participantID, action, body string) Command {
	return Command{
		Schema: a.Origin() + schemaCommand, AgreementID: a.AgreementID, ParticipantID: participantID,
		Action: action, Body: body, Revision: a.Revision, RevisionDigest: a.Digest(),
	}
}

// ParseCommand reads a room-command/v1 document strictly. Errors are *Refusal
// with CodeInvalid.
func ParseCommand(data []byte) (*Command, error) {
	c := new(Command)
	if err := decode(data, MaxCommandSize, c); err != nil {
		return nil, err
	}
	if r := c.check(); r != nil {
		return nil, r
	}
	return c, nil
}

// Canonical returns the RFC 8785 bytes of the command.
func (c Command) Canonical() ([]byte, error) { return canonical.Marshal(c) }

// check holds every rule that needs no room.
func (c Command) check() *Refusal {
	switch {
	case !validSchema(c.Schema, schemaCommand):
		return refuse(CodeInvalid, "/schema: not an http or https origin with %s", schemaCommand)
	case !canonical.IsUUID(c.AgreementID, 7):
		return refuse(CodeInvalid, "/agreement_id: not a lower-case UUID of version 7")
	case !validParticipantID(c.ParticipantID):
		return refuse(CodeInvalid, "/participant_id: not p1 to p%d", MaxParticipants)
	case !IsAdvisory(c.Action) && !IsDecision(c.Action) && c.Action != ActionWithdraw:
		return refuse(CodeInvalid, "/action: not an action of a participant")
	case !canonical.IsHex(c.RevisionDigest, 32):
		return refuse(CodeInvalid, "/revision_digest: not 64 lower-case hex characters")
	}
	return checkBody(c.Action, c.Body)
}

func checkBody(action, body string) *Refusal {
	n := utf8.RuneCountInString(body)
	switch {
	case !IsAdvisory(action) && body != "":
		return refuse(CodeInvalid, "/body: must be empty for %s", action)
	case IsAdvisory(action) && (n < 1 || n > MaxBody):
		return refuse(CodeInvalid, "/body: %d code points, must be 1 to %d", n, MaxBody)
	case !utf8.ValidString(body):
		return refuse(CodeInvalid, "/body: invalid UTF-8")
	}
	return nil
}

// IsAdvisory tells whether action carries text and decides nothing.
func IsAdvisory(action string) bool {
	return slices.Contains([]string{ActionComment, ActionQuestion, ActionChangeRequest}, action)
}

// IsDecision tells whether action is a participant's final, irreversible
// answer.
func IsDecision(action string) bool {
	return slices.Contains([]string{ActionAgree, ActionDisagree, ActionAbstain}, action)
}

func validParticipantID(id string) bool {
	return len(id) == 2 && id[0] == 'p' && id[1] >= '1' && id[1] <= '0'+MaxParticipants
}
