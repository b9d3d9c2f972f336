package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/mirror"
)

// eventVerbs are those that move the relay's events.
func eventVerbs() []verb {
	return []verb{
		{
			name: "relay export", args: "[FILE]", most: 1, line: "write the events of the relay",
			help: `One event a line, in NIP-01 JSON, the newest first, sealed messages included. FILE
must not exist; without it the lines go to standard output. With -filter only the
events that match a Nostr filter are written.
` + offline + `

Examples:
  parleyd -c parley.yaml relay export events.jsonl
  parleyd -c parley.yaml relay export -filter '{"kinds":[30417]}' cards.jsonl`,
			flags: func(flags *flag.FlagSet, in *invocation) {
				flags.StringVar(&in.filter, "filter", "", "Nostr filter in `JSON` (NIP-01)")
			},
			run: runRelayExport,
		},
		{
			name: "relay import", args: "FILE|-", least: 1, most: 1, line: "put events into the relay",
			help: `One event a line, in NIP-01 JSON; - is standard input. Shape, id, signature, time and
the form of cards are checked. What the operator brings is exempt from the policy
for strangers: authors, recipients, work and rates. Deletions and quotas hold.
FILE.progress says how far an import came that was cut off; run it again and it goes
on there. Exit code 1 when an event was refused.
` + offline + `

Examples:
  parleyd -c parley.yaml relay import events.jsonl
  parleyd -c parley.yaml relay import -json events.jsonl`,
			flags: func(flags *flag.FlagSet, in *invocation) {
				flags.BoolVar(&in.json, "json", false, "print what became of the events as JSON")
			},
			run: runRelayImport,
		},
	}
}

// openRelay opens what the server keeps; the relay's events are made where
// there are none yet.
func (in *invocation) openRelay(ctx context.Context) (*storage, error) {
	cfg, err := loadConfig(in.arguments, nil)
	if err != nil {
		return nil, err
	}
	s, err := openStorage(ctx, cfg, in.errorsOnly())
	if err != nil {
		return s, err
	}
	if s.events == nil && cfg.Relay.Store == config.StorePebble {
		s.events, err = relay.OpenPebble(cfg.RelayDir(), s.logger)
	} else if s.events == nil {
		err = errors.New("no relay runs with this configuration")
	}
	if err != nil {
		err = errors.Join(err, s.close())
	}
	return s, err
}

// runRelayExport is the verb.
func runRelayExport(ctx context.Context, in *invocation) (err error) {
	var filter nostr.Filter
	if in.filter != "" {
		if err := json.Unmarshal([]byte(in.filter), &filter); err != nil {
			return in.refused(fmt.Errorf("-filter is no Nostr filter in JSON: %w", err))
		}
	}
	s, err := in.openRelay(ctx)
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	in.words = append([]string{""}, in.words...) // the file stands second, behind a key
	out, finish, err := in.exportFile()
	if err != nil {
		return in.refused(err)
	}
	done, err := mirror.Export(out, relay.Export(ctx, s.events, filter, time.Now()), func(n, _ int64) { in.progress("%d events", n) })
	in.progress("")
	if err = errors.Join(err, finish()); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	if len(in.words) == 2 {
		fmt.Fprintf(in.stdout, "wrote %s: %d events\n", in.words[1], done.Events)
	}
	return nil
}

// errEventsRefused ends an import that left events out.
var errEventsRefused = errors.New("events were refused")

// runRelayImport is the verb.
func runRelayImport(ctx context.Context, in *invocation) (err error) {
	options := mirror.ImportOptions{Input: os.Stdin, Refused: in.refusedLine()}
	size := int64(math.MaxInt64)
	if in.words[0] != "-" {
		file, err := os.Open(in.words[0])
		if err != nil {
			return in.refused(err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = max(info.Size(), 1)
		}
		options.Input = file
	}
	s, err := in.openRelay(ctx)
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if file, ok := options.Input.(*os.File); ok && size != math.MaxInt64 {
		target := s.cfg.RelayDir()
		if s.cfg.Relay.Store == config.StoreDatabase {
			target = s.cfg.Database // it holds no password
		}
		if options.Journal, err = mirror.OpenJournal(file, target); err != nil {
			return in.refused(err)
		}
	}
	options.Target = &relay.Importer{
		Store: s.events, Kinds: s.cfg.Relay.Kinds, Origin: s.cfg.Origin, WrapQuota: s.cfg.Relay.WrapQuota,
	}
	options.Progress = func(done int64, sum mirror.Summary) {
		if size == math.MaxInt64 {
			in.progress("%d events, %d accepted", sum.Read, sum.Accepted)
		} else {
			in.progress("%3d%%  %d events, %d accepted", done*100/size, sum.Read, sum.Accepted)
		}
	}
	began := time.Now()
	sum, err := mirror.Import(ctx, options)
	in.progress("")
	if err != nil {
		return fmt.Errorf("importing was cut off after %d events, run it again to go on: %w", sum.Read, err)
	}
	if err := in.printImport(sum, time.Since(began)); err != nil {
		return err
	}
	if sum.RefusedTotal() > 0 {
		return errEventsRefused
	}
	return nil
}

// printImport says what became of the events.
func (in *invocation) printImport(sum mirror.Summary, took time.Duration) error {
	if in.json {
		enc := json.NewEncoder(in.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			mirror.Summary
			Seconds float64 `json:"seconds"`
		}{sum, took.Seconds()})
	}
	_, err := io.WriteString(in.stdout, fmt.Sprintf("%d events: %d accepted, %d there already, %d stale, %d expired, %d deleted, %d refused\n",
		sum.Read, sum.Accepted, sum.Duplicate, sum.Stale, sum.Expired, sum.Deleted, sum.RefusedTotal()))
	for _, o := range sum.Reasons() {
		fmt.Fprintf(in.stdout, "  %-14s %d\n", o, sum.Refused[o])
	}
	return err
}

// refusedLine tells about the first lines that are refused.
func (in *invocation) refusedLine() func(int64, mirror.Outcome) {
	const shown = 10
	told := 0
	return func(line int64, o mirror.Outcome) {
		if told++; told <= shown {
			in.progress("")
			fmt.Fprintf(in.stderr, "line %d: %s\n", line, o)
		}
	}
}
