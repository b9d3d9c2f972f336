// Command parleyd is the Parley server: a Nostr relay for contact cards and
// sealed messages, and a venue for agreements, in one process.
//
//	parleyd                       serve everything on loopback from ./parley-data
//	parleyd -c parley.yaml        serve what the configuration says
//	parleyd -c FILE -check        read the configuration, say what is wrong, exit
//	parleyd relay | venue         serve one part alone
//	parleyd init -origin URL      write a configuration, keys and DNS records
//	parleyd backup ARCHIVE        write keys, database and relay events to a file
//	parleyd restore ARCHIVE       fill an empty data folder from it
//	parleyd export KEY [FILE]     write what is stored about a person
//	parleyd erase KEY             remove what is stored about a person
//	parleyd relay export [FILE]   write the events of the relay
//	parleyd relay import FILE|-   put events into the relay
//	parleyd venue close ID        close a room whose deadline has passed
//	parleyd vacuum                give the space of removed data back to the disk
//	parleyd key list              list the keys with their states
//	parleyd key rotate server     put the prepared key of the server in use
//	parleyd key rotate issuer     give receipts a new key
//	parleyd -version              say what is running
//
// parleyd VERB -h explains a verb; verb.go has the table.
//
// Flags: -c, -check, -version, -log.level, -log.format. Every key of the
// configuration is explained in deploy/parley.yaml and docs/config.md.
//
// Logs go to standard error. SIGHUP reads the configuration again. SIGTERM and SIGINT drain and end with 0. Exit
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
	in := invocation{stdout: stdout, stderr: stderr}
	flags := in.flagSet("parleyd", usage)
	flags.BoolVar(&in.check, "check", false, "check the configuration and exit")
	flags.BoolVar(&in.version, "version", false, "print the version and exit")
	if err := parse(flags, args); err != nil {
		return err
	}
	if in.version {
		fmt.Fprintln(stdout, "parleyd", version())
		return nil
	}
	if flags.NArg() == 0 {
		return serveParts(ctx, &in)
	}
	v, rest := findVerb(flags.Args())
	if v == nil {
		return fmt.Errorf("%w: %q is no verb and not one part; name relay or venue after the flags, or none for both; parleyd -h lists the verbs",
			errRefused, strings.Join(flags.Args(), " "))
	}
	return v.invoke(ctx, &in, rest)
}

// serveParts serves the one part that the words name, or all.
func serveParts(ctx context.Context, in *invocation) error {
	cfg, err := loadConfig(in.arguments, in.words)
	if err != nil {
		return err
	}
	if in.check {
		fmt.Fprintln(in.stdout, "configuration is good")
		return nil
	}
	var read func() (*config.Config, error)
	if in.config != "" {
		read = func() (*config.Config, error) { return loadConfig(in.arguments, in.words) }
	}
	return serve(ctx, cfg, read, newLogger(cfg.Log, in.stderr))
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
	if err := checkPolicy(cfg); err != nil {
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
		return fmt.Errorf("%w: %q is not one part", errRefused, strings.Join(parts, " "))
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
