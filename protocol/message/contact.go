package message

import "fmt"

// Limits of ContactCarriers.
const (
	MaxCarriers = 16  // as many as a card may name
	MaxAddress  = 512 // bytes of one address
	MaxPriority = 255
)

// ContactCarriers tells a contact where the sender can be reached, including
// addresses its public card does not name. The list replaces the one before.
type ContactCarriers struct {
	Carriers []Carrier `json:"carriers"` // 0 to MaxCarriers
}

// Carrier is one way to reach an agent, as on a card.
type Carrier struct {
	Scheme   string `json:"scheme"`   // nostr, mqtt, ntfy, https, mailto
	Address  string `json:"address"`  // as the scheme writes it, at most MaxAddress bytes
	Priority int    `json:"priority"` // 0 to MaxPriority, lower first
}

// Type is TypeContactCarriers.
func (ContactCarriers) Type() string { return TypeContactCarriers }

// Validate implements Body. Addresses are bounded, not understood: the carrier
// of the scheme checks them before use.
func (b ContactCarriers) Validate() error {
	if b.Carriers == nil {
		return invalid("body/carriers", "is required")
	}
	if len(b.Carriers) > MaxCarriers {
		return invalid("body/carriers", fmt.Sprintf("has %d entries, at most %d", len(b.Carriers), MaxCarriers))
	}
	for i, c := range b.Carriers {
		at := fmt.Sprintf("body/carriers/%d/", i)
		switch {
		case !isName(c.Scheme):
			return invalid(at+"scheme", "must be a scheme")
		case c.Address == "" || len(c.Address) > MaxAddress:
			return invalid(at+"address", fmt.Sprintf("must be 1 to %d bytes", MaxAddress))
		case c.Priority < 0 || c.Priority > MaxPriority:
			return invalid(at+"priority", fmt.Sprintf("must be 0 to %d", MaxPriority))
		}
	}
	return nil
}
