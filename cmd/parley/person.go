package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/durable"
)

type exportCmd struct {
	Who string `arg:"" help:"npub, hex key or petname."`
	To  string `help:"File to write; it must not exist yet." placeholder:"FILE" type:"path"`
}

// Help is printed below the flags.
func (c *exportCmd) Help() string {
	return `Writes everything this home stores about a key as JSON lines: the table and the row,
byte strings in base64. It is in clear: texts, names, agreements.

Examples:
  parley export alice
  parley export alice --to alice.jsonl`
}

// Run exports what is stored about a key.
func (c *exportCmd) Run(s *session) error {
	var r agent.PersonExport
	if err := s.call("person.export", agent.PersonRequest{Who: c.Who}, &r); err != nil {
		return err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, row := range r.Rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	if c.To == "" {
		_, err := s.out.out.Write(escapeJSON(lines.Bytes()))
		return err
	}
	err := durable.WriteNew(c.To, lines.Bytes())
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; nothing is replaced", c.To)
	}
	if err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return s.print(map[string]any{"file": c.To, "rows": len(r.Rows)}, func(p *printer) {
		p.println(fmt.Sprintf("%d rows about %s in %s", len(r.Rows), r.NPub, c.To))
	})
}

type eraseCmd struct {
	Who        string `arg:"" help:"npub, hex key or petname."`
	Agreements bool   `help:"Closed agreements with it too: your evidence of them is gone."`
}

// Help is printed below the flags.
func (c *eraseCmd) Help() string {
	return `Deletes what this home stores about a key: texts, cards, the contact, messages on
their way and waiting, notices, refusals. An open agreement with the key is in the way.
What relays, venues and other participants hold is not reached.

Examples:
  parley export alice --to alice.jsonl
  parley erase alice`
}

// Run erases what is stored about a key.
func (c *eraseCmd) Run(s *session) error {
	var r agent.PersonErased
	if err := s.call("person.erase", agent.EraseRequest{Who: c.Who, Agreements: c.Agreements}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		var rows int64
		for _, n := range r.Removed {
			rows += n
		}
		p.println(fmt.Sprintf("erased: %d rows about %s", rows, r.NPub))
		if r.Kept > 0 {
			s.note("%d closed agreements with it are kept; without your evidence of them: parley erase %s --agreements", r.Kept, r.NPub)
		}
	})
}
