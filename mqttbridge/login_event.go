package mqttbridge

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/httpauth"
)

// Signer is the key that logs in.
type Signer interface {
	// PublicKey is the key in 64 lowercase hex characters.
	PublicKey() string
	// Sign sets pubkey, id and sig of ev.
	Sign(ev *nostr.Event) error
}

// clientTag binds a login to the client id it is for.
const clientTag = "client"

// loginPassword is what a key shows a broker beside its hex form as user name: an
// event of kind 27235 that names the broker and the client id. It holds for one
// connection within a minute.
func loginPassword(signer Signer, broker, clientID string, now time.Time) (string, error) {
	ev := nostr.Event{
		Kind: httpauth.Kind, CreatedAt: nostr.Timestamp(now.Unix()),
		Tags:    nostr.Tags{{"u", broker}, {clientTag, clientID}},
		Content: rand.Text(), // two logins within a second are two events
	}
	if err := signer.Sign(&ev); err != nil {
		return "", fmt.Errorf("mqttbridge: signing the login: %w", err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		return "", fmt.Errorf("mqttbridge: encoding the login: %w", err)
	}
	return string(data), nil
}
