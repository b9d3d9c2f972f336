package envelope

import (
	"errors"
	"fmt"

	"github.com/parleykit/parley/protocol/message"
)

// Errors of Seal, Open and Join. Each names the check that failed.
var (
	ErrTooLarge  = errors.New("envelope: too large")                     // wrap beyond EventLimit, message beyond MaxParts wraps
	ErrMalformed = errors.New("envelope: malformed wrap")                // not the exact NIP-01 bytes of one signed event, or a bad expiration
	ErrKind      = errors.New("envelope: not a gift wrap")               // wrap kind is not 1059
	ErrRecipient = errors.New("envelope: for another recipient")         // not exactly one p tag with the opener's key, or message to another key
	ErrSignature = errors.New("envelope: wrap signature invalid")        // id or signature of the wrap
	ErrDecrypt   = errors.New("envelope: undecryptable")                 // NIP-44 payload of wrap or seal
	ErrSeal      = errors.New("envelope: invalid seal")                  // seal's shape, kind, tags, id or signature
	ErrRumor     = errors.New("envelope: invalid rumor")                 // rumor's shape, kind, tags or id; a signed rumor
	ErrSender    = errors.New("envelope: sender is not who sealed it")   // rumor key, seal key and message from differ
	ErrInflate   = errors.New("envelope: content does not inflate")      // base64 or deflate broken, or beyond message.MaxSize
	ErrParts     = errors.New("envelope: parts do not make one message") // missing, repeated, foreign or mixed parts
	ErrMessage   = errors.New("envelope: invalid message")               // message refused by message.Parse or by its times
	ErrExpired   = errors.New("envelope: expired")                       // wrap or message past its time
)

// reasons gives every error its label; the first that matches counts.
var reasons = []struct {
	err   error
	label string
}{
	{ErrTooLarge, "too_large"},
	{ErrMalformed, "malformed"},
	{ErrKind, "kind"},
	{ErrRecipient, "recipient"},
	{ErrSignature, "signature"},
	{ErrDecrypt, "decrypt"},
	{ErrSeal, "seal"},
	{ErrRumor, "rumor"},
	{ErrSender, "sender"},
	{ErrInflate, "inflate"},
	{ErrParts, "parts"},
	{ErrExpired, "expired"},
	{ErrMessage, "message"},
}

// reasonOther labels an error of no check here, such as a key that fails.
const reasonOther = "other"

// Reason is the label of err for metrics: one of Reasons, "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, reason := range reasons {
		if errors.Is(err, reason.err) {
			return reason.label
		}
	}
	return reasonOther
}

// Reasons lists every label Reason can give, for pre-initialised metrics.
func Reasons() []string {
	labels := make([]string, 0, len(reasons)+1)
	for _, reason := range reasons {
		labels = append(labels, reason.label)
	}
	return append(labels, reasonOther)
}

// messageError files an error of package message under one of this package.
func messageError(err error) error {
	if errors.Is(err, message.ErrExpired) {
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return fmt.Errorf("%w: %w", ErrMessage, err)
}
