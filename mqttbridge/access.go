package mqttbridge

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/httpauth"
)

// rules decide who logs in, who reads and writes what, and when a publish counts as
// taken.
type rules struct {
	mqtt.HookBase
	opts     *BrokerOptions
	server   *mqtt.Server
	metrics  *brokerMetrics
	verifier *httpauth.Verifier

	mu       sync.Mutex
	sessions map[string]string // client id → key, of sessions that outlive a connection
	perKey   map[string]int
	cards    map[string]bool // topics that hold one
}

func newRules(opts *BrokerOptions, server *mqtt.Server, m *brokerMetrics, v *httpauth.Verifier) *rules {
	return &rules{opts: opts, server: server, metrics: m, verifier: v, sessions: map[string]string{}, perKey: map[string]int{}, cards: map[string]bool{}}
}

// ID implements mqtt.Hook.
func (r *rules) ID() string { return "parley-rules" }

// Provides implements mqtt.Hook.
func (r *rules) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnSessionEstablished, mqtt.OnDisconnect, mqtt.OnClientExpired, mqtt.OnPublish, mqtt.OnWill,
	}, b) >= 0
}

// count reads which sessions and cards were stored.
func (r *rules) count() {
	for id, cl := range r.server.Clients.GetAll() {
		if !cl.Net.Inline {
			r.keep(id, string(cl.Properties.Username))
		}
	}
	for topic := range r.server.Topics.Retained.GetAll() {
		r.cards[topic] = true
	}
}

// OnConnectAuthenticate implements mqtt.Hook: the login of forms as in
// docs/operate-bridges.md. A session belongs to the key that began it.
func (r *rules) OnConnectAuthenticate(cl *mqtt.Client, pk packets.Packet) bool {
	result := r.login(cl, pk)
	r.metrics.logins.WithLabelValues(result).Inc()
	return result == loginOK
}

func (r *rules) login(cl *mqtt.Client, pk packets.Packet) string {
	if cl.Properties.ProtocolVersion != protocol311 {
		return loginVersion
	}
	key, err := r.verifier.VerifyEvent(pk.Connect.Password, map[string][]string{"u": r.opts.Names, clientTag: {cl.ID}})
	if err != nil || key != string(pk.Connect.Username) {
		return loginInvalid
	}
	if pk.Connect.WillFlag && pk.Connect.WillTopic != PresenceTopic(key) {
		return loginWill
	}
	if cl.State.Keepalive == 0 || cl.State.Keepalive > maxKeepAlive {
		cl.State.Keepalive = maxKeepAlive
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, kept := r.sessions[cl.ID]
	if known, open := r.server.Clients.Get(cl.ID); open && string(known.Properties.Username) != key || kept && owner != key {
		return loginTaken
	}
	if !pk.Connect.Clean && !kept && !r.fits(key) {
		return loginSessions
	}
	return loginOK
}

// fits reports whether one more session of the key is kept; the caller holds mu.
func (r *rules) fits(key string) bool {
	if r.opts.Admit != nil && !r.opts.Admit(key) && r.bridge(key) == nil {
		return false
	}
	return len(r.sessions) < r.opts.Limits.Sessions && r.perKey[key] < r.opts.Limits.SessionsPerKey
}

func (r *rules) keep(id, key string) {
	if _, kept := r.sessions[id]; !kept {
		r.sessions[id] = key
		r.perKey[key]++
		r.metrics.sessions.Set(float64(len(r.sessions)))
	}
}

func (r *rules) forget(id string) {
	if key, kept := r.sessions[id]; kept {
		delete(r.sessions, id)
		if r.perKey[key]--; r.perKey[key] == 0 {
			delete(r.perKey, key)
		}
		r.metrics.sessions.Set(float64(len(r.sessions)))
	}
}

// OnSessionEstablished implements mqtt.Hook.
func (r *rules) OnSessionEstablished(cl *mqtt.Client, pk packets.Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pk.Connect.Clean {
		r.forget(cl.ID)
	} else {
		r.keep(cl.ID, string(cl.Properties.Username))
	}
}

// OnClientExpired implements mqtt.Hook.
func (r *rules) OnClientExpired(cl *mqtt.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(cl.ID)
}

func (r *rules) bridge(key string) *BrokerBridge {
	i := slices.IndexFunc(r.opts.Bridges, func(b BrokerBridge) bool { return b.Key == key })
	if i < 0 {
		return nil
	}
	return &r.opts.Bridges[i]
}

// OnACLCheck implements mqtt.Hook. Filters are checked like topics, so the only
// wildcards are those of cards.
func (r *rules) OnACLCheck(cl *mqtt.Client, topic string, write bool) bool {
	if cl.Net.Inline {
		return true
	}
	key := string(cl.Properties.Username)
	allowed := write && r.writes(key, topic) || !write && r.reads(key, topic) && r.room(cl, key, topic)
	if !allowed {
		r.metrics.denied.WithLabelValues(accessName(write)).Inc()
	}
	return allowed
}

func accessName(write bool) string {
	if write {
		return accessWrite
	}
	return accessRead
}

func (r *rules) writes(key, topic string) bool {
	if pubkey, ok := inboxOf(topic); ok {
		return r.opts.Admit == nil || r.opts.Admit(pubkey)
	}
	if _, _, ok := cardOf(topic); ok {
		return r.bridge(key) != nil
	}
	return topic == PresenceTopic(key)
}

func (r *rules) reads(key, filter string) bool {
	if filter == cardPrefix+"#" || filter == cardPrefix+"+/+" {
		return true
	}
	if rest, ok := strings.CutPrefix(filter, cardPrefix); ok {
		pubkey, d, _ := strings.Cut(rest, "/")
		return canonical.IsHex(pubkey, 32) && (d == "+" || d != "" && !strings.ContainsAny(d, "/+#"))
	}
	b := r.bridge(key)
	if filter == inboxPrefix+"+" {
		return b != nil && len(b.Recipients) == 0
	}
	if pubkey, ok := inboxOf(filter); ok {
		return pubkey == key || b != nil && (len(b.Recipients) == 0 || slices.Contains(b.Recipients, pubkey))
	}
	pubkey, ok := strings.CutPrefix(filter, presencePrefix)
	return ok && canonical.IsHex(pubkey, 32)
}

// room bounds the subscriptions of a session.
func (r *rules) room(cl *mqtt.Client, key, filter string) bool {
	if _, known := cl.State.Subscriptions.Get(filter); known || r.bridge(key) != nil {
		return true
	}
	return cl.State.Subscriptions.Len() < r.opts.Limits.Subscriptions
}

// OnWill implements mqtt.Hook; whose it may be was checked at the login.
func (r *rules) OnWill(_ *mqtt.Client, w mqtt.Will) (mqtt.Will, error) { return w, nil }

// OnPublish implements mqtt.Hook. What goes to an inbox is stored for its sessions
// before the publisher is told, which the server itself does the other way round.
// What cannot be stored is not acknowledged: the publisher is cut off and tries
// again, or another carrier.
func (r *rules) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		return pk, nil
	}
	result := r.judge(pk)
	r.metrics.published.WithLabelValues(result).Inc()
	switch result {
	case publishedCard, publishedPresence:
		return pk, nil
	case publishedInbox:
		if pk.FixedHeader.Qos == 0 {
			return pk, nil
		}
		if err := r.server.Publish(pk.TopicName, pk.Payload, false, qos); err != nil {
			break
		}
		return pk, packets.CodeSuccessIgnore
	}
	cl.Stop(packets.ErrQuotaExceeded)
	return pk, packets.ErrRejectPacket
}

