package main

import (
	"fmt"
	"time"

	"github.com/parleykit/parley/agent"
)

type contactCmd struct {
	Add      contactAddCmd      `cmd:"" help:"Make a key a contact."`
	List     contactListCmd     `cmd:"" help:"List the contacts."`
	Requests contactRequestsCmd `cmd:"" help:"List strangers who wrote."`
	Accept   contactAcceptCmd   `cmd:"" help:"Make a stranger who wrote a contact."`
	Remove   contactRemoveCmd   `cmd:"" help:"Forget a contact."`
}

// Help is printed below the commands.
func (c *contactCmd) Help() string {
	return `Contacts are acknowledged and their messages are shown. Strangers land in the
request box: they are not answered and cause no connection until you accept them.
In an agreement your petnames are the labels that all participants see.

Examples:
  parley contact add npub1… --name bob
  parley contact requests
  parley contact accept npub1… --name carol`
}

type contactAddCmd struct {
	Who  string `arg:"" help:"npub or hex key; a petname to rename."`
	Name string `help:"Petname: what you call it; without it there is none." placeholder:"PETNAME"`
}

// Run adds a contact.
func (c *contactAddCmd) Run(s *session) error {
	return s.contact("contact.add", agent.ContactRequest{Who: c.Who, Name: c.Name}, "contact")
}

type contactAcceptCmd struct {
	Who  string `arg:"" help:"npub or hex key of the stranger."`
	Name string `help:"Petname: what you call it." placeholder:"PETNAME"`
}

// Run accepts a stranger.
func (c *contactAcceptCmd) Run(s *session) error {
	return s.contact("contact.accept", agent.ContactRequest{Who: c.Who, Name: c.Name}, "accepted")
}

type contactRemoveCmd struct {
	Who string `arg:"" help:"npub, hex key or petname."`
}

// Run removes a contact.
func (c *contactRemoveCmd) Run(s *session) error {
	return s.contact("contact.remove", agent.ContactRequest{Who: c.Who}, "removed")
}

func (s *session) contact(operation string, request agent.ContactRequest, done string) error {
	var r agent.Contact
	if err := s.call(operation, request, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		p.fields(done, r.NPub, "petname", line(r.Name), "about", line(r.About))
		if done == "contact" && r.About == "" {
			s.note("its card was not found; it is reached through your own server")
		}
		if done != "removed" {
			s.moved(name(r.Name, r.NPub), r.Moved, r.MoveProven)
		}
		if done != "removed" && r.Name == "" {
			s.note("it has no petname; to give one: parley contact add %s --name PETNAME", r.NPub)
		}
	})
}

type contactListCmd struct{}

// Run lists contacts.
func (c *contactListCmd) Run(s *session) error {
	var r agent.ContactsResponse
	if err := s.call("contact.list", agent.Empty{}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		var rows [][]string
		for _, c := range r.Contacts {
			about := c.About
			if c.Note != "" {
				about = c.Note
			}
			rows = append(rows, []string{c.Name, c.NPub, about})
		}
		p.table([]string{"PETNAME", "AGENT", "ABOUT"}, rows)
		for _, c := range r.Contacts {
			s.moved(name(c.Name, c.NPub), c.Moved, c.MoveProven)
		}
	})
}

type contactRequestsCmd struct{}

// Run lists the request box.
func (c *contactRequestsCmd) Run(s *session) error {
	var r agent.RequestsResponse
	if err := s.call("contact.requests", agent.Empty{}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		if len(r.Requests) == 0 {
			p.println("no requests")
			return
		}
		var rows [][]string
		for _, q := range r.Requests {
			rows = append(rows, []string{q.NPub, fmt.Sprint(q.Messages), span(time.Since(q.LastAt.Time)) + " ago", q.Text})
		}
		p.table([]string{"AGENT", "MESSAGES", "LAST", "TEXT"}, rows)
		s.note("accept one: parley contact accept NPUB --name PETNAME")
	})
}
