package receipt

import "regexp"

// Groups about what was done or asked for.

// access is a decision about a resource (WIRE-0.2, section 12.5).
var access = object(
	need("resource", text(1, 2048)),
	need("action", text(1, 256)),
	need("decision", oneOf("allow", "deny", "review")),
)

// commerce is a payment (section 12.4); the amount is in the smallest unit.
var commerce = object(
	need("payment_rail", text(1, 128)),
	need("amount_minor", form(64, "a whole number in text", regexp.MustCompile(`^-?[0-9]+$`).MatchString)),
	need("currency", text(1, 16)),
	may("reference", text(0, 256)),
	may("asset", text(0, 256)),
	may("env", oneOf("live", "test")),
	may("event", oneOf("authorization", "capture", "settlement", "refund", "void", "chargeback")),
)

// challenge asks the receiver for something (section 13). Its problem is one
// of RFC 9457, which lets anybody add members.
var challenge = object(
	need("challenge_type", oneOf("payment_required", "identity_required", "consent_required",
		"attestation_required", "rate_limited", "purpose_disallowed", "custom")),
	need("problem", openObject(
		need("status", integer(100, 599)),
		need("type", identifier),
		may("title", text(0, 256)),
		may("detail", text(0, 4096)),
		may("instance", text(0, 2048)),
	)),
	may("resource", text(0, 2048)),
	may("action", text(0, 256)),
	may("requirements", openObject()),
)

// consent is a consent given, refused or taken back.
var consent = object(
	need("consent_basis", text(1, 128)),
	need("consent_status", oneOf("granted", "withdrawn", "denied", "expired")),
	may("data_categories", list(0, 64, text(1, 128))),
	may("retention_period", duration),
	may("consent_method", text(1, 128)),
	may("withdrawal_uri", locator),
	may("scope", text(1, 256)),
	may("jurisdiction", text(1, 16)),
)

func purposeToken(high int) rule { return form(high, "a purpose token", purposeHyphen.MatchString) }

// purpose is what something is declared to be used for.
var purpose = object(
	need("external_purposes", distinct(1, 32, purposeToken(128))),
	may("purpose_basis", text(1, 128)),
	may("purpose_limitation", flag),
	may("data_minimization", flag),
	may("compatible_purposes", distinct(0, 32, purposeToken(128))),
	may("peac_purpose_mapping", purposeToken(64)),
)
