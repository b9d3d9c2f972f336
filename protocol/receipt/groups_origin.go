package receipt

import "regexp"

// Groups about where something comes from and what it belongs to.

// identity points to a proof of who acted (WIRE-0.2, section 12.6).
var identity = object(
	may("proof_ref", text(0, 256)),
)

// correlation ties receipts to traces and to each other (section 12.7).
var correlation = object(
	may("trace_id", form(32, "32 lowercase hex digits", regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString)),
	may("span_id", form(16, "16 lowercase hex digits", regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString)),
	may("workflow_id", text(1, 256)),
	may("parent_jti", text(1, 256)),
	may("depends_on", list(0, 64, text(1, 256))),
)

// provenance is the origin of an artifact and the hands it went through.
var provenance = object(
	need("source_type", text(1, 128)),
	may("source_ref", text(1, 256)),
	may("source_uri", locator),
	may("build_provenance_uri", locator),
	may("verification_method", text(1, 128)),
	may("custody_chain", list(0, 16, object(
		need("custodian", text(1, 256)),
		need("action", text(1, 128)),
		need("timestamp", instant),
	))),
	may("slsa", object(
		need("track", text(1, 64)),
		need("level", integer(0, 4)),
		need("version", text(1, 16)),
	)),
)

// attribution names the creator of something and what is owed.
var attribution = object(
	need("creator_ref", text(1, 256)),
	may("license_spdx", licence),
	may("obligation_type", text(1, 128)),
	may("attribution_text", text(1, 1024)),
	may("content_signal_source", oneOf("tdmrep_json", "content_signal_header", "content_usage_header", "robots_txt", "custom")),
	may("content_digest", digest),
)
