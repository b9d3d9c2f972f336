package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/card"
)

// maxAdded bounds the carriers that an owner adds.
const maxAdded = 8

// CarrierLogin says how to log in to a server of the owner's. Secrets stand in
// files, named by absolute paths; without any a broker is logged in to by the
// agent's key.
type CarrierLogin struct {
	Username     string `json:"username,omitempty"`      // with password_file
	PasswordFile string `json:"password_file,omitempty"` // one line
	TokenFile    string `json:"token_file,omitempty"`    // access token of an ntfy server, one line
	CAFile       string `json:"ca_file,omitempty"`       // PEM; trusted in place of the system's authorities
	CertFile     string `json:"cert_file,omitempty"`     // PEM; client certificate, with key_file
	KeyFile      string `json:"key_file,omitempty"`      // PEM
}

// AddCarrierRequest names a broker or an ntfy server that the agent shall be
// reached by.
type AddCarrierRequest struct {
	Scheme  string `json:"scheme"`            // mqtt or ntfy
	Address string `json:"address"`           // mqtts://host[:port][/topic] or https://host[:port]
	Private bool   `json:"private,omitempty"` // mqtt: told to contacts alone, not on the card
	WakeUp  bool   `json:"wake_up,omitempty"` // ntfy: the card names a topic for wake-ups
	CarrierLogin
}

// CarrierRequest names a carrier that the owner added.
type CarrierRequest struct {
	Scheme  string `json:"scheme"`
	Address string `json:"address"`
}

// OwnCarrier is one way by which this agent is reached.
type OwnCarrier struct {
	Scheme  string `json:"scheme"`            // nostr, https, mqtt or ntfy
	Address string `json:"address"`           // as on a card; of ntfy the server, since topics are for contacts alone
	Server  string `json:"server,omitempty"`  // origin of the pinned server that names it; absent where the owner added it
	OnCard  bool   `json:"on_card"`           // the card names it, of ntfy a topic for wake-ups
	Problem string `json:"problem,omitempty"` // why it is not in use
	CarrierLogin
}

// CarriersResponse lists the ways by which this agent is reached, the best first.
type CarriersResponse struct {
	Carriers []OwnCarrier `json:"carriers"`
}

// Carriers lists the carriers of the pinned servers and those that the owner
// added.
func (a *Agent) Carriers(ctx context.Context, _ Empty) (*CarriersResponse, error) {
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	list, err := a.ownCarriers(ctx, servers, a.key.PublicKey())
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Problem = list[i].problem()
	}
	return &CarriersResponse{Carriers: list}, nil
}

// AddCarrier makes the agent listen at a broker or an ntfy server, or changes
// how. Contacts are told, and a card that was published is published anew.
func (a *Agent) AddCarrier(ctx context.Context, q AddCarrierRequest) (*CarriersResponse, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	added, err := a.addedCarriers(ctx)
	if err != nil {
		return nil, err
	}
	isNew := !slices.ContainsFunc(added, func(c AddCarrierRequest) bool { return c.Scheme == q.Scheme && c.Address == q.Address })
	if isNew && len(added) >= maxAdded {
		return nil, refused("%d carriers are added already", maxAdded).hint("parley carrier remove SCHEME ADDRESS")
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encoding a carrier: %w", err)
	}
	err = exec(ctx, a.db, `INSERT INTO agent_carriers (scheme, address, request, added_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (scheme, address) DO UPDATE SET request = excluded.request`, q.Scheme, q.Address, string(text), a.now().Unix())
	if err != nil {
		return nil, fmt.Errorf("storing a carrier: %w", err)
	}
	list, err := a.changeCarriers(ctx)
	if err != nil && isNew { // what cannot be used must not stop the next start
		err = errors.Join(err, exec(ctx, a.db, `DELETE FROM agent_carriers WHERE scheme = $1 AND address = $2`, q.Scheme, q.Address))
	}
	return list, err
}

