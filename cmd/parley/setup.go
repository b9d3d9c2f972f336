package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/httpserver"
)

type initCmd struct {
	Server string `help:"Origin of the server." required:"" placeholder:"URL"`
	Name   string `help:"How this agent calls itself in agreements, and on a card published without --about." placeholder:"NAME"`
}

// Help is printed below the flags.
func (c *initCmd) Help() string {
	return `Makes the home folder and the agent's key where they are missing, fetches the
server's signed document, pins the server's key and makes its venue a contact.
Running it again changes nothing. If the server answers with another key, both
fingerprints are shown and nothing is changed.

Examples:
  parley init --server http://127.0.0.1:8417 --name alice
  PARLEY_HOME=./bob parley init --server https://parley.example`
}

// Run pins the server.
func (c *initCmd) Run(s *session) error {
	if err := s.connect(true); err != nil {
		return err
	}
	var r agent.PinResponse
	if err := s.call("server.pin", agent.PinRequest{URL: c.Server, Name: c.Name}, &r); err != nil {
		return err
	}
	return s.printPin(&r)
}

func (s *session) printPin(r *agent.PinResponse) error {
	return s.print(r, func(p *printer) {
		p.fields(
			"agent", r.NPub,
			"server", line(r.Server.Origin),
			"fingerprint", r.Server.Fingerprint,
			"relay", line(r.Server.Relay),
			"venue", r.Server.Venue,
		)
		if r.New {
			s.note("pinned; compare the fingerprint with the one that parleyd logs at its start")
			s.note("next: parley card publish --about TEXT --can WORD")
		}
	})
}

type trustCmd struct {
	URL string `arg:"" help:"Origin of the server."`
}

// Help is printed below the flags.
func (c *trustCmd) Help() string {
	return `Replaces the pinned key by the one the server has now. Compare its
fingerprint with the operator by another way first: this is the moment at which
somebody in between would want you to type it. "parley init" shows both.

Example:
  parley trust https://parley.example`
}

// Run replaces the pin.
func (c *trustCmd) Run(s *session) error {
	var r agent.PinResponse
	if err := s.call("server.trust", agent.PinRequest{URL: c.URL}, &r); err != nil {
		return err
	}
	return s.printPin(&r)
}

type statusCmd struct{}

// Help is printed below the flags.
func (c *statusCmd) Help() string {
	return `Speaks to nobody: it counts what had come when another command last asked the
server, and says when that was. inbox, review and contact requests ask it;
` + "`parley run`" + ` always listens.

Example:
  parley status --json`
}

// Run shows the agent.
func (c *statusCmd) Run(s *session) error {
	var r agent.Status
	if err := s.call("agent.status", agent.Empty{}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		var servers []string
		for _, server := range r.Servers {
			servers = append(servers, line(server.Origin))
		}
		asOf := "never asked a server"
		switch {
		case r.Listening:
			asOf = "now: parley run is up"
		case r.AskedAt != nil:
			asOf = when(r.AskedAt.Time, time.Now())
		}
		p.fields(
			"agent", r.NPub,
			"key", r.PubKey,
			"name", line(r.Name),
			"home", line(r.Home),
			"servers", strings.Join(servers, ", "),
			"contacts", fmt.Sprint(r.Contacts),
			"requests", fmt.Sprint(r.Requests),
			"unread", fmt.Sprint(r.Unread),
			"open", fmt.Sprint(r.Open),
			"as of", asOf,
		)
	})
}

type runCmd struct {
	LogLevel  string `help:"Least level that is logged: debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
	LogFormat string `help:"Form of the log: text or json." enum:"text,json" default:"text"`
	Metrics   string `help:"Show metrics and health on this loopback address, such as 127.0.0.1:9418." placeholder:"HOST:PORT"`
}

// Help is printed below the flags.
func (c *runCmd) Help() string {
	return `Delivers and receives without pause, publishes the card again before it expires,
and answers the other commands and the JSON API on agent.sock in the home folder.
SIGTERM lets running requests finish and ends with exit code 0.

Example:
  parley run --log-level warn`
}

// Run is the daemon.
func (c *runCmd) Run(s *session) error {
	home, err := s.home()
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(s.err.out, opts)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(s.err.out, opts)
	}
	logger := slog.New(handler)
	observer, err := httpserver.New(httpserver.Options{MetricsListen: c.Metrics, Logger: logger})
	if err != nil {
		return c.busy(err)
	}
	a, err := s.openAgent(agent.Options{Home: home, PassphraseFile: s.flags.PassphraseFile, Logger: logger, Registerer: observer.Registry()})
	if err != nil {
		observer.Close()
		return err
	}
	group, ctx := errgroup.WithContext(s.ctx)
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error { return observer.Run(ctx) })
	return errors.Join(group.Wait(), a.Close())
}

// busy is why there is no listener for metrics, and what to change when its
// address is taken.
func (c *runCmd) busy(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return &agent.Error{Code: agent.CodeUnavailable, Detail: err.Error()}
	}
	return &agent.Error{
		Code: agent.CodeUnavailable, Detail: "another program listens at " + c.Metrics,
		Hint: "choose another address: parley run --metrics HOST:PORT",
	}
}
