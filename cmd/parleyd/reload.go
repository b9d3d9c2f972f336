package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/internal/config"
)

// reloader reads the configuration again when the process gets SIGHUP.
type reloader struct {
	server  *server
	holds   *config.Config                 // what was taken over last
	read    func() (*config.Config, error) // nil: there is no file
	logger  *slog.Logger
	success prometheus.Gauge
	when    prometheus.Gauge
	signals chan os.Signal
}

func newReloader(s *server, read func() (*config.Config, error)) *reloader {
	f := promauto.With(s.http.Registry())
	r := &reloader{
		server: s, holds: s.cfg, read: read, logger: s.logger, signals: make(chan os.Signal, 1),
		success: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_config_reload_success", Help: "Whether the configuration that was read last is the one that holds: 1, or 0 after a mistake in it.",
		}),
		when: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_config_reload_timestamp_seconds", Help: "When the configuration that holds was read, in Unix time.",
		}),
	}
	r.success.Set(1)
	r.when.Set(float64(time.Now().Unix()))
	signal.Notify(r.signals, syscall.SIGHUP) // early: without it the signal ends the process
	return r
}

// Run waits for the signal until ctx ends.
func (r *reloader) Run(ctx context.Context) error {
	defer signal.Stop(r.signals)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.signals:
			r.reload()
		}
	}
}

// reload takes over what can change at run time, all of it or nothing.
func (r *reloader) reload() {
	pending, err := r.apply()
	if err != nil {
		r.success.Set(0)
		r.logger.Error("configuration not reloaded, the earlier one holds", "err", err)
		return
	}
	r.success.Set(1)
	r.when.Set(float64(time.Now().Unix()))
	r.logger.Info("configuration reloaded", "needs_restart", pending)
}

func (r *reloader) apply() (pending []string, err error) {
	if r.read == nil {
		return nil, errors.New("the server was started without a file (-c)")
	}
	cfg, err := r.read()
	if err != nil {
		return nil, err
	}
	s := r.server
	if err := s.reconfigureIssuer(cfg); err != nil {
		return nil, err
	}
	if err := s.reconfigureRelay(cfg); err != nil {
		return nil, errors.Join(err, s.reconfigureIssuer(r.holds))
	}
	if err := s.noteRecipients(cfg); err != nil {
		return nil, err
	}
	r.holds = cfg
	return needRestart(s.cfg, cfg), nil
}

func (s *server) reconfigureRelay(cfg *config.Config) error {
	if s.relay == nil {
		return nil
	}
	policy, err := s.relayPolicy(cfg)
	if err != nil {
		return err
	}
	return s.relay.Reconfigure(policy, relayLimits(&cfg.Relay))
}

// reconfigureIssuer reads the keys again, too.
func (s *server) reconfigureIssuer(cfg *config.Config) error {
	if s.notary == nil {
		return nil
	}
	return s.notary.Issuer.Reconfigure(issuerSettings(&cfg.Receipts))
}

// needRestart names the keys in which the new configuration differs from the
// one of the start and that are read at the start only.
func needRestart(old, changed *config.Config) (names []string) {
	a, b := *old, *changed
	b.Relay = a.Relay // but for what follows
	b.Relay.Enabled, b.Relay.Store, b.Relay.Plugin = changed.Relay.Enabled, changed.Relay.Store, changed.Relay.Plugin
	b.Relay.CardsMemory = changed.Relay.CardsMemory
	b.Receipts = a.Receipts
	b.Receipts.Enabled, b.Receipts.Witnesses, b.Receipts.WitnessLogs = changed.Receipts.Enabled, changed.Receipts.Witnesses, changed.Receipts.WitnessLogs
	return differences("", reflect.ValueOf(a), reflect.ValueOf(b))
}

// differences are the keys of two sections whose values differ.
func differences(prefix string, a, b reflect.Value) (names []string) {
	for field, x := range a.Fields() {
		y := b.FieldByIndex(field.Index)
		name := prefix + field.Tag.Get("yaml")
		switch {
		case reflect.DeepEqual(x.Interface(), y.Interface()):
		case field.Type == reflect.TypeFor[config.Relay](), field.Type == reflect.TypeFor[config.Receipts]():
			names = append(names, differences(name+".", x, y)...)
		default:
			names = append(names, name)
		}
	}
	return names
}
