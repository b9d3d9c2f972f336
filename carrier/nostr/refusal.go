package nostr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// errAuthRequired is a relay's demand to authenticate; it never leaves the
// package.
var errAuthRequired = errors.New("nostr: the relay wants authentication")

// ErrClock means that a relay refused a time that the own clock calls right.
// One of the two clocks is wrong; once it is put right the same bytes are taken.
var ErrClock = errors.New("the clocks differ, check this machine's clock")

// ofClocks reports whether a refusal is about the event's created_at or its
// expiration. The sender's engine asks no relay to take what has expired by its
// own clock.
func ofClocks(text string) bool {
	for _, word := range []string{"created_at", "expired", "future"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// refusal turns the text of an OK false or a CLOSED into an error, by the
// machine-readable prefix of NIP-01; nil for a duplicate.
func refusal(text string) error {
	prefix, _, found := strings.Cut(text, ":")
	if !found {
		prefix = ""
	}
	switch prefix {
	case "duplicate":
		return nil
	case "auth-required":
		return errAuthRequired
	case "rate-limited":
		if strings.Contains(text, "recipient") {
			return fmt.Errorf("%w: %w: relay refused: %s", carrier.ErrTransient, carrier.ErrRecipient, clip(text))
		}
		return fmt.Errorf("%w: relay refused: %s", &carrier.RateLimited{}, clip(text))
	case "invalid":
		if ofClocks(text) {
			return fmt.Errorf("%w: %w: relay refused: %s", carrier.ErrTransient, ErrClock, clip(text))
		}
		return fmt.Errorf("%w: relay refused: %s", carrier.ErrPermanent, clip(text))
	case "blocked", "restricted", "pow", "mute", "unsupported":
		return fmt.Errorf("%w: relay refused: %s", carrier.ErrPermanent, clip(text))
	}
	return fmt.Errorf("%w: relay refused: %s", carrier.ErrTransient, clip(text))
}

// clip keeps a relay's text short and printable.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200])
	}
	return text
}

// dialError says whether dialing again can help.
func dialError(err error) error {
	if errors.Is(err, egress.ErrRefusedAddress) || errors.Is(err, egress.ErrAddress) {
		return fmt.Errorf("%w: connecting to the relay: %w", carrier.ErrPermanent, err)
	}
	return fmt.Errorf("%w: connecting to the relay: %w", carrier.ErrTransient, err)
}

// transient marks trouble on the way.
func transient(action string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, carrier.ErrTransient) || errors.Is(err, carrier.ErrPermanent) {
		return fmt.Errorf("%s: %w", action, err)
	}
	return fmt.Errorf("%w: %s: %w", carrier.ErrTransient, action, err)
}
