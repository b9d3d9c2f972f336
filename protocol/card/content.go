package card

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/protocol/canonical"
)

// agentCard is what this package reads of an A2A 1.0 Agent Card: the required
// members. The card may say more.
type agentCard struct {
	Name                string                    `json:"name"`
	Description         string                    `json:"description"`
	Version             string                    `json:"version"`
	SupportedInterfaces []agentInterface          `json:"supportedInterfaces"`
	Capabilities        map[string]jsontext.Value `json:"capabilities"`
	DefaultInputModes   []string                  `json:"defaultInputModes"`
	DefaultOutputModes  []string                  `json:"defaultOutputModes"`
	Skills              []jsontext.Value          `json:"skills"`
}

type agentInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

// checkContent accepts nothing, or one A2A 1.0 Agent Card in I-JSON.
func checkContent(content string) error {
	if content == "" {
		return nil
	}
	var a agentCard
	if err := canonical.Check([]byte(content)); err != nil {
		return fmt.Errorf("%w: content is not I-JSON", ErrMalformed)
	}
	if err := json.Unmarshal([]byte(content), &a); err != nil {
		return fmt.Errorf("%w: content is not an A2A Agent Card", ErrMalformed)
	}
	if a.Name == "" || a.Description == "" || a.Version == "" || len(a.SupportedInterfaces) == 0 ||
		a.Capabilities == nil || a.DefaultInputModes == nil || a.DefaultOutputModes == nil || a.Skills == nil {
		return fmt.Errorf("%w: content lacks a required member of an A2A Agent Card", ErrMalformed)
	}
	for _, i := range a.SupportedInterfaces {
		if i.URL == "" || i.ProtocolBinding == "" || i.ProtocolVersion == "" {
			return fmt.Errorf("%w: content has an incomplete supportedInterfaces entry", ErrMalformed)
		}
	}
	return nil
}
