package agreement

import (
	"encoding/base64"
	"fmt"
)

// Roles of a participant. p1 initiates, everybody else is invited.
const (
	RoleInitiator = "initiator"
	RoleInvited   = "invited"
)

// Kinds of a participant. KindAgent belongs to parley/1, KindAgentMail to
// consensus/1, KindHuman to both.
const (
	KindHuman     = "human"
	KindAgent     = "agent"
	KindAgentMail = "agentmail"
)

// VenueID is the participant id of the venue's own events.
const VenueID = "venue"

// Participant is one entry of the roster. Exactly one of PubKey and
// AddressCommitment stands in it.
type Participant struct {
	ID    string `json:"id"`    // "p1" to "p8", in roster order
	Kind  string `json:"kind"`  // KindHuman, KindAgent or KindAgentMail
	Role  string `json:"role"`  // RoleInitiator or RoleInvited
	Label string `json:"label"` // one line, 1 to 100 code points

	// PubKey is the participant's x-only secp256k1 key in lower-case hex.
	PubKey string `json:"pubkey,omitempty"`
	// AddressCommitment is base64url(SHA-256("parley/address/1" ‖ 32-byte salt ‖
	// canonical address)), 43 characters without padding.
	AddressCommitment string `json:"address_commitment,omitempty"`
	// Delegate is a key that may comment and decide for the participant, in hex.
	Delegate string `json:"delegate,omitempty"`
}

// Participant finds an entry of the roster by its id.
func (a *Agreement) Participant(id string) (Participant, bool) {
	for _, p := range a.Participants {
		if p.ID == id {
			return p, true
		}
	}
	return Participant{}, false
}

// ParticipantByKey finds the entry that pubkey acts for, as the participant
// itself or as its delegate. Keys are unique in a roster, so there is at most
// one.
func (a *Agreement) ParticipantByKey(pubkey string) (Participant, bool) {
	for _, p := range a.Participants {
		if pubkey != "" && (p.PubKey == pubkey || p.Delegate == pubkey) {
			return p, true
		}
	}
	return Participant{}, false
}

func participantID(index int) string { return fmt.Sprintf("p%d", index+1) }

func (a *Agreement) checkRoster() *Refusal {
	if n := len(a.Participants); n < MinParticipants || n > MaxParticipants {
		return refuse(CodeInvalid, "/participants: %d, must be %d to %d", n, MinParticipants, MaxParticipants)
	}
	seen := make(map[string]bool)
	for i, p := range a.Participants {
		path := fmt.Sprintf("/participants/%d", i)
		if r := checkPlace(path, i, p); r != nil {
			return r
		}
		check := checkParleyParticipant
		if a.Profile == ProfileConsensus {
			check = checkConsensusParticipant
		}
		if r := check(path, i, p); r != nil {
			return r
		}
		for _, key := range []string{p.PubKey, p.AddressCommitment, p.Delegate} {
			if key != "" && seen[key] {
				return refuse(CodeInvalid, "%s: a key or commitment that stands in the roster twice", path)
			}
			seen[key] = true
		}
	}
	return nil
}

// checkPlace holds the rules of both profiles.
func checkPlace(path string, index int, p Participant) *Refusal {
	role := RoleInvited
	if index == 0 {
		role = RoleInitiator
	}
	switch {
	case p.ID != participantID(index):
		return refuse(CodeInvalid, "%s/id: not %s", path, participantID(index))
	case p.Role != role:
		return refuse(CodeInvalid, "%s/role: not %s", path, role)
	case (p.PubKey == "") == (p.AddressCommitment == ""):
		return refuse(CodeInvalid, "%s: needs either pubkey or address_commitment", path)
	case p.PubKey != "" && !validKey(p.PubKey):
		return refuse(CodeInvalid, "%s/pubkey: not a public key in lower-case hex", path)
	case p.AddressCommitment != "" && !validCommitment(p.AddressCommitment):
		return refuse(CodeInvalid, "%s/address_commitment: not 32 bytes in base64url", path)
	}
	return checkText(path+"/label", p.Label, MaxLabel, false)
}

func checkParleyParticipant(path string, index int, p Participant) *Refusal {
	switch {
	case p.Kind != KindHuman && p.Kind != KindAgent:
		return refuse(CodeInvalid, "%s/kind: neither %s nor %s", path, KindHuman, KindAgent)
	case index == 0 && p.PubKey == "":
		return refuse(CodeInvalid, "%s/pubkey: the initiator signs, so it needs a key", path)
	case p.Delegate != "" && !validKey(p.Delegate):
		return refuse(CodeInvalid, "%s/delegate: not a public key in lower-case hex", path)
	}
	return nil
}

func checkConsensusParticipant(path string, index int, p Participant) *Refusal {
	switch {
	case p.Kind != KindHuman && p.Kind != KindAgentMail:
		return refuse(CodeInvalid, "%s/kind: neither %s nor %s", path, KindHuman, KindAgentMail)
	case index == 0 && p.Kind != KindHuman:
		return refuse(CodeInvalid, "%s/kind: the initiator is a human", path)
	case p.PubKey != "":
		return refuse(CodeInvalid, "%s/pubkey: not in profile %s", path, ProfileConsensus)
	case p.Delegate != "":
		return refuse(CodeInvalid, "%s/delegate: not in profile %s", path, ProfileConsensus)
	}
	return nil
}

func validCommitment(s string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == 32 && len(s) == 43
}
