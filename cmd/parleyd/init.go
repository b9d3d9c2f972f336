package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"

	"github.com/parleykit/parley/deploy"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

const initUsage = `Usage: parleyd init -origin URL [-c FILE] [-data FOLDER]

Write a configuration, keys and DNS records.

The configuration has every key with its default and a comment. It listens on
127.0.0.1:8417: put a proxy that ends TLS in front, or set listen, tls.cert_file
and tls.key_file. With an origin such as http://127.0.0.1:9000 it listens there,
for this machine alone. Nothing that exists is changed.

Example:
  parleyd init -origin https://parley.example -c /etc/parley/parley.yaml -data /var/lib/parley

Flags:
`

// runInit writes a configuration and keys, and says what to do next. It never
// changes a file that exists.
func runInit(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("parleyd init", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("c", "parley.yaml", "configuration `file` to write")
	originText := flags.String("origin", "", "how clients name the server, such as https://parley.example (required)")
	data := flags.String("data", "", "data `folder`; default parley-data beside the configuration")
	flags.Usage = func() {
		fmt.Fprint(stderr, initUsage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: see parleyd init -h", errRefused)
	}
	if *originText == "" {
		return fmt.Errorf("%w: -origin is required: how clients name the server, such as https://parley.example", errRefused)
	}
	origin, err := httpserver.ParseOrigin(*originText)
	if err != nil {
		return fmt.Errorf("%w: -origin %q: %w", errRefused, *originText, err)
	}
	if *data == "" {
		*data = filepath.Join(filepath.Dir(*file), "parley-data")
	}
	if *data, err = filepath.Abs(*data); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err := writeConfig(*file, origin, *data); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return writeKeys(*file, origin, stdout)
}

// writeConfig writes the documented defaults with origin and data filled in. A
// server for this machine alone has nothing in front: it listens at its origin.
func writeConfig(file string, origin httpserver.Origin, data string) error {
	text := setKey(setKey(deploy.Config, "origin", origin.String()), "data", data)
	if _, err := netip.ParseAddrPort(origin.Host()); err == nil && origin.Loopback() && !origin.Secure() {
		text = setKey(text, "listen", origin.Host())
	}
	if _, err := config.Parse(text); err != nil {
		return fmt.Errorf("writing configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; move it away to begin anew", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// setKey gives a top-level key of the configuration another value.
func setKey(text []byte, key, value string) []byte {
	line := regexp.MustCompile(`(?m)^` + key + `:.*$`)
	return line.ReplaceAllLiteral(text, fmt.Appendf(nil, "%s: %q", key, value))
}

func writeKeys(file string, origin httpserver.Origin, stdout io.Writer) error {
	cfg, err := config.Load(file)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	dir, err := keys.Open(cfg.KeysDir())
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	venueKey, err := dir.EnsureNostr(keys.Venue)
	if err != nil {
		return err
	}
	serverKey, err := dir.EnsureEd25519(keys.Server)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "wrote        %s\nkeys         %s (back this folder up)\nvenue        %s\nfingerprint  %s (agents compare it at parley init)\n\n",
		file, dir.Path(), venueKey.NPub(), wellknown.Fingerprint(serverKey.PublicKey()))
	if origin.Loopback() {
		fmt.Fprintf(&out, "Then:\n    parleyd -c %s\n", file)
		_, err = stdout.Write(out.Bytes())
		return err
	}
	fmt.Fprintf(&out, "DNS record to set, with the address of this machine:\n    %s.  300  IN  A  <address>\n\n", hostOf(origin))
	fmt.Fprintf(&out, "Then, behind a proxy that ends TLS or with tls.cert_file and tls.key_file set:\n    parleyd -c %s -check\n    parleyd -c %s\n", file, file)
	_, err = stdout.Write(out.Bytes())
	return err
}

// hostOf is the origin's host without its port.
func hostOf(origin httpserver.Origin) string {
	return regexp.MustCompile(`:\d+$`).ReplaceAllString(origin.Host(), "")
}
