package mqttbridge

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Labels of the broker's metrics, closed sets.
const (
	connectionOpened  = "opened"
	connectionAddress = "address" // the address has too many

	loginOK       = "ok"
	loginInvalid  = "invalid"  // no event, a wrong one, or one that was used
	loginVersion  = "version"  // not MQTT 3.1.1
	loginTaken    = "taken"    // the client id belongs to another key
	loginSessions = "sessions" // no session is kept for this key
	loginWill     = "will"     // a will on a topic of somebody else

	accessRead  = "read"
	accessWrite = "write"

	publishedInbox    = "inbox"
	publishedCard     = "card"
	publishedPresence = "presence"
	publishedInvalid  = "invalid" // not what the topic is for
	publishedStale    = "stale"   // an older card than the one there
	publishedFull     = "full"    // too much waits, or too many cards
	publishedNobody   = "nobody"  // no session has asked for this inbox
)

type brokerMetrics struct {
	open        prometheus.Gauge
	sessions    prometheus.Gauge
	connections *prometheus.CounterVec // result
	logins      *prometheus.CounterVec // result
	denied      *prometheus.CounterVec // access
	published   *prometheus.CounterVec // result
}

func newBrokerMetrics(registerer prometheus.Registerer) *brokerMetrics {
	f := promauto.With(registerer)
	m := &brokerMetrics{
		open: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_broker_connections", Help: "Open connections of MQTT clients.",
		}),
		sessions: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_broker_sessions", Help: "Sessions that are kept while their client is away.",
		}),
		connections: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_broker_connections_total", Help: "Connections of MQTT clients, by what became of them.",
		}, []string{"result"}),
		logins: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_broker_logins_total", Help: "Logins of MQTT clients, by result.",
		}, []string{"result"}),
		denied: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_broker_denied_total", Help: "Topics that a client may not read or write.",
		}, []string{"access"}),
		published: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_broker_published_total", Help: "Messages that clients published, by what became of them.",
		}, []string{"result"}),
	}
	for vec, labels := range map[*prometheus.CounterVec][]string{
		m.connections: {connectionOpened, connectionAddress},
		m.logins:      {loginOK, loginInvalid, loginVersion, loginTaken, loginSessions, loginWill},
		m.denied:      {accessRead, accessWrite},
		m.published:   {publishedInbox, publishedCard, publishedPresence, publishedInvalid, publishedStale, publishedFull, publishedNobody},
	} {
		for _, label := range labels {
			vec.WithLabelValues(label)
		}
	}
	return m
}
