package wellknown

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/parleykit/parley/protocol/canonical"
)

// NamesPath is where a server answers which keys its names belong to (NIP-05).
const NamesPath = "/.well-known/nostr.json"

// RootName stands for the host itself (NIP-05).
const RootName = "_"

// Limits of what is read of Names.
const (
	MaxNamesSize  = 1 << 20 // bytes of the document; some servers send all their names
	maxName       = 64      // bytes
	maxHost       = 260     // bytes, with a port
	maxNameRelays = 8       // of one key
)

// ErrName means text that is no name@host, or a document without the name.
var ErrName = errors.New("wellknown: name")

var (
	namePattern = regexp.MustCompile(`^[a-z0-9._-]+$`)
	hostPattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)
)

// Names is the document of NIP-05: public keys by name, and the relays of each
// key. Keys are 64 lowercase hex digits.
type Names struct {
	Names  map[string]string   `json:"names"`
	Relays map[string][]string `json:"relays,omitempty"`
}

// IsName reports whether a name has the form of NIP-05, in lower case.
func IsName(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }

// ParseName reads name@host or name@host:port, or a host alone for its root
// name, and returns both in lower case.
func ParseName(text string) (name, host string, err error) {
	name, host, found := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "@")
	if !found {
		name, host = RootName, name
	}
	if !IsName(name) || len(host) > maxHost || !hostPattern.MatchString(host) {
		return "", "", fmt.Errorf("%w: %.80q is not name@host", ErrName, text)
	}
	return name, host, nil
}

// FindName reads the document a server sent and returns the key of a name with
// at most eight of its relays, whose form is not checked. Other names in it are
// not looked at.
func FindName(document []byte, name string) (pubkey string, relays []string, err error) {
	var doc struct {
		Names  map[string]json.RawMessage `json:"names"`
		Relays map[string]json.RawMessage `json:"relays"`
	}
	if len(document) > MaxNamesSize {
		return "", nil, fmt.Errorf("%w: the document is too large", ErrName)
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return "", nil, fmt.Errorf("%w: the document is no JSON of NIP-05", ErrName)
	}
	value, found := doc.Names[name]
	if !found {
		return "", nil, fmt.Errorf("%w: the server does not know %q", ErrName, name)
	}
	if json.Unmarshal(value, &pubkey) != nil || !canonical.IsHex(pubkey, 32) {
		return "", nil, fmt.Errorf("%w: the server names no public key in hex", ErrName)
	}
	_ = json.Unmarshal(doc.Relays[pubkey], &relays) // they are hints
	return pubkey, relays[:min(len(relays), maxNameRelays)], nil
}
