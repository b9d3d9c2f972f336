package receipt

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of purposes. The number is for what is written; what is read is
// bounded by the size of the field.
const (
	maxPurposes      = 10
	maxPurposeToken  = 64      // bytes
	maxPurposeHeader = 8 << 10 // bytes of all fields together
)

// undeclaredPurpose is the name for a purpose that nobody stated. It is never
// sent.
const undeclaredPurpose = "undeclared"

// Purposes every reader knows.
const (
	PurposeTrain      = "train"       // to train a model
	PurposeSearch     = "search"      // to index for a search of the old kind
	PurposeUserAction = "user_action" // a person asked for it just now
	PurposeInference  = "inference"   // to answer with it while a model runs
	PurposeIndex      = "index"       // to store it in an index
)

var knownPurposes = []string{PurposeTrain, PurposeSearch, PurposeUserAction, PurposeInference, PurposeIndex}

// A PurposeReason says why a purpose was applied as it was.
type PurposeReason string

// Reasons, a closed set.
const (
	ReasonAllowed           PurposeReason = "allowed"
	ReasonConstrained       PurposeReason = "constrained"
	ReasonDenied            PurposeReason = "denied"
	ReasonDowngraded        PurposeReason = "downgraded"
	ReasonUndeclaredDefault PurposeReason = "undeclared_default" // no purpose was declared
	ReasonUnknownPreserved  PurposeReason = "unknown_preserved"  // a purpose is unknown here
)

var purposeReasons = []PurposeReason{
	ReasonAllowed, ReasonConstrained, ReasonDenied, ReasonDowngraded, ReasonUndeclaredDefault, ReasonUnknownPreserved,
}

// The protocol has two grammars of a token, of which neither holds the other.
// Tokens of either are read, those of the first are written.
var (
	purposePlain  = regexp.MustCompile(`^[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?$`)
	purposeHyphen = regexp.MustCompile(`^[a-z]([a-z0-9_-]*[a-z0-9])?(:[a-z]([a-z0-9_-]*[a-z0-9])?)?$`)
)

// IsPurpose reports whether token, in lower case, is a purpose or may become
// one: letters, digits, '_' and inner '-', perhaps after a prefix with ':', of at
// most 64 bytes.
func IsPurpose(token string) bool {
	return len(token) <= maxPurposeToken && token != undeclaredPurpose &&
		(purposePlain.MatchString(token) || purposeHyphen.MatchString(token))
}

// IsKnownPurpose reports whether token is one of the five every reader knows.
func IsKnownPurpose(token string) bool { return slices.Contains(knownPurposes, token) }

// ParsePurpose reads the values of the fields PEAC-Purpose of one request:
// lower case, each token once, in the order they came, unknown ones too. It
// returns none for a request that declares nothing; the reason to answer with
// is then ReasonUndeclaredDefault. What is no token at all, and the word
// "undeclared", are refused (HTTP 400).
func ParsePurpose(values []string) ([]string, error) {
	size := 0
	for _, value := range values {
		size += len(value)
	}
	if size > maxPurposeHeader {
		return nil, refuse(CodeInvalidFormat, "", "%s has %d bytes, at most %d", HeaderPurpose, size, maxPurposeHeader)
	}
	tokens := []string{}
	seen := make(map[string]bool)
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			token := lowerASCII(strings.Trim(part, " \t"))
			if token == "" || seen[token] {
				continue
			}
			if !IsPurpose(token) {
				return nil, refuse(CodeInvalidFormat, "", "%s has %s, which is no purpose to declare", HeaderPurpose, quoted(token))
			}
			seen[token] = true
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// lowerASCII leaves letters beyond ASCII alone: some would become ASCII.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// FormatPurpose is the value of PEAC-Purpose for one to ten tokens.
func FormatPurpose(tokens []string) (string, error) {
	if len(tokens) == 0 || len(tokens) > maxPurposes {
		return "", refuse(CodeInvalidFormat, "", "%d purposes, want 1 to %d", len(tokens), maxPurposes)
	}
	for i, token := range tokens {
		if !IsPurpose(token) || !purposePlain.MatchString(token) || slices.Contains(tokens[:i], token) {
			return "", refuse(CodeInvalidFormat, "", "%s is no purpose to declare, or declared twice", quoted(token))
		}
	}
	return strings.Join(tokens, ", "), nil
}

// PurposeAnswer is the fields of a response to a request that declared these
// purposes: which known purpose was applied, why, and that caches must tell
// requests apart by their purpose. With a declared purpose one must be applied;
// applied may be "" otherwise. The field Vary is to be added to others.
func PurposeAnswer(declared []string, applied string, reason PurposeReason) ([]HeaderField, error) {
	switch {
	case !slices.Contains(purposeReasons, reason):
		return nil, refuse(CodeInvalidFormat, "", "%s is no reason", quoted(string(reason)))
	case applied != "" && !IsKnownPurpose(applied):
		return nil, refuse(CodeInvalidFormat, "", "%s is no known purpose", quoted(applied))
	case applied == "" && len(declared) > 0:
		return nil, refuse(CodeInvalidFormat, "", "a purpose was declared and none applied")
	case (reason == ReasonUndeclaredDefault) != (len(declared) == 0):
		return nil, refuse(CodeInvalidFormat, "", "the reason %s does not fit %d declared purposes", reason, len(declared))
	}
	var fields []HeaderField
	if applied != "" {
		fields = append(fields, HeaderField{HeaderPurposeApplied, applied})
	}
	return append(fields, HeaderField{HeaderPurposeReason, string(reason)}, HeaderField{"Vary", HeaderPurpose}), nil
}
