package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/relay/mirror"
)

// filterText is a Nostr filter on the command line, in JSON.
type filterText string

// filter reads it; no text is every event.
func (t filterText) filter() (f nostr.Filter, err error) {
	if t == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(t), &f); err != nil {
		return f, fmt.Errorf("--filter is no Nostr filter in JSON: %w", err)
	}
	return f, nil
}

// relays makes a client for relays that the user named; wherever they are, they
// are meant.
func (s *session) relays() (*carriernostr.Client, error) {
	return carriernostr.NewClient(carriernostr.ClientOptions{
		Dialer: egress.New(egress.Options{AllowLoopback: true, AllowPrivate: true}),
	})
}

// wire is one of them.
func (s *session) wire(client *carriernostr.Client, address string) (*mirror.Wire, error) {
	parsed, err := carriernostr.ParseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", address, err)
	}
	return &mirror.Wire{Client: client, URL: parsed, Waiting: func(pause time.Duration, why string) {
		s.status("")
		s.note("waiting %s: %s", span(pause), why)
	}}, nil
}

// status shows on a terminal how far a command is, in one line that the next
// one overwrites and an empty one clears.
func (s *session) status(format string, args ...any) {
	if s.flags.JSON || !isTerminal(s.err.out) {
		return
	}
	s.err.printf("\r%-78.78s\r", fmt.Sprintf(format, args...))
}

// bar draws how much of a whole is done; nothing when the whole is not known.
func bar(done, whole int64) string {
	if whole <= 0 {
		return ""
	}
	const width = 24
	full := int(min(done, whole) * width / whole)
	return fmt.Sprintf("[%s%s] %3d%%  ", strings.Repeat("#", full), strings.Repeat(".", width-full), min(done, whole)*100/whole)
}

type relayExportCmd struct {
	URL    string     `arg:"" help:"ws or wss URL of the relay."`
	Filter filterText `help:"Only events that match this filter (NIP-01)." placeholder:"JSON"`
	To     string     `help:"File to write; it must not exist. Without it the events go to standard output." placeholder:"FILE"`
}

// Help is printed below the flags.
func (c *relayExportCmd) Help() string {
	return `One event a line, in NIP-01 JSON, the newest first. Every event is verified. Sealed
messages stay where they are. It needs no home. To export everything of a relay of
your own, stop it and run "parleyd relay export FILE".

Examples:
  parley relay export wss://relay.example --to cards.jsonl
  parley relay export wss://relay.example --filter '{"kinds":[30417]}' --to cards.jsonl`
}

// exported is what --json prints.
type exported struct {
	Events  int64   `json:"events"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	// Incomplete counts the seconds of which the relay holds more events than
	// it shows.
	Incomplete int `json:"incomplete"`
}

// Run exports.
func (c *relayExportCmd) Run(s *session) (err error) {
	filter, err := c.Filter.filter()
	if err != nil {
		return err
	}
	if c.To == "" && s.flags.JSON {
		return errors.New("--json needs --to: standard output is for the events")
	}
	client, err := s.relays()
	if err != nil {
		return err
	}
	defer client.Close()
	from, err := s.wire(client, c.URL)
	if err != nil {
		return err
	}
	out, report := io.Writer(s.out.out), s.err
	if c.To != "" {
		file, err := os.OpenFile(c.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists; nothing is replaced, name another file", c.To)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out, report = file, s.out
	}
	began := time.Now()
	counts, err := mirror.Export(out, from.Read(s.ctx, filter), func(n, bytes int64) { s.status("%d events, %d KiB", n, bytes>>10) })
	s.status("")
	if err != nil && counts.Events == 0 {
		if c.To != "" { // an empty file would be in the way of the next run
			err = errors.Join(err, os.Remove(c.To))
		}
		return unreached(err)
	}
	if err != nil {
		return fmt.Errorf("after %d events: %w", counts.Events, err)
	}
	r := exported{counts.Events, counts.Bytes, time.Since(began).Seconds(), counts.Incomplete}
	if s.flags.JSON {
		err = s.json(r)
	} else {
		report.printf("%d events, %d bytes\n", r.Events, r.Bytes)
	}
	if err == nil && r.Incomplete > 0 {
		s.note("some events may be missing: of %d seconds the relay holds more than it shows at a time", r.Incomplete)
		return errFindings
	}
	return err
}

type relayImportCmd struct {
	URL  string `arg:"" help:"ws or wss URL of the relay."`
	File string `arg:"" help:"File with one event a line; - is standard input."`
}

// Help is printed below the flags.
func (c *relayImportCmd) Help() string {
	return `Shape, id and signature of every event are checked before it is sent. FILE.progress
says how far an import came that was cut off: run the command again and it goes on
there. Events that are stored already, in a newer version, expired or deleted are no
fault; any other refusal makes exit code 1. A relay that asks to slow down is waited
for. To fill a relay of your own, stop it and run "parleyd relay import FILE": that is
faster, and no rate is counted. It needs no home.

Examples:
  parley relay import ws://127.0.0.1:8417 cards.jsonl
  parley relay export wss://old.example | parley relay import wss://new.example -`
}

// imported is what --json prints.
type imported struct {
	mirror.Summary
	Resumed bool    `json:"resumed"` // an earlier import is counted in
	Seconds float64 `json:"seconds"`
}

