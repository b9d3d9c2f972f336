package relay

import (
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"
)

// checkWork asks for an id that begins with so many zero bits and for a nonce
// tag that commits to as many: luck does not count (NIP-13). The id is compared
// with its event later, which costs more.
func checkWork(ev *nostr.Event, bits int) string {
	if bits == 0 {
		return ""
	}
	tag := ev.Tags.Find("nonce")
	if len(tag) < 3 {
		return fmt.Sprintf("pow: the id needs %d zero bits, and a nonce tag that commits to them", bits)
	}
	if target, err := strconv.Atoi(tag[2]); err != nil || target < bits {
		return fmt.Sprintf("pow: the nonce tag commits to less than the %d bits that are asked for", bits)
	}
	if have := nip13.Difficulty(ev.ID); have < bits {
		return fmt.Sprintf("pow: the id has %d zero bits, %d are asked for", have, bits)
	}
	return ""
}
