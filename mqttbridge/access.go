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
	sizes    map[inflightKey]int64
	bytes    int64 // their sum
}

// inflightKey names what waits for a session.
type inflightKey struct {
	client string
	packet uint16
}

func newRules(opts *BrokerOptions, server *mqtt.Server, m *brokerMetrics, v *httpauth.Verifier) *rules {
	return &rules{opts: opts, server: server, metrics: m, verifier: v, sessions: map[string]string{}, perKey: map[string]int{}, cards: map[string]bool{}, sizes: map[inflightKey]int64{}}
}

// ID implements mqtt.Hook.
func (r *rules) ID() string { return "parley-rules" }

// Provides implements mqtt.Hook.
func (r *rules) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnSessionEstablished, mqtt.OnClientExpired, mqtt.OnSubscribe,
		mqtt.OnPublish, mqtt.OnRetainedExpired, mqtt.OnQosPublish, mqtt.OnQosComplete, mqtt.OnQosDropped,
	}, b) >= 0
}

// count reads which sessions and cards were stored.
func (r *rules) count() {
	for id, cl := range r.server.Clients.GetAll() {
		if cl.Net.Inline {
			continue
		}
		r.keep(id, string(cl.Properties.Username))
		for _, pk := range cl.State.Inflight.GetAll(false) {
			r.OnQosPublish(cl, pk, 0, 0)
		}
	}
	for topic := range r.server.Topics.Retained.GetAll() {
		if _, _, ok := cardOf(topic); ok {
			r.cards[topic] = true
		}
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
	if pk.Connect.WillFlag && !(r.opts.Presence && pk.Connect.WillTopic == PresenceTopic(key) && string(pk.Connect.WillPayload) == presenceOffline) {
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
	if !pk.Connect.Clean && !kept {
		if !r.fits(key) {
			return loginSessions
		}
		r.keep(cl.ID, key) // before anybody else can use the id
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
	allowed := write && r.writes(key, topic) || !write && r.reads(key, topic)
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
	return r.opts.Presence && topic == PresenceTopic(key)
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

// OnSubscribe implements mqtt.Hook: a filter beyond the subscriptions of a session is
// made one that the server refuses.
func (r *rules) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if cl.Net.Inline || r.bridge(string(cl.Properties.Username)) != nil {
		return pk
	}
	fresh := 0
	for i, sub := range pk.Filters {
		if _, known := cl.State.Subscriptions.Get(sub.Filter); known {
			continue
		}
		if fresh++; cl.State.Subscriptions.Len()+fresh > r.opts.Limits.Subscriptions {
			pk.Filters[i].Filter = ""
			r.metrics.denied.WithLabelValues(accessRead).Inc()
		}
	}
	return pk
}

// OnRetainedExpired implements mqtt.Hook.
func (r *rules) OnRetainedExpired(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cards, topic)
}

// OnQosPublish implements mqtt.Hook: it counts what waits.
func (r *rules) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if pk.FixedHeader.Type != packets.Publish {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := inflightKey{cl.ID, pk.PacketID}
	r.bytes += int64(len(pk.Payload)) - r.sizes[key]
	r.sizes[key] = int64(len(pk.Payload))
}

// OnQosComplete implements mqtt.Hook.
func (r *rules) OnQosComplete(cl *mqtt.Client, pk packets.Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := inflightKey{cl.ID, pk.PacketID}
	r.bytes -= r.sizes[key]
	delete(r.sizes, key)
}

// OnQosDropped implements mqtt.Hook.
func (r *rules) OnQosDropped(cl *mqtt.Client, pk packets.Packet) { r.OnQosComplete(cl, pk) }

// crowded reports whether no more may wait.
func (r *rules) crowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes >= r.opts.Limits.WaitingBytes
}

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
	if r.crowded() {
		return publishedFull
	}
	found := false
	for id, sub := range r.server.Topics.Subscribers(pk.TopicName).Subscriptions {
		cl, ok := r.server.Clients.Get(id)
		if !ok || cl.Properties.Clean || sub.Qos == 0 { // nothing is kept for such a reader
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
		if before, err := canonical.DecodeEvent(old.Payload); err == nil && (before.CreatedAt > ev.CreatedAt || before.CreatedAt == ev.CreatedAt && before.ID < ev.ID) {
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
