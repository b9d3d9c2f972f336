package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/venue"
)

// roomVerbs look after the rooms of the venue.
func roomVerbs() []verb {
	return []verb{{
		name: "venue close", args: "ID", least: 1, most: 1, line: "close a room whose deadline has passed",
		help: `ID is the agreement's id, which parleyd erase names. The room gets the outcome
that its rules give at the deadline, expired, signed by the venue. The members
are told when the server runs again. A running server does all this by itself;
the verb is for a stopped one, and gives the event no receipt. Before its
deadline a room ends by a decision of its members alone, and the command is
refused.
` + offline + `

Example:
  parleyd -c parley.yaml venue close 0190163d-8694-739b-aea5-966c26f8ad91`, run: runVenueClose,
	}}
}

// runVenueClose closes one room.
func runVenueClose(ctx context.Context, in *invocation) (err error) {
	cfg, err := loadConfig(in.arguments, nil)
	if err != nil {
		return err
	}
	s, err := openStorage(ctx, cfg, in.errorsOnly())
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	v, err := s.venue(ctx)
	if err != nil {
		return in.refused(err)
	}
	outcome, err := v.Close(ctx, in.words[0])
	switch {
	case errors.Is(err, venue.ErrNoRoom):
		return in.refused(fmt.Errorf("%w with the id %.40q; parleyd erase names the open rooms of a key", err, in.words[0]))
	case errors.Is(err, venue.ErrNotDue):
		return in.refused(err)
	case err != nil:
		return fmt.Errorf("closing the room: %w", err)
	}
	fmt.Fprintln(in.stdout, "closed, outcome", outcome)
	return nil
}

// venue is the server's venue with an engine that only stores what it sends:
// the server delivers it.
func (s *storage) venue(ctx context.Context) (*venue.Venue, error) {
	if s.db == nil || s.venueKey == nil {
		return nil, errors.New("this server has no venue")
	}
	engine, err := carrier.New(ctx, carrier.Options{
		DB: s.db, Keyer: s.venueKey, Logger: s.logger,
		Resolve: func(context.Context, string) ([]carrier.Address, error) { return nil, nil },
	})
	if err != nil {
		return nil, err
	}
	return venue.New(ctx, venue.Options{
		DB: s.db, Outbox: engine, Key: s.venueKey, Logger: s.logger,
		Origin: cmp.Or(s.cfg.Origin, "http://127.0.0.1"), // of proposals, which nobody makes here
	})
}
