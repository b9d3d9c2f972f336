package main

import (
	"path/filepath"

	"github.com/parleykit/parley/agent"
)

type carrierCmd struct {
	List   carrierListCmd   `cmd:"" help:"Show the ways by which this agent is reached."`
	Add    carrierAddCmd    `cmd:"" help:"Listen at a broker or an ntfy server, too."`
	Remove carrierRemoveCmd `cmd:"" help:"End the use of one that was added."`
}

type carrierListCmd struct{}

// Help is printed below the flags.
func (c *carrierListCmd) Help() string {
	return `The best first. Relays, mailboxes and brokers come with the servers of ` + "`parley init`" + `;
others are added. CARD says whether the public card names it; contacts are told of all.

Examples:
  parley carrier list
  parley carrier list --json`
}

// Run lists carriers.
func (c *carrierListCmd) Run(s *session) error { return s.carriers("carrier.list", agent.Empty{}) }

type carrierAddCmd struct {
	Scheme  string `arg:"" help:"mqtt or ntfy." enum:"mqtt,ntfy"`
	Address string `arg:"" help:"Broker or server: mqtts://host[:port], https://host."`

	Username     string `help:"User name; without one a broker is logged in to by the agent's key." placeholder:"NAME"`
	PasswordFile string `help:"File with the password, one line." placeholder:"FILE"`
	TokenFile    string `help:"File with an access token of an ntfy server, one line." placeholder:"FILE"`
	CA           string `help:"PEM file of authorities that are trusted in place of the system's." placeholder:"FILE"`
	Cert         string `help:"PEM file of a client certificate." placeholder:"FILE"`
	CertKey      string `help:"PEM file of its key." placeholder:"FILE"`
	Private      bool   `help:"Tell contacts alone of a broker, not everybody by the card."`
	WakeUp       bool   `help:"Name a topic for wake-ups at an ntfy server on the card."`
}

// Help is printed below the flags.
func (c *carrierAddCmd) Help() string {
	return `Contacts are told in a sealed message. Secrets stay in their files, which must remain
where they are. The same address again changes how it is used.

Examples:
  parley carrier add mqtt mqtts://broker.example:8883
  parley carrier add mqtt mqtts://broker.lan --username pump7 --password-file pw --ca ca.pem --private
  parley carrier add ntfy https://ntfy.example --token-file token --wake-up`
}

// Run adds a carrier.
func (c *carrierAddCmd) Run(s *session) error {
	q := agent.AddCarrierRequest{Scheme: c.Scheme, Address: c.Address, Private: c.Private, WakeUp: c.WakeUp}
	q.Username = c.Username
	for path, into := range map[*string]*string{
		&c.PasswordFile: &q.PasswordFile, &c.TokenFile: &q.TokenFile, &c.CA: &q.CAFile, &c.Cert: &q.CertFile, &c.CertKey: &q.KeyFile,
	} {
		if *path == "" {
			continue
		}
		full, err := filepath.Abs(*path) // the daemon has another working folder
		if err != nil {
			return err
		}
		*into = full
	}
	return s.carriers("carrier.add", q)
}

type carrierRemoveCmd struct {
	Scheme  string `arg:"" help:"mqtt or ntfy." enum:"mqtt,ntfy"`
	Address string `arg:"" help:"As the list shows it, or as it was added."`
}

// Help is printed below the flags.
func (c *carrierRemoveCmd) Help() string {
	return `Contacts are told. What waits there is not read any more.

Examples:
  parley carrier remove ntfy https://ntfy.example`
}

// Run removes a carrier.
func (c *carrierRemoveCmd) Run(s *session) error {
	return s.carriers("carrier.remove", agent.CarrierRequest{Scheme: c.Scheme, Address: c.Address})
}

// carriers runs an operation that answers with the list.
func (s *session) carriers(operation string, request any) error {
	var r agent.CarriersResponse
	if err := s.call(operation, request, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		rows := make([][]string, len(r.Carriers))
		for i, c := range r.Carriers {
			card, from := "no", "added"
			if c.OnCard {
				card = "yes"
			}
			if c.Server != "" {
				from = c.Server
			}
			rows[i] = []string{c.Scheme, c.Address, card, from, c.Problem}
		}
		p.table([]string{"SCHEME", "ADDRESS", "CARD", "FROM", "PROBLEM"}, rows)
	})
}
