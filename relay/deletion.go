package relay

import (
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// deletionTargets returns what the deletion request ev may delete (NIP-09):
// ids, which hold only for events of the same author, and addresses, of which
// only the author's own are returned.
func deletionTargets(ev *nostr.Event) (ids []string, addresses []address) {
	for _, tag := range ev.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			if canonical.IsHex(tag[1], 32) {
				ids = append(ids, tag[1])
			}
		case "a":
			if a, ok := parseAddress(tag[1]); ok && a.pubkey == ev.PubKey {
				addresses = append(addresses, a)
			}
		}
	}
	return ids, addresses
}

// parseAddress reads "kind:pubkey:d" as NIP-01 writes it in an a tag.
func parseAddress(s string) (address, bool) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok {
		return address{}, false
	}
	pubkey, d, ok := strings.Cut(rest, ":")
	n, err := strconv.Atoi(kind)
	if !ok || err != nil || !canonical.IsHex(pubkey, 32) {
		return address{}, false
	}
	switch {
	case nostr.IsReplaceableKind(n):
		return address{n, pubkey, ""}, true
	case nostr.IsAddressableKind(n):
		return address{n, pubkey, d}, true
	}
	return address{}, false
}
