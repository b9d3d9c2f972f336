package conformance

import (
	"slices"
	"time"
)

// Level says what a finding of a check means.
type Level string

// The levels.
const (
	Required    Level = "required"    // every relay
	Optional    Level = "optional"    // a finding is a warning
	Conditional Level = "conditional" // required of a relay that advertises Check.Needs
)

// Verdict is how a check ended.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"         // a finding of a Required or Conditional check
	Warn         Verdict = "warn"         // a finding of an Optional check
	Skip         Verdict = "skip"         // the relay does not offer what is checked
	Inconclusive Verdict = "inconclusive" // the relay asked to slow down, again and again
)

// Check is one property of a relay.
type Check struct {
	Name     string // group.property, such as "nip01.since-is-inclusive"
	NIP      int    // the NIP that asks for it
	Level    Level
	Needs    int    // the NIP a relay advertises for a Conditional check to run, else 0
	Property string // one sentence without a full stop
	run      func(t *trial)
}

// Result is the outcome of one check.
type Result struct {
	Name     string        `json:"check"`
	NIP      int           `json:"nip"`
	Level    Level         `json:"level"`
	Verdict  Verdict       `json:"verdict"`
	Detail   string        `json:"detail,omitempty"` // the finding, or the reason; may quote the relay
	Duration time.Duration `json:"duration_ns"`
}

func required(name string, nip int, property string, run func(*trial)) Check {
	return Check{Name: name, NIP: nip, Level: Required, Property: property, run: run}
}

func optional(name string, nip int, property string, run func(*trial)) Check {
	return Check{Name: name, NIP: nip, Level: Optional, Property: property, run: run}
}

// conditional is a check for relays that advertise nip.
func conditional(name string, nip int, property string, run func(*trial)) Check {
	return needing(nip, name, nip, property, run)
}

// needing is a check of nip for relays that advertise another one.
func needing(needs int, name string, nip int, property string, run func(*trial)) Check {
	return Check{Name: name, NIP: nip, Level: Conditional, Needs: needs, Property: property, run: run}
}

// Checks returns every check, in the order of their groups.
func Checks() []Check {
	return slices.Concat(
		frameChecks, eventChecks, filterChecks, subscriptionChecks, versionChecks, orderChecks, limitChecks,
		deletionChecks, informationChecks, workChecks, wrapChecks, expirationChecks, authenticationChecks,
		countChecks, searchChecks, vanishChecks, relayListChecks, protectionChecks, reconciliationChecks,
		managementChecks,
	)
}