// RemoveCarrier ends the use of a carrier that the owner added.
func (a *Agent) RemoveCarrier(ctx context.Context, q CarrierRequest) (*CarriersResponse, error) {
	added, err := a.addedCarriers(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(added, func(c AddCarrierRequest) bool {
		own := c.own(a.key.PublicKey())
		return c.Scheme == q.Scheme && (own.Address == q.Address || sameAddress(c, q))
	})
	if i < 0 {
		return nil, notFound("no carrier %s %s was added", q.Scheme, q.Address).
			hint("parley carrier list shows them; those of a pinned server stay with it")
	}
	err = exec(ctx, a.db, `DELETE FROM agent_carriers WHERE scheme = $1 AND address = $2`, added[i].Scheme, added[i].Address)
	if err != nil {
		return nil, fmt.Errorf("removing a carrier: %w", err)
	}
	return a.changeCarriers(ctx)
}

// sameAddress compares as AddCarrier would store it.
func sameAddress(c AddCarrierRequest, q CarrierRequest) bool {
	asked := AddCarrierRequest{Scheme: q.Scheme, Address: q.Address}
	return asked.checkAddress() == nil && asked.Address == c.Address
}

// changeCarriers brings what follows from the own carriers up to date. A card
// that no relay takes now is published by the daemon within the hour.
func (a *Agent) changeCarriers(ctx context.Context) (*CarriersResponse, error) {
	if err := a.relink(ctx); err != nil {
		return nil, err
	}
	if err := a.introduce(ctx); err != nil {
		return nil, err
	}
	if err := a.refreshOnce(ctx); err != nil {
		a.log.WarnContext(ctx, "publishing the card again", "err", err)
	}
	return a.Carriers(ctx, Empty{})
}

// check holds a request to its scheme and brings the address into its one
// spelling.
func (q *AddCarrierRequest) check() error {
	if err := q.checkAddress(); err != nil {
		return err
	}
	isMQTT := q.Scheme == mqttbridge.Scheme
	switch {
	case q.Private && !isMQTT:
		return invalid("topics of ntfy are told to contacts alone").hint("leave --private out; --wake-up puts a topic for wake-ups on the card")
	case q.WakeUp && isMQTT:
		return invalid("wake-ups are for ntfy")
	case q.TokenFile != "" && (isMQTT || q.Username != "" || q.PasswordFile != ""):
		return invalid("a token is for ntfy, in place of user name and password")
	case (q.Username == "") != (q.PasswordFile == ""):
		return invalid("a user name and a password file belong together").hint("--username U --password-file FILE")
	case (q.CertFile == "") != (q.KeyFile == ""):
		return invalid("a client certificate and its key belong together").hint("--cert FILE --cert-key FILE")
	case !isMQTT && q.CAFile+q.CertFile != "":
		return invalid("an ntfy server must have a certificate that the system accepts")
	}
	if problem := q.problem(); problem != "" {
		return invalid("%s", problem)
	}
	return nil
}

// checkAddress brings the address into its one spelling and sees that it can be
// dialed: what is stored is used at every start.
func (q *AddCarrierRequest) checkAddress() error {
	if err := q.parseAddress(); err != nil {
		return err
	}
	if _, err := egress.ParseAllow(hostPort(q.Address)); err != nil {
		return invalid("nothing can be reached at this address: %w", err).hint("write a host name or address, and a port from 1 to 65535 or none")
	}
	return nil
}

func (q *AddCarrierRequest) parseAddress() error {
	switch q.Scheme {
	case mqttbridge.Scheme:
		if broker, err := mqttbridge.ParseBroker(q.Address); err == nil {
			q.Address = broker // the topic is made from the key
			return nil
		}
		at, err := mqttbridge.ParseAddress(q.Address)
		if err != nil {
			return invalid("this is not the address of a broker: %w", err).hint("write it like mqtts://broker.example:8883")
		}
		q.Address = at.String()
	case ntfybridge.Scheme:
		origin, err := parseOrigin(q.Address)
		if err == nil {
			_, err = ntfybridge.ParseAddress(origin + "/topic")
		}
		if err != nil {
			return invalid("this is not the address of an ntfy server").hint("write it like https://ntfy.example, without a topic")
		}
		q.Address = origin
	default:
		return invalid("a carrier that is added is mqtt or ntfy").hint("relays and mailboxes come with a server: parley init --server URL")
	}
	return nil
}

// problem says in plain words which file cannot be used, "" for none.
func (l *CarrierLogin) problem() string {
	for _, file := range []string{l.PasswordFile, l.TokenFile, l.CAFile, l.CertFile, l.KeyFile} {
		if file == "" {
			continue
		}
		if !filepath.IsAbs(file) {
			return fmt.Sprintf("the path %s is not absolute", file)
		}
		open, err := os.Open(file)
		if err != nil {
			return fmt.Sprintf("the file %s cannot be read", file)
		}
		open.Close()
	}
	if _, err := mqttbridge.LoadTLS(l.CAFile, l.CertFile, l.KeyFile); err != nil {
		return "the certificates are of no use: " + err.Error()
	}
	return ""
}

// addedCarriers reads what the owner added, in that order.
func (a *Agent) addedCarriers(ctx context.Context) (list []AddCarrierRequest, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT request FROM agent_carriers ORDER BY added_at, scheme, address`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			var q AddCarrierRequest
			if err := rows.Scan(&text); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(text), &q); err != nil {
				return err
			}
			list = append(list, q)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("reading the own carriers: %w", err)
	}
	return list, nil
}

// own is the carrier as a key uses it.
func (q AddCarrierRequest) own(pubkey string) OwnCarrier {
	c := OwnCarrier{Scheme: q.Scheme, Address: q.Address, CarrierLogin: q.CarrierLogin, OnCard: q.WakeUp}
	if q.Scheme == mqttbridge.Scheme {
		c.Address, c.OnCard = inboxAt(q.Address, pubkey), !q.Private
	}
	return c
}

// inboxAt is the address of a key's inbox at a broker, or the address itself
// where it names a topic.
func inboxAt(broker, pubkey string) string {
	if _, err := mqttbridge.ParseBroker(broker); err != nil {
		return broker
	}
	return broker + "/" + mqttbridge.InboxTopic(pubkey)
}

// ownCarriers are the ways by which a key of this agent is reached, the best
// first: relays, mailboxes, brokers, ntfy servers. The first of several with
// one address counts: what a server names needs no login but the key.
func (a *Agent) ownCarriers(ctx context.Context, servers []Server, pubkey string) ([]OwnCarrier, error) {
	added, err := a.addedCarriers(ctx)
	if err != nil {
		return nil, err
	}
	var all []OwnCarrier
	for _, q := range added {
		all = append(all, q.own(pubkey))
	}
	for _, s := range servers {
		if s.Relay != "" {
			all = append(all, OwnCarrier{Scheme: nostr.Scheme, Address: s.Relay, Server: s.Origin, OnCard: true})
		}
		for _, c := range s.Carriers {
			if own, ok := c.own(pubkey); ok {
				own.Server = s.Origin
				all = append(all, own)
			}
		}
	}
	list := []OwnCarrier{}
	for _, scheme := range usedSchemes {
		of := 0
		for _, c := range all {
			same := func(known OwnCarrier) bool { return known.Scheme == scheme && known.Address == c.Address }
			if c.Scheme == scheme && of < maxOfScheme && !slices.ContainsFunc(list, same) {
				list = append(list, c)
				of++
			}
		}
	}
	return list, nil
}

// usedSchemes are the carriers that an agent knows, the best first.
var usedSchemes = []string{nostr.Scheme, card.SchemeHTTPS, mqttbridge.Scheme, ntfybridge.Scheme}

// maxOfScheme bounds the carriers of one scheme: as many relays as one cursor
// has marks for.
const maxOfScheme = nostr.MaxRelays

// originOf is scheme://host[:port] of a URL.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// cardCarriers are the own carriers as the card names them, as many as fit.
func (a *Agent) cardCarriers(ctx context.Context, own []OwnCarrier) ([]card.Carrier, error) {
	var list []card.Carrier
	for _, c := range own {
		if !c.OnCard {
			continue
		}
		address := c.Address
		if c.Scheme == ntfybridge.Scheme {
			secret, err := a.topicSecret(ctx)
			if err != nil {
				return nil, err
			}
			address = wakeUpAt(secret, c.Address)
		}
		list = append(list, card.Carrier{Scheme: c.Scheme, Address: address, Priority: len(list)})
	}
	return list[:min(len(list), card.MaxCarriers)], nil
}
