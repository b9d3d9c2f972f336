package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/wellknown"
)

// fetchTimeout bounds one look at a server's document.
const fetchTimeout = 15 * time.Second

// Server is a pinned server: what its signed document said and the key that
// must sign every later one.
type Server struct {
	Origin      string         `json:"origin"`
	Name        string         `json:"name"`
	Relay       string         `json:"relay"` // ws or wss URL, empty without a relay
	Venue       string         `json:"venue"` // hex key, empty without a venue
	ServerKey   string         `json:"server_key"`
	Fingerprint string         `json:"fingerprint"` // hex SHA-256 of the server key
	IssuedAt    canonical.Time `json:"issued_at"`
	PinnedAt    canonical.Time `json:"pinned_at"`

	Carriers []ServerCarrier `json:"carriers,omitempty"` // beside the relay
}

// ServerCarrier is a way beside the relay by which a server's users are reached.
type ServerCarrier struct {
	Scheme  string `json:"scheme"`  // https, mqtt or ntfy
	Address string `json:"address"` // as the server's document has it
}

// own is the carrier as a key uses it; false for one that agents do not know.
func (c ServerCarrier) own(pubkey string) (OwnCarrier, bool) {
	own := OwnCarrier{Scheme: c.Scheme, Address: c.Address, OnCard: true}
	switch c.Scheme {
	case https.Scheme:
		_, err := https.ParseAddress(c.Address)
		return own, err == nil
	case mqttbridge.Scheme:
		broker, err := mqttbridge.ParseBroker(c.Address)
		own.Address = inboxAt(broker, pubkey)
		return own, err == nil
	case ntfybridge.Scheme:
		_, err := ntfybridge.ParseOrigin(c.Address)
		own.OnCard = false
		return own, err == nil
	}
	return own, false
}

// PinRequest names a server.
type PinRequest struct {
	URL  string `json:"url"`            // origin such as https://parley.example
	Name string `json:"name,omitempty"` // how this agent calls itself, at most 64 code points
}

// PinResponse says who the agent is and which server it uses now.
type PinResponse struct {
	PubKey string `json:"pubkey"`
	NPub   string `json:"npub"`
	Server Server `json:"server"`
	New    bool   `json:"new"` // the server was not pinned before
}

// PinServer fetches a server's document and pins its key, or checks it against
// the pin. The server becomes the one that proposals go to, its venue a
// contact. Another key than the pinned one is refused.
func (a *Agent) PinServer(ctx context.Context, q PinRequest) (*PinResponse, error) {
	if err := a.setName(ctx, q.Name); err != nil {
		return nil, err
	}
	return a.pin(ctx, q.URL, false)
}

// TrustServer pins the key that the server has now, whatever was pinned before.
// A person compared the fingerprints first.
func (a *Agent) TrustServer(ctx context.Context, q PinRequest) (*PinResponse, error) {
	return a.pin(ctx, q.URL, true)
}

func (a *Agent) pin(ctx context.Context, address string, trust bool) (*PinResponse, error) {
	origin, err := parseOrigin(address)
	if err != nil {
		return nil, err
	}
	doc, err := a.fetchDocument(ctx, origin)
	if err != nil {
		return nil, err
	}
	known, err := a.server(ctx, origin)
	if err != nil {
		return nil, err
	}
	if known != nil && !trust {
		if err := known.accepts(doc); err != nil {
			return nil, err
		}
	}
	now := a.now()
	server := Server{
		Origin: doc.Origin, Name: doc.Name, Relay: doc.Relay, ServerKey: doc.ServerKey,
		Fingerprint: doc.Fingerprint(), IssuedAt: doc.IssuedAt, PinnedAt: canonical.At(now),
	}
	if doc.Venue != nil {
		server.Venue = doc.Venue.PubKey
	}
	for _, c := range doc.Carriers {
		server.Carriers = append(server.Carriers, ServerCarrier(c))
	}
	if err := a.storeServer(ctx, server); err != nil {
		return nil, err
	}
	if err := a.relink(ctx); err != nil {
		return nil, err
	}
	if err := a.addVenue(ctx, server); err != nil {
		return nil, err
	}
	a.introduceSoon(ctx)
	return &PinResponse{PubKey: a.key.PublicKey(), NPub: a.key.NPub(), Server: server, New: known == nil}, nil
}

// accepts compares a fresh document with the pin.
func (s *Server) accepts(doc *wellknown.Document) error {
	if doc.ServerKey != s.ServerKey {
		return refused("the server %s answers with another key: pinned fingerprint %s, now %s",
			s.Origin, s.Fingerprint, doc.Fingerprint()).
			hint("ask its operator for the fingerprint; if it is the new one: parley trust %s", s.Origin)
	}
	if doc.IssuedAt.Before(s.IssuedAt.Time) {
		return refused("the server %s answers with a document of %s, older than the one of %s already seen",
			s.Origin, doc.IssuedAt, s.IssuedAt)
	}
	return nil
}

