// Command parleyd is the Parley server: a Nostr relay for contact cards and
// sealed messages, and a venue for agreements, in one process.
//
//	parleyd                    serve everything on loopback from ./parley-data
//	parleyd -c parley.yaml     serve what the configuration says
//	parleyd -c FILE -check     read the configuration, say what is wrong, exit
//	parleyd relay              serve one part alone: relay or venue
//	parleyd init -origin URL   write a configuration, keys and DNS records
//	parleyd backup ARCHIVE     write keys, database and relay events to a file
//	parleyd restore ARCHIVE    fill an empty data folder from it
//	parleyd -version           say what is running
//
// Flags: -c, -check, -version, -log.level, -log.format. Every key of the
// configuration is explained in deploy/parley.yaml and docs/config.md.
//
// Logs go to standard error. SIGTERM and SIGINT drain and end with 0. Exit
// codes: 0 ended as asked, 1 a service failed, 2 wrong usage, configuration or
// environment; then nothing was started.
//
// The metrics listener (127.0.0.1:9417) answers /metrics, /healthz and /readyz.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/parleykit/parley/internal/config"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitRefused = 2
)

// errRefused marks what stopped the server before it started: usage,
// configuration or environment.
var errRefused = errors.New("not started")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errRefused):
		fmt.Fprintln(stderr, "parleyd:", err)
		return exitRefused
	}
	fmt.Fprintln(stderr, "parleyd:", err)
	return exitFailed
}

// arguments are the flags of the server.
type arguments struct {
	config    string
	check     bool
	version   bool
	logLevel  string
	logFormat string
}

// run does what the arguments ask. Errors that wrap errRefused end with 2.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "init" {
		return runInit(args[1:], stdout, stderr)
	}
	parsed, parts, err := parseArguments(args, stderr)
	if err != nil {
		return err
	}
	if parsed.version {
		fmt.Fprintln(stdout, "parleyd", version())
		return nil
	}
	if len(parts) > 0 && (parts[0] == "backup" || parts[0] == "restore") {
		cfg, err := loadConfig(parsed, nil)
		if err != nil {
			return err
		}
		return maintain(ctx, cfg, parts, stdout)
	}
	cfg, err := loadConfig(parsed, parts)
	if err != nil {
		return err
	}
	if parsed.check {
		fmt.Fprintln(stdout, "configuration is good")
		return nil
	}
	return serve(ctx, cfg, newLogger(cfg.Log, stderr))
}

func parseArguments(args []string, stderr io.Writer) (arguments, []string, error) {
	var a arguments
	flags := flag.NewFlagSet("parleyd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&a.config, "c", "", "configuration `file`; without one everything is served on loopback")
	flags.BoolVar(&a.check, "check", false, "check the configuration and exit")
	flags.BoolVar(&a.version, "version", false, "print the version and exit")
	flags.StringVar(&a.logLevel, "log.level", "", "debug, info, warn or error; overrides the configuration")
	flags.StringVar(&a.logFormat, "log.format", "", "text or json; overrides the configuration")
	flags.Usage = func() {
		fmt.Fprint(stderr, "Usage: parleyd [flags] [relay | venue]\n"+
			"       parleyd init -origin URL [-c FILE] [-data DIR]\n"+
			"       parleyd [-c FILE] backup ARCHIVE\n"+
			"       parleyd [-c FILE] restore ARCHIVE\n\n"+
			"Serves the relay and the venue, or the named part alone.\n\n")
		flags.PrintDefaults()
		fmt.Fprint(stderr, "\nExamples:\n"+
			"  parleyd                                      on loopback, data in ./parley-data\n"+
			"  parleyd init -origin https://parley.example  prepare a server for others\n"+
			"  parleyd -c parley.yaml                       serve it\n")
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return a, nil, err
	} else if err != nil {
		return a, nil, fmt.Errorf("%w: see parleyd -h", errRefused)
	}
	return a, flags.Args(), nil
}

// loadConfig reads the file, then what the command line overrides.
func loadConfig(a arguments, parts []string) (*config.Config, error) {
	cfg := new(config.Config)
	*cfg = config.Default()
	if a.config != "" {
		loaded, err := config.Load(a.config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		cfg = loaded
	}
	if a.logLevel != "" {
		cfg.Log.Level = a.logLevel
	}
	if a.logFormat != "" {
		cfg.Log.Format = a.logFormat
	}
	if err := selectParts(cfg, parts); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return cfg, nil
}

// selectParts leaves only the named part running.
func selectParts(cfg *config.Config, parts []string) error {
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) == 1 && parts[0] == "relay":
		cfg.Relay.Enabled, cfg.Venue.Enabled = true, false
	case len(parts) == 1 && parts[0] == "venue":
		cfg.Relay.Enabled, cfg.Venue.Enabled = false, true
	default:
		return fmt.Errorf("%w: %q is not one part; name relay or venue after the flags, or none for both",
			errRefused, strings.Join(parts, " "))
	}
	return nil
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // checked with the configuration
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
