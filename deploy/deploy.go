package deploy

import _ "embed"

// Config is parley.yaml: every key of the configuration with its default.
//
//go:embed parley.yaml
var Config []byte
