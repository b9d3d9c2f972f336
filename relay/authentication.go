package relay

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

const (
	// authWindow is how far created_at of an AUTH event may lie from now, in
	// both directions. NIP-42 suggests ten minutes; the challenge, which is
	// new for every connection, is what prevents a replay.
	authWindow = 10 * time.Minute
	// maxKeys is the number of keys one connection may authenticate.
	maxKeys = 16
	// challengeSize is in bytes, before hex.
	challengeSize = 32
)

// newChallenge returns the challenge of one connection.
func newChallenge() string {
	var b [challengeSize]byte
	rand.Read(b[:]) //nolint:errcheck // It never fails (crypto/rand).
	return hex.EncodeToString(b[:])
}

// checkAuth checks an AUTH event, whose shape is right, against the
// connection's challenge and the relay's origin (NIP-42). The error's text is
// fit for the peer.
func checkAuth(ev *nostr.Event, challenge, origin string, now time.Time) error {
	relay, sent := ev.Tags.Find("relay"), ev.Tags.Find("challenge")
	at := time.Unix(int64(ev.CreatedAt), 0)
	switch {
	case ev.Kind != nostr.KindClientAuthentication:
		return errors.New("an AUTH event has kind 22242")
	case sent == nil || sent[1] != challenge:
		return errors.New("the challenge is not the one of this connection")
	case relay == nil || !sameRelay(relay[1], origin):
		return errors.New("the relay tag names another relay")
	case at.After(now.Add(authWindow)) || at.Before(now.Add(-authWindow)):
		return fmt.Errorf("created_at is %s, more than ten minutes", apart(at, now))
	case !ev.CheckID():
		return errors.New("the id is not the hash of the event")
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok {
		return errors.New("the signature is wrong")
	}
	return nil
}

// sameRelay compares a relay URL with an origin: ws and wss stand for http
// and https, and neither the default port nor a final slash makes a
// difference.
func sameRelay(relayURL, origin string) bool {
	a, errA := url.Parse(strings.ToLower(strings.TrimSpace(relayURL)))
	b, errB := url.Parse(origin)
	if errA != nil || errB != nil || a.User != nil || a.RawQuery != "" || strings.Trim(a.Path, "/") != "" {
		return false
	}
	secure := b.Scheme == "https"
	port := "80"
	if secure {
		port = "443"
	}
	return (a.Scheme == "wss") == secure && (a.Scheme == "ws") == !secure &&
		strings.TrimSuffix(a.Host, ":"+port) == strings.TrimSuffix(b.Host, ":"+port)
}

// authenticate handles one AUTH message. Several keys may authenticate on one
// connection; subscriptions that are open keep the keys they were opened with.
func (s *session) authenticate(data []byte) {
	ev, err := parseEvent(data)
	if ev == nil {
		s.refuseFrame("AUTH: " + err.Error())
		return
	}
	if err == nil {
		err = checkAuth(ev, s.challenge, s.relay.opts.Origin, s.relay.opts.Now())
	}
	if err == nil && len(s.keys) >= maxKeys && !s.authenticated(ev.PubKey) {
		err = errors.New("too many keys on one connection")
	}
	if err != nil {
		s.relay.metrics.authentications.WithLabelValues("refused").Inc()
		s.strike()
		s.send(okMessage(echoID(ev.ID), false, "invalid: "+err.Error()))
		return
	}
	if !s.authenticated(ev.PubKey) {
		s.keys = append(s.keys, ev.PubKey)
	}
	s.relay.metrics.authentications.WithLabelValues("accepted").Inc()
	s.send(okMessage(ev.ID, true, ""))
}

// authenticated reports whether the key authenticated on this connection.
func (s *session) authenticated(pubkey string) bool { return slices.Contains(s.keys, pubkey) }
