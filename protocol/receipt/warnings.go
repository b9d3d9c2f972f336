package receipt

import (
	"cmp"
	"maps"
	"slices"
)

// Warning is something about a valid receipt that a caller may want to know:
// one of the codes below and the place as a JSON pointer, "" for the header.
type Warning struct {
	Code    string `json:"code"`
	Pointer string `json:"pointer,omitzero"`
}

// The codes of warnings (WIRE-0.2, section 14.2). More may come.
const (
	WarnTypMissing             = "typ_missing"
	WarnTypeUnregistered       = "type_unregistered"
	WarnUnknownExtension       = "unknown_extension_preserved"
	WarnOccurredAtSkew         = "occurred_at_skew"
	WarnExtensionGroupMissing  = "extension_group_missing"
	WarnExtensionGroupMismatch = "extension_group_mismatch"
)

// sortWarnings puts warnings into the order in which they are reported: by
// pointer, then by code.
func sortWarnings(warnings []Warning) {
	slices.SortFunc(warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Code, b.Code))
	})
}

// unfamiliar warns of a type and of extensions that the protocol does not
// register. They are kept as they are.
func unfamiliar(c *Claims) []Warning {
	var warnings []Warning
	if !isRegisteredType(c.Type) {
		warnings = append(warnings, Warning{WarnTypeUnregistered, "/type"})
	}
	for key := range maps.Keys(c.Extensions) {
		if _, registered := groups[key]; !registered {
			warnings = append(warnings, Warning{WarnUnknownExtension, below("/extensions", key)})
		}
	}
	return warnings
}

// checkGroupOfType looks for the extension group that a registered type
// demands. A challenge and a type of somebody else's demand none.
func checkGroupOfType(c *Claims) *Error {
	group := groupOf(c.Type)
	if _, present := c.Extensions[group]; group == "" || present || c.Kind == KindChallenge {
		return nil
	}
	for key := range c.Extensions {
		if _, registered := groups[key]; registered {
			return refuse(CodeExtensionGroupMismatch, "/type", "this type demands the extension %s, another is there", group)
		}
	}
	return refuse(CodeExtensionGroupRequired, "/type", "this type demands the extension %s", group)
}

// groupWarning is what a refusal of checkGroupOfType comes to in interop mode.
func groupWarning(err *Error) Warning {
	if err.Code == CodeExtensionGroupMismatch {
		return Warning{WarnExtensionGroupMismatch, err.Pointer}
	}
	return Warning{WarnExtensionGroupMissing, err.Pointer}
}
