package relay

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"

	contact "github.com/parleykit/parley/protocol/card"

	"github.com/parleykit/parley/protocol/canonical"
)

const (
	pageCards  = 25  // on one page of the list
	pageLast   = 40  // pages of one list; beyond them one searches
	pageSearch = 200 // characters of a search that are looked at
)

// listPage is the data of list.html.
type listPage struct {
	site
	Counts        counts
	Search        string
	Refused       string // why there is no list
	Cards         []shownCard
	Page          int
	Earlier, Next string // addresses of the pages beside it, or empty
	Narrow        bool   // there is more, on no page
}

// cardPage is the data of card.html; Card is nil where there is none.
type cardPage struct {
	site
	Card *shownCard
}

// shownCard is one card as the pages show it. Everything in it is its author's
// word; the templates escape it.
type shownCard struct {
	*contact.Card
	NPub      string
	Path      string // of the page with this card
	Published shownTime
	Until     shownTime
	Schemes   []string
	JSON      string // the event
}

// shownTime is an instant for people and for programs.
type shownTime struct{ Text, Machine string }

func showTime(t time.Time) shownTime {
	t = t.UTC()
	return shownTime{t.Format("2 January 2006, 15:04 UTC"), t.Format(time.RFC3339)}
}

// show reads a stored card; nil when it is none any more.
func (r *Relay) show(rec *Record) *shownCard {
	parsed, err := contact.Parse(rec.Event, r.opts.Now())
	if err != nil {
		return nil
	}
	npub, err := nip19.EncodePublicKey(parsed.PubKey)
	if err != nil {
		return nil
	}
	c := &shownCard{
		Card: parsed, NPub: npub, Path: "/relay/card/" + npub + "/" + url.PathEscape(parsed.Name),
		Published: showTime(parsed.CreatedAt), Until: showTime(parsed.Expires), JSON: string(rec.JSON),
	}
	for _, carrier := range parsed.Carriers {
		if len(c.Schemes) == 0 || c.Schemes[len(c.Schemes)-1] != carrier.Scheme {
			c.Schemes = append(c.Schemes, carrier.Scheme)
		}
	}
	return c
}

// serveCards answers with the list, or with what a search finds.
func (r *Relay) serveCards(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), r.limits().QueryTimeout)
	defer cancel()
	page := listPage{site: r.site(""), Counts: r.counts(), Search: cut(req.FormValue("q"), pageSearch)}
	page.Page, _ = strconv.Atoi(req.FormValue("page"))
	page.Page = min(max(page.Page, 1), pageLast)
	status := http.StatusOK
	switch records, err := r.findCards(ctx, page.Search, page.Page*pageCards+1); {
	case err == nil:
		r.turn(&page, records)
	case ctx.Err() == nil && isSearchMistake(err):
		status, page.Refused = http.StatusBadRequest, "This search cannot be read: "+err.Error()+"."
	default:
		r.log.ErrorContext(ctx, "listing cards", "err", err)
		status, page.Refused = http.StatusServiceUnavailable, "The cards cannot be read at the moment. Try again later."
	}
	r.render(w, req, status, "list.html", page)
}

// turn puts the cards of the page that is asked for on it.
func (r *Relay) turn(page *listPage, records []*Record) {
	begin := min((page.Page-1)*pageCards, len(records))
	end := min(begin+pageCards, len(records))
	for _, rec := range records[begin:end] {
		if c := r.show(rec); c != nil {
			page.Cards = append(page.Cards, *c)
		}
	}
	address := func(n int) string {
		q := url.Values{"page": {strconv.Itoa(n)}}
		if page.Search != "" {
			q.Set("q", page.Search)
		}
		return "/relay/?" + q.Encode()
	}
	if page.Page > 1 {
		page.Earlier = address(page.Page - 1)
	}
	if more := len(records) > end; more && page.Page < pageLast {
		page.Next = address(page.Page + 1)
	} else {
		page.Narrow = more
	}
}

// serveCard answers with one card.
func (r *Relay) serveCard(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), r.limits().QueryTimeout)
	defer cancel()
	page := cardPage{site: r.site("No such card")}
	if key := publicKey(req.PathValue("key")); key != "" {
		f := nostr.Filter{
			Kinds: []int{kindCard}, Authors: []string{key}, Limit: 1,
			Tags: nostr.TagMap{"d": {req.PathValue("name")}},
		}
		for rec, err := range r.store.Query(ctx, f, r.opts.Now(), r.limits().Scan) {
			if err != nil {
				r.log.ErrorContext(ctx, "reading a card", "err", err)
				page.Title = "The card cannot be read – " + page.Name
				r.render(w, req, http.StatusServiceUnavailable, "card.html", page)
				return
			}
			page.Card = r.show(rec)
		}
	}
	if page.Card == nil {
		r.render(w, req, http.StatusNotFound, "card.html", page)
		return
	}
	page.site = r.site("Card of " + page.Card.NPub[:16] + "…")
	r.render(w, req, http.StatusOK, "card.html", page)
}

// publicKey reads npub1… or hex; empty when it is neither.
func publicKey(text string) string {
	if canonical.IsHex(text, 32) {
		return text
	}
	if kind, key, err := nip19.Decode(text); err == nil && kind == "npub" {
		return key.(string)
	}
	return ""
}

// cut takes at most n characters of a text that somebody typed.
func cut(text string, n int) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
