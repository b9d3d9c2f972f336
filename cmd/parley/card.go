package main

import (
	"strings"
	"time"

	"github.com/parleykit/parley/agent"
)

type cardCmd struct {
	Show    cardShowCmd    `cmd:"" default:"withargs" help:"Show a card; your own without WHO."`
	Publish cardPublishCmd `cmd:"" help:"Sign your card and publish it."`
}

type cardShowCmd struct {
	Who string `arg:"" optional:"" help:"npub, hex key or petname."`
}

// Run shows one card.
func (c *cardShowCmd) Run(s *session) error {
	var card agent.Card
	if err := s.call("card.show", agent.ShowCardRequest{Who: c.Who}, &card); err != nil {
		return err
	}
	return s.print(card, func(p *printer) {
		p.card(&card)
		s.moved(name(card.Petname, card.NPub), card.Moved, card.MoveProven)
	})
}

// card prints everything a card says.
func (p *printer) card(c *agent.Card) {
	now := time.Now()
	var carriers []string
	for _, carrier := range c.Carriers {
		carriers = append(carriers, line(carrier.Scheme+" "+carrier.Address))
	}
	expires := when(c.ExpiresAt.Time, now)
	if c.Expired {
		expires = p.paint(red, "expired "+expires)
	}
	p.fields(
		"agent", c.NPub,
		"key", c.PubKey,
		"petname", line(c.Petname),
		"about", line(c.About),
		"can", line(strings.Join(c.Capabilities, ", ")),
		"speaks", line(strings.Join(c.Protocols, ", ")),
		"reach", strings.Join(carriers, "\n       "),
		"moved to", npub(c.Moved),
		"moved from", npub(c.Previous),
		"published", when(c.CreatedAt.Time, now),
		"expires", expires,
	)
}

type cardPublishCmd struct {
	About   *string  `help:"One line about this agent." placeholder:"TEXT"`
	Can     []string `help:"Capability words others find it by." placeholder:"WORD"`
	Expires length   `help:"How long the card is valid, at most 180d." type:"length" placeholder:"90d"`
}

// Help is printed below the flags.
func (c *cardPublishCmd) Help() string {
	return `The card is public. It names your relay, not your mail address. What you leave out
stays as the last published card had it. The command waits for the relay's OK.

Examples:
  parley card publish --about "keeps the archive" --can archive,search
  parley card publish --expires 30d`
}

// Run publishes the own card.
func (c *cardPublishCmd) Run(s *session) error {
	request := agent.PublishCardRequest{
		About: c.About, Can: c.Can, ExpiresSeconds: int64(time.Duration(c.Expires) / time.Second),
	}
	var r agent.PublishCardResponse
	if err := s.call("card.publish", request, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		p.card(&r.Card)
		s.refusedBy(r.Relays)
		p.println(p.paint(green, "published"))
	})
}

type findCmd struct {
	What []string `arg:"" optional:"" help:"npub, hex key or name@host; or words that all must be among the capabilities."`
}

// Help is printed below the flags.
func (c *findCmd) Help() string {
	return `Asks the relays of your servers, and for name@host those that the host names
(NIP-05). Every card is checked here: signature, form and expiry. What it says about
itself is its own claim; that a name belongs to a key is the claim of its host.

Examples:
  parley find archive
  parley find translate german
  parley find npub1…
  parley find alice@parley.example
  parley card show bob      the card of a contact`
}

// Run looks for cards.
func (c *findCmd) Run(s *session) error {
	request := agent.FindRequest{Words: c.What}
	if len(c.What) > 0 && (looksLikeKey(c.What[0]) || strings.Contains(c.What[0], "@")) {
		request = agent.FindRequest{Who: c.What[0], Words: c.What[1:]}
	}
	var r agent.FindResponse
	if err := s.call("card.find", request, &r); err != nil {
		return err
	}
	if r.Refused > 0 {
		s.note("%d events were no valid cards and are left out", r.Refused)
	}
	if len(r.Cards) == 0 {
		return &agent.Error{
			Code: agent.CodeNotFound, Detail: "no card found",
			Hint: "capability words must match exactly; `parley find` alone lists what is there",
		}
	}
	return s.print(r, func(p *printer) {
		var rows [][]string
		for _, c := range r.Cards {
			rows = append(rows, []string{c.NPub, c.Petname, c.About, strings.Join(c.Capabilities, ","), span(time.Until(c.ExpiresAt.Time))})
		}
		p.table([]string{"AGENT", "PETNAME", "ABOUT", "CAN", "EXPIRES IN"}, rows)
		for _, c := range r.Cards {
			s.moved(name(c.Petname, c.NPub), c.Moved, c.MoveProven)
		}
	})
}

// looksLikeKey tells an npub or hex key from a word.
func looksLikeKey(text string) bool {
	return strings.HasPrefix(text, "npub1") || len(text) == 64 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}