// Run imports.
func (c *relayImportCmd) Run(s *session) error {
	client, err := s.relays()
	if err != nil {
		return err
	}
	defer client.Close()
	to, err := s.wire(client, c.URL)
	if err != nil {
		return err
	}
	// A relay that is not there is told before the file is read.
	if _, err := client.Query(s.ctx, to.URL, nostr.Filter{Kinds: []int{nostr.KindProfileMetadata}, Limit: 1}); err != nil {
		return unreached(fmt.Errorf("reaching the relay: %w", err))
	}
	options := mirror.ImportOptions{Input: s.in, Target: to, Refused: s.refusedLine()}
	size := int64(0)
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
			if options.Journal, err = mirror.OpenJournal(file, to.URL); err != nil {
				return err
			}
		}
		options.Input = file
	}
	resumed := options.Journal != nil && options.Journal.Offset() > 0
	if resumed {
		s.note("going on after %s", strings.TrimSpace(bar(options.Journal.Offset(), size)))
	}
	options.Progress = func(done int64, sum mirror.Summary) {
		s.status("%s%d events, %d accepted", bar(done, size), sum.Read, sum.Accepted)
	}
	began := time.Now()
	sum, err := mirror.Import(s.ctx, options)
	s.status("")
	if err != nil {
		return fmt.Errorf("after %d events, run it again to go on: %w", sum.Read, err)
	}
	r := imported{sum, resumed, time.Since(began).Seconds()}
	return s.told(r, &r.Summary, sum.RefusedTotal())
}

// refusedLine tells about the first refused lines.
func (s *session) refusedLine() func(int64, mirror.Outcome) {
	const shown = 10
	told := 0
	return func(line int64, o mirror.Outcome) {
		if told++; told <= shown {
			s.status("")
			s.note("line %d: %s", line, o)
		}
		if told == shown+1 {
			s.note("…")
		}
	}
}

type relaySyncCmd struct {
	From   string     `arg:"" help:"ws or wss URL of the relay whose events are taken."`
	To     string     `arg:"" help:"ws or wss URL of the relay that lacks them."`
	Filter filterText `help:"Only events that match this filter (NIP-01)." placeholder:"JSON"`
	Both   bool       `help:"Both ways: what TO has goes to FROM too."`
	Follow bool       `help:"Go on with what comes new, until interrupted."`
	Every  length     `help:"With --follow: time between two full comparisons." type:"length" default:"10m"`
}

// Help is printed below the flags.
func (c *relaySyncCmd) Help() string {
	return `The relays are compared by NIP-77; one that does not offer it is read page by page.
Every event is verified. Sealed messages are never moved. Nothing is kept between two
runs: one that was cut off is run again and finds what is left. It needs no home.

Examples:
  parley relay sync wss://relay.example ws://127.0.0.1:8417
  parley relay sync wss://a.example wss://b.example --both --filter '{"kinds":[0,5,10002,30417]}'
  parley relay sync wss://relay.example ws://127.0.0.1:8417 --follow --every 1h`
}

// Run syncs.
func (c *relaySyncCmd) Run(s *session) error {
	filter, err := c.Filter.filter()
	if err != nil {
		return err
	}
	client, err := s.relays()
	if err != nil {
		return err
	}
	defer client.Close()
	from, err := s.wire(client, c.From)
	if err != nil {
		return err
	}
	to, err := s.wire(client, c.To)
	if err != nil {
		return err
	}
	if from.URL == to.URL {
		return errors.New("FROM and TO are the same relay")
	}
	sum, err := mirror.Sync(s.ctx, mirror.SyncOptions{
		From: from, To: to, Filter: filter, Both: c.Both, Follow: c.Follow, Every: time.Duration(c.Every),
		Progress: func(m mirror.SyncSummary) {
			s.status("%d compared, %d moved, %d the other way", m.Rounds, m.To.Accepted, m.From.Accepted)
		},
		Failed: func(err error) { s.status(""); s.note("trying again later: %s", err) },
	})
	s.status("")
	if err != nil && !(c.Follow && errors.Is(err, context.Canceled)) {
		return fmt.Errorf("after %d events, run it again to go on: %w", sum.To.Read+sum.From.Read, err)
	}
	return s.told(sum, &sum.To, sum.To.RefusedTotal()+sum.From.RefusedTotal(), &sum.From)
}

// told prints what became of events.
func (s *session) told(v any, sum *mirror.Summary, refused int64, back ...*mirror.Summary) error {
	err := s.print(v, func(p *printer) {
		p.summary(sum)
		for _, other := range back {
			if other.Read > 0 {
				p.println("the other way:")
				p.summary(other)
			}
		}
	})
	if err == nil && refused > 0 {
		return errFindings
	}
	return err
}

func (p *printer) summary(sum *mirror.Summary) {
	p.printf("%d events: %d accepted, %d there already, %d stale, %d expired, %d deleted, %d refused\n",
		sum.Read, sum.Accepted, sum.Duplicate, sum.Stale, sum.Expired, sum.Deleted, sum.RefusedTotal())
	for _, o := range sum.Reasons() {
		p.printf("  %-14s %d\n", o, sum.Refused[o])
	}
}