// judge says what a publication is, or why it is refused.
func (r *rules) judge(pk packets.Packet) string {
	if _, ok := inboxOf(pk.TopicName); ok {
		return r.judgeEnvelope(pk)
	}
	if pubkey, d, ok := cardOf(pk.TopicName); ok {
		return r.judgeCard(pk, pubkey, d)
	}
	if text := string(pk.Payload); text != presenceOnline && text != presenceOffline {
		return publishedInvalid
	}
	return publishedPresence
}

func (r *rules) judgeEnvelope(pk packets.Packet) string {
	if pk.FixedHeader.Retain || len(pk.Payload) > MaxPayload || !carrier.IsFrame(pk.Payload) && !bytes.HasPrefix(pk.Payload, []byte(`{"id":"`)) {
		return publishedInvalid
	}
	found := false
	for id := range r.server.Topics.Subscribers(pk.TopicName).Subscriptions {
		cl, ok := r.server.Clients.Get(id)
		if !ok {
			continue
		}
		if cl.State.Inflight.Len() >= r.opts.Limits.Waiting {
			return publishedFull
		}
		found = true
	}
	if !found {
		return publishedNobody
	}
	return publishedInbox
}

// judgeCard demands the card of exactly this key and name, newer than the one that
// is there.
func (r *rules) judgeCard(pk packets.Packet, pubkey, d string) string {
	if !pk.FixedHeader.Retain {
		return publishedInvalid
	}
	if len(pk.Payload) == 0 { // a bridge takes an expired card away
		r.mu.Lock()
		delete(r.cards, pk.TopicName)
		r.mu.Unlock()
		return publishedCard
	}
	ev, err := canonical.DecodeEvent(pk.Payload)
	if err != nil || ev.PubKey != pubkey {
		return publishedInvalid
	}
	c, err := card.Parse(ev, r.opts.Now())
	if err != nil || c.Name != d {
		return publishedInvalid
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok || !ev.CheckID() {
		return publishedInvalid
	}
	if old, ok := r.server.Topics.Retained.Get(pk.TopicName); ok {
		if before, err := canonical.DecodeEvent(old.Payload); err == nil && before.CreatedAt > ev.CreatedAt {
			return publishedStale
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cards[pk.TopicName] && len(r.cards) >= r.opts.Limits.Cards {
		return publishedFull
	}
	r.cards[pk.TopicName] = true
	return publishedCard
}
