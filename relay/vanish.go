package relay

import (
	"github.com/nbd-wtf/go-nostr"
)

// everyRelay is the relay tag of a request to vanish from wherever it comes to
// (NIP-62).
const everyRelay = "ALL_RELAYS"

// checkVanish takes requests to vanish that name this relay or all relays.
func checkVanish(ev *nostr.Event, origin string) string {
	named := false
	for _, tag := range ev.Tags {
		if len(tag) < 2 || tag[0] != "relay" {
			continue
		}
		if tag[1] == everyRelay || sameRelay(tag[1], origin) {
			return ""
		}
		named = true
	}
	if named {
		return "blocked: the request to vanish names other relays only"
	}
	return "invalid: a request to vanish has a relay tag with this relay or " + everyRelay
}

// vanishes reports whether the request of a key, made at a time, takes a stored
// event along: what the key published until then, and the wraps for it.
//
// The time of a wrap says little, since senders set it back by up to two days
// (NIP-59). So a wrap that comes after the request is taken whatever its time,
// unless it is one that the request removed.
func vanishes(request *nostr.Event, pubkey, recipient string, at nostr.Timestamp) bool {
	return at <= request.CreatedAt && (pubkey == request.PubKey || recipient == request.PubKey)
}
