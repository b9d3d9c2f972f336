package receipt

import (
	"regexp"
	"strings"
)

// namespace is the domain of what the protocol registers itself.
const namespace = "org.peacprotocol/"

// groups are the registered extension groups. Those that record what an agent
// saw of somebody else's doing have profiles of their own and may hold any
// JSON: the wire format asks only that the type's group be there.
var groups = map[string]rule{
	namespace + "access":                 access,
	namespace + "attribution":            attribution,
	namespace + "challenge":              challenge,
	namespace + "commerce":               commerce,
	namespace + "compliance":             compliance,
	namespace + "consent":                consent,
	namespace + "correlation":            correlation,
	namespace + "identity":               identity,
	namespace + "privacy":                privacy,
	namespace + "provenance":             provenance,
	namespace + "purpose":                purpose,
	namespace + "safety":                 safety,
	namespace + "a2a-handoff":            anything,
	namespace + "agent-action":           anything,
	namespace + "cli-execution":          anything,
	namespace + "commerce-mandate":       anything,
	namespace + "gateway-export":         anything,
	namespace + "lifecycle-observation":  anything,
	namespace + "provisioning-lifecycle": anything,
}

func anything(any, string) *Error { return nil }

// typesOfGroup lists the registered types by the group each demands.
var typesOfGroup = map[string]string{
	"access":      "access-decision",
	"attribution": "attribution-event",
	"commerce":    "payment",
	"compliance":  "compliance-check",
	"consent":     "consent-record",
	"identity":    "identity-attestation",
	"privacy":     "privacy-signal",
	"provenance":  "provenance-record",
	"purpose":     "purpose-declaration",
	"safety":      "safety-review",

	"a2a-handoff": `a2a-agent-card-observation a2a-human-approved a2a-human-rejected
		a2a-human-review-requested a2a-task-accepted a2a-task-completed a2a-task-failed
		a2a-task-rejected a2a-task-state-changed a2a-task-submitted`,
	"agent-action": `agent-action-approved-observed agent-action-cancelled-observed
		agent-action-delegated-observed agent-action-denied-observed
		agent-action-invoked-observed agent-action-timed-out-observed`,
	"cli-execution": "cli-command-execution",
	"commerce-mandate": `commerce-authorization-observed commerce-budget-observed
		commerce-capture-observed commerce-mandate-observed commerce-refund-observed
		commerce-settlement-observed commerce-void-observed`,
	"gateway-export": `gateway-facilitator-timeout-observed gateway-payment-submitted-observed
		gateway-settlement-confirmed-late-observed gateway-settlement-confirmed-observed
		gateway-settlement-failed-observed gateway-settlement-failed-orphaned-observed
		gateway-settlement-polling-observed gateway-settlement-unresolved-observed`,
	"lifecycle-observation": `lifecycle-approval-denied lifecycle-approval-granted
		lifecycle-approval-requested lifecycle-evaluation-completed
		lifecycle-evaluation-started lifecycle-experiment-assigned
		lifecycle-experiment-result lifecycle-mode-observed lifecycle-workflow-transition`,
	"provisioning-lifecycle": `provisioning-account-observed provisioning-budget-observed
		provisioning-catalog-observed provisioning-credential-observed
		provisioning-deployment-observed provisioning-domain-observed
		provisioning-payment-authorization-observed provisioning-provider-link-observed
		provisioning-resource-observed provisioning-subscription-observed`,
}

var groupOfType = func() map[string]string {
	table := make(map[string]string)
	for group, types := range typesOfGroup {
		for _, name := range strings.Fields(types) {
			table[namespace+name] = namespace + group
		}
	}
	return table
}()

// groupOf names the extension group that a registered type demands, "" for a
// type of somebody else's.
func groupOf(typ string) string { return groupOfType[typ] }

// isRegisteredType reports whether the protocol registers the type.
func isRegisteredType(typ string) bool { return groupOf(typ) != "" }

var (
	domainLabel      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	extensionSegment = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// isExtensionKey reports whether key is domain/segment in lowercase, the
// domain with a dot (WIRE-0.2, section 12.1).
func isExtensionKey(key string) bool {
	domain, segment, _ := strings.Cut(key, "/")
	if len(key) > 512 || len(domain) > 253 || !strings.Contains(domain, ".") || !extensionSegment.MatchString(segment) {
		return false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if !domainLabel.MatchString(label) {
			return false
		}
	}
	return true
}
