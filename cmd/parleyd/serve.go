package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
)

// service is a part that runs until its context ends.
type service interface {
	Run(ctx context.Context) error
}

// server is the composed process.
type server struct {
	cfg    *config.Config
	logger *slog.Logger
	http   *httpserver.Server
	keys   *keys.Dir
	dialer *egress.Dialer
	relay  *relay.Relay // nil when it is not enabled
	// recipients are those of section relay; a nil slice is everybody
	recipients atomic.Pointer[[]string]
	db         *database.DB       // nil when no part needs it
	notary     *receiptlog.Notary // nil when no receipts are issued
	broker     *mqttbridge.Broker // nil when it is not enabled
	brokerURL  string             // how the parts of this server name it
	carriers   []wellknown.Carrier
	services   []service
	closers    []func() error // in the order of opening
}

// serve composes the parts and runs them until ctx ends. read reads the
// configuration again; nil when there is no file.
func serve(ctx context.Context, cfg *config.Config, read func() (*config.Config, error), logger *slog.Logger) error {
	s, err := compose(ctx, cfg, logger)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	s.services = append(s.services, newReloader(s, read))
	return errors.Join(s.run(ctx), s.close())
}

// compose makes every part or none: the ports first, since they are what
// another running server holds, then folders, keys and stores.
func compose(ctx context.Context, cfg *config.Config, logger *slog.Logger) (s *server, err error) {
	s = &server{cfg: cfg, logger: logger}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if err := s.bind(); err != nil {
		return s, err
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return s, fmt.Errorf("making the data folder: %w", err)
	}
	lock, err := lockData(cfg.Data)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, lock.Close)
	if s.keys, err = keys.Open(cfg.KeysDir()); err != nil {
		return s, err
	}
	s.dialer = egress.New(egress.Options{
		AllowLoopback: s.http.Origin().Loopback(),
		Allow:         cfg.EgressAllow(),
		Self:          &egress.Self{Host: s.http.Origin().Host(), Dial: s.http.Dial},
		Registerer:    s.http.Registry(),
	})
	if cfg.Venue.Enabled || cfg.Receipts.Enabled || cfg.Carrier.HTTPS || len(cfg.MQTT.Bridges)+len(cfg.Ntfy.Bridges) > 0 {
		if err := s.openDatabase(ctx); err != nil {
			return s, err
		}
	}
	if s.db != nil {
		if err := s.addReceipts(ctx); err != nil {
			return s, err
		}
	}
	if err := s.noteRecipients(cfg); err != nil {
		return s, err
	}
	if err := s.addMailbox(ctx); err != nil {
		return s, err
	}
	if err := s.addBroker(); err != nil {
		return s, err
	}
	if err := s.addNtfy(); err != nil {
		return s, err
	}
	if cfg.Relay.Enabled {
		if err := s.addRelay(ctx); err != nil {
			return s, err
		}
	}
	if cfg.Venue.Enabled {
		if err := s.addVenue(ctx); err != nil {
			return s, err
		}
	}
	if err := s.addBridges(ctx); err != nil {
		return s, err
	}
	return s, s.addDocument()
}

func (s *server) openDatabase(ctx context.Context) (err error) {
	s.db, err = database.Open(ctx, s.cfg.DatabaseURL(), database.Options{
		Logger: s.logger, Registerer: s.http.Registry(), PasswordFile: s.cfg.DatabasePasswordFile,
	})
	if err == nil {
		s.closers = append(s.closers, s.db.Close)
	}
	return err
}

func (s *server) bind() (err error) {
	cfg := s.cfg
	s.http, err = httpserver.New(httpserver.Options{
		Listen:             cfg.Listen,
		MetricsListen:      cfg.Metrics.Listen,
		AllowRemoteMetrics: cfg.Metrics.AllowRemote,
		Origin:             cfg.Origin,
		TrustedProxies:     cfg.Proxies(),
		TLSCert:            cfg.TLS.CertFile,
		TLSKey:             cfg.TLS.KeyFile,
		Logger:             s.logger,
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { s.http.Close(); return nil })
	return nil
}

// addDocument serves the signed description of this server.
func (s *server) addDocument() error {
	key, err := s.keys.EnsureEd25519(keys.Server)
	if err != nil {
		return err
	}
	doc := wellknown.Document{
		Origin:   s.http.Origin().String(),
		Name:     s.cfg.Relay.Name,
		Carriers: s.carriers,
		IssuedAt: canonical.At(time.Now()),
	}
	if s.cfg.Relay.Enabled {
		doc.Relay = s.http.Origin().WebSocket() + "/"
	}
	if s.cfg.Venue.Enabled {
		venueKey, err := s.keys.Nostr(keys.Venue)
		if err != nil {
			return err
		}
		doc.Venue = &wellknown.Venue{PubKey: venueKey.PublicKey(), Profiles: []string{"parley/1"}}
	}
	if s.notary != nil && !s.notary.Closed {
		doc.Receipts = &wellknown.Receipts{Issuer: s.notary.Issuer.Name(), LogKey: s.notary.Log.Key().String()}
	}
	data, err := wellknown.Sign(doc, key)
	if err != nil {
		return err
	}
	s.logger.Info("server document", "origin", doc.Origin, "fingerprint", wellknown.Fingerprint(key.PublicKey()))
	return s.http.Handle(documentRoute(data), namesRoute(s.cfg.Names, doc.Relay))
}

func documentRoute(data []byte) httpserver.Route {
	return httpserver.Route{
		Method: http.MethodGet, Pattern: wellknown.Path, Owner: "parleyd",
		Summary: "the signed document with all a client needs",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			httpserver.PublicRead(w)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "max-age=300")
			_, _ = w.Write(data)
		}),
	}
}

// run runs every part; the first that fails ends all.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.http.Run(ctx) })
	for _, svc := range s.services {
		group.Go(func() error { return svc.Run(ctx) })
	}
	return group.Wait()
}

// close releases what was opened, the latest first.
func (s *server) close() error {
	var all []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		all = append(all, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(all...)
}
