package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/protocol/message"
)

type sendCmd struct {
	Who  string   `arg:"" help:"npub, hex key or petname."`
	Text []string `arg:"" help:"The text; several words are joined by spaces; - reads standard input."`
	Key  string   `help:"Names this send, 8 to 128 characters: said again it sends nothing more." placeholder:"KEY"`
	Wait length   `help:"How long to wait for the acknowledgement." type:"length" default:"${wait}"`
}

// Help is printed below the flags.
func (c *sendCmd) Help() string {
	return `The text is sealed for the recipient and kept in a durable outbox until it is
acknowledged or expires after 14 days. It is safe to end the program at any time;
what is queued leaves with the next command or with ` + "`parley run`" + `.

Examples:
  parley send bob "good morning"
  parley send npub1… hello there --wait 30s
  date | parley send bob -`
}

// Run sends a text.
func (c *sendCmd) Run(s *session) error {
	wait := time.Duration(c.Wait)
	if wait > 5*time.Second {
		s.waiting("the acknowledgement", wait)
	}
	text, err := c.text(s)
	if err != nil {
		return err
	}
	var d agent.Delivery
	request := agent.SendRequest{To: c.Who, Text: text, WaitSeconds: seconds(wait), Key: c.Key}
	if err := s.call("message.send", request, &d); err != nil {
		return err
	}
	return s.print(d, func(p *printer) { p.println(describe(&d)) })
}

// text is what the arguments say, or standard input without its last line end.
func (c *sendCmd) text(s *session) (string, error) {
	if len(c.Text) != 1 || c.Text[0] != "-" {
		return strings.Join(c.Text, " "), nil
	}
	data, err := readInput(s, "-", 4*message.MaxText)
	return strings.TrimSuffix(string(data), "\n"), err
}

// describe says in a sentence how far a message has come.
func describe(d *agent.Delivery) string {
	switch d.State {
	case "acked":
		return "delivered (acked)"
	case "sent":
		return "sent; not acknowledged yet (the recipient may be offline, or has not made you a contact)"
	case "queued":
		text := "queued; " + tried(d.Tried)
		if d.NextSeconds > 0 {
			text += fmt.Sprintf(", next in %s", span(time.Duration(d.NextSeconds)*time.Second))
		}
		if d.Reason != "" {
			text += " (" + line(d.Reason) + ")"
		}
		return text
	default:
		return strings.TrimSpace(d.State + " " + line(d.Reason))
	}
}

func tried(n int) string {
	if n == 1 {
		return "1 carrier tried"
	}
	return fmt.Sprintf("%d carriers tried", n)
}

type inboxCmd struct {
	Wait length `help:"Wait this long for a text to come." type:"length" placeholder:"30s"`
	All  bool   `help:"Show texts read before, too."`
	From string `help:"Only texts of one sender." placeholder:"WHO"`
}

// Help is printed below the flags.
func (c *inboxCmd) Help() string {
	return `Shows texts of contacts and marks them read. With --wait the command ends as soon
as a text is there, or with exit code 3 when none came in time.

Examples:
  parley inbox
  parley inbox --from bob --wait 30s
  parley inbox --all --json`
}

// Run reads texts.
func (c *inboxCmd) Run(s *session) error {
	wait := time.Duration(c.Wait)
	s.waiting("a text", wait)
	var r agent.InboxResponse
	request := agent.InboxRequest{From: c.From, All: c.All, WaitSeconds: seconds(wait)}
	if err := s.call("message.inbox", request, &r); err != nil {
		return err
	}
	switch {
	case r.Requests == 1:
		s.note("1 stranger wrote: parley contact requests")
	case r.Requests > 1:
		s.note("%d strangers wrote: parley contact requests", r.Requests)
	}
	if len(r.Texts) == 0 && wait > 0 {
		return &agent.Error{Code: agent.CodeTimeout, Detail: "no text came within " + span(wait)}
	}
	return s.print(r, func(p *printer) {
		if len(r.Texts) == 0 {
			p.println("no new texts")
		}
		for _, t := range r.Texts {
			name := t.Name
			if name == "" {
				name = t.NPub
			}
			p.printf("%s  %s\n", p.paint(bold, line(name)), p.paint(dim, t.SentAt.String()))
			p.println("  " + strings.ReplaceAll(plain(t.Text, true), "\n", "\n  "))
		}
	})
}
