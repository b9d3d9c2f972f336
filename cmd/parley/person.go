package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/parleykit/parley/agent"
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
	if c.To == "" {
		return c.export(s, func(line []byte) error {
			_, err := s.out.out.Write(escapeJSON(line))
			return err
		})
	}
	file, err := os.OpenFile(c.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; nothing is replaced", c.To)
	}
	if err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	rows := 0
	out := bufio.NewWriter(file)
	err = c.export(s, func(line []byte) error {
		rows++
		_, err := out.Write(line)
		return err
	})
	if err = errors.Join(err, out.Flush(), file.Sync(), file.Close()); err != nil {
		_ = os.Remove(c.To) // a part would pass for the whole
		return err
	}
	return s.print(map[string]any{"file": c.To, "rows": rows}, func(p *printer) {
		p.println(fmt.Sprintf("%d rows about %s in %s", rows, c.Who, c.To))
	})
}

// export gives each line, with its end, to write.
func (c *exportCmd) export(s *session, write func(line []byte) error) error {
	return s.stream("person.export", agent.PersonRequest{Who: c.Who}, func(line []byte) error {
		return write(append(line, '\n'))
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
