package receipt

// Groups about what somebody found when looking.

// compliance is the finding of a check against a framework.
var compliance = object(
	need("framework", text(1, 256)),
	need("compliance_status", oneOf("compliant", "non_compliant", "partial", "under_review", "exempt")),
	may("audit_ref", text(1, 256)),
	may("auditor", text(1, 256)),
	may("audit_date", day),
	may("scope", text(1, 512)),
	may("validity_period", duration),
	may("evidence_ref", digest),
)

// privacy says how data is classed and kept.
var privacy = object(
	need("data_classification", text(1, 128)),
	may("processing_basis", text(1, 128)),
	may("retention_period", duration),
	may("retention_mode", oneOf("time_bound", "indefinite", "session_only")),
	may("recipient_scope", oneOf("internal", "processor", "third_party", "public")),
	may("anonymization_method", text(1, 128)),
	may("data_subject_category", text(1, 128)),
	may("transfer_mechanism", text(1, 128)),
)

// safety is the state of a safety review.
var safety = object(
	need("review_status", oneOf("reviewed", "pending", "flagged", "not_applicable")),
	may("risk_level", oneOf("unacceptable", "high", "limited", "minimal")),
	may("assessment_method", text(1, 256)),
	may("safety_measures", list(0, 32, text(1, 256))),
	may("incident_ref", text(1, 256)),
	may("model_ref", text(1, 256)),
	may("category", text(1, 128)),
)