// fetchDocument gets and opens the signed document of an origin.
func (a *Agent) fetchDocument(ctx context.Context, origin string) (*wellknown.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+wellknown.Path, nil)
	if err != nil {
		return nil, invalid("building the request: %w", err)
	}
	dialer, err := a.dial([]string{origin})
	if err != nil {
		return nil, err
	}
	answer, err := dialer.HTTPClient().Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it repeats the address
		}
		return nil, unavailable("fetching %s: %w", origin+wellknown.Path, &plainError{outage(err), err}).
			hint("check the address and that the server is up: parleyd answers on http://127.0.0.1:8417 by default")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, unavailable("%s answered with status %d", origin+wellknown.Path, answer.StatusCode).
			hint("is this a Parley server?")
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, wellknown.MaxSize+1))
	if err != nil {
		return nil, unavailable("reading %s: %w", origin+wellknown.Path, err)
	}
	doc, err := wellknown.Open(data)
	if err != nil {
		return nil, refused("the document of %s does not check: %w", origin, err)
	}
	if doc.Relay != "" {
		if doc.Relay, err = nostr.ParseAddress(doc.Relay); err != nil {
			return nil, refused("the relay of %s is of no use: %w", origin, err)
		}
	}
	if doc.Origin != origin {
		return nil, refused("the server at %s says that its origin is %s", origin, doc.Origin).
			hint("use the origin it names, or ask its operator")
	}
	return doc, nil
}

// parseOrigin reads what people type: a URL without path, https by default.
func parseOrigin(text string) (string, error) {
	if text != "" && !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	ok := err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http") &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
	if !ok {
		return "", invalid("%q is not the origin of a server", text).hint("write it like https://parley.example")
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	} else {
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host, nil
}

// ownAddresses are the addresses the owner chose by pinning: the origin,
// and the relay where it lies on the same host or both are loopback.
func ownAddresses(servers []Server) []string {
	var list []string
	for _, s := range servers {
		origin, relay := hostPort(s.Origin), hostPort(s.Relay)
		list = append(list, s.Origin)
		if relay != "" && relay != origin && sameMachine(origin, relay) {
			list = append(list, s.Relay)
		}
	}
	return list
}

func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "mqtt": "1883", "mqtts": "8883"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func sameMachine(a, b string) bool {
	hostA, _, _ := net.SplitHostPort(a)
	hostB, _, _ := net.SplitHostPort(b)
	return hostA == hostB || isLoopback(hostA) && isLoopback(hostB)
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

const serverColumns = `origin, name, relay, venue, server_key, fingerprint, issued_at, pinned_at, carriers`

func scanServer(row scanner) (Server, error) {
	var s Server
	var issued, pinned int64
	var carriers string
	err := row.Scan(&s.Origin, &s.Name, &s.Relay, &s.Venue, &s.ServerKey, &s.Fingerprint, &issued, &pinned, &carriers)
	if err == nil {
		err = json.Unmarshal([]byte(carriers), &s.Carriers)
	}
	s.IssuedAt, s.PinnedAt = canonical.At(time.Unix(issued, 0)), canonical.At(time.Unix(pinned, 0))
	return s, err
}

// server reads one pin; nil when the origin is not pinned.
func (a *Agent) server(ctx context.Context, origin string) (*Server, error) {
	var s Server
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		s, err = scanServer(tx.QueryRowContext(ctx, `SELECT `+serverColumns+` FROM agent_servers WHERE origin = $1`, origin))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &s, err
}

// servers lists the pins; the one in use for proposals comes first.
func (a *Agent) servers(ctx context.Context) ([]Server, error) {
	list := []Server{}
	err := a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT `+serverColumns+` FROM agent_servers ORDER BY position DESC, origin`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			s, err := scanServer(rows)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		return rows.Err()
	})
	return list, err
}

func (a *Agent) storeServer(ctx context.Context, s Server) error {
	carriers := "[]"
	if len(s.Carriers) > 0 {
		text, err := json.Marshal(s.Carriers)
		if err != nil {
			return fmt.Errorf("pinning the server: %w", err)
		}
		carriers = string(text)
	}
	err := exec(ctx, a.db, `INSERT INTO agent_servers (`+serverColumns+`, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT coalesce(max(position), 0) + 1 FROM agent_servers))
		ON CONFLICT (origin) DO UPDATE SET name = excluded.name, relay = excluded.relay, venue = excluded.venue,
			server_key = excluded.server_key, fingerprint = excluded.fingerprint, issued_at = excluded.issued_at,
			pinned_at = excluded.pinned_at, carriers = excluded.carriers, position = excluded.position`,
		s.Origin, s.Name, s.Relay, s.Venue, s.ServerKey, s.Fingerprint, s.IssuedAt.Unix(), s.PinnedAt.Unix(), carriers)
	if err != nil {
		return fmt.Errorf("pinning the server: %w", err)
	}
	return nil
}

// loopbackAddress reports whether host:port lies on this machine.
func loopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopback(host)
}
