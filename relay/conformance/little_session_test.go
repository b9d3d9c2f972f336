package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// session is one connection to the little relay.
type session struct {
	l         *little
	conn      *websocket.Conn
	out       chan []byte
	challenge string
	keys      []string
	open      []*subscription
	neg       map[string]*reconciliation
	cancel    context.CancelFunc
}

type subscription struct {
	id      string
	filters []query
	keys    []string
}

func (s *session) write(ctx context.Context) {
	for {
		select {
		case data := <-s.out:
			if s.conn.Write(ctx, websocket.MessageText, data) != nil {
				s.cancel()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// say queues a message. What is broken may write at once, holding up all.
func (s *session) say(parts ...any) {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(parts); err != nil {
		panic(err)
	}
	s.sayRaw(strings.TrimSuffix(text.String(), "\n"))
}

func (s *session) sayRaw(text string) {
	if s.l.is("writes wait for the reader") {
		_ = s.conn.Write(context.Background(), websocket.MessageText, []byte(text))
		return
	}
	s.out <- []byte(text)
}

func (s *session) sayEvent(id string, ev *nostr.Event) {
	if s.l.is("HTML escapes in events") {
		s.say("EVENT", id, ev)
		return
	}
	switch {
	case s.l.is("control characters are cut"):
		served := *ev
		served.Content = strings.ReplaceAll(served.Content, `\n`, "")
		ev = &served
	case s.l.is("empty values are cut"):
		served := *ev
		served.Tags = nostr.Tags{}
		for _, tag := range ev.Tags {
			served.Tags = append(served.Tags, slices.DeleteFunc(slices.Clone(tag), func(v string) bool { return v == "" }))
		}
		ev = &served
	}
	head, _ := json.Marshal(id)
	if s.l.is("subscription id is cleaned") {
		head, _ = json.Marshal(strings.ToValidUTF8(strings.Map(letters, id), ""))
	}
	s.sayRaw(`["EVENT",` + string(head) + `,` + canonical(ev) + `]`)
}

func letters(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return -1
	}
	return r
}

// canonical is the NIP-01 JSON of the event in the order of its members there.
func canonical(ev *nostr.Event) string {
	text := func(v any) string {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v)
		return strings.TrimSuffix(b.String(), "\n")
	}
	return fmt.Sprintf(`{"id":"%s","pubkey":"%s","created_at":%d,"kind":%d,"tags":%s,"content":%s,"sig":"%s"}`,
		ev.ID, ev.PubKey, ev.CreatedAt, ev.Kind, text(ev.Tags), text(ev.Content), ev.Sig)
}

func (s *session) read(ctx context.Context) {
	for {
		if s.l.is("reads nothing") {
			<-ctx.Done()
			return
		}
		kind, data, err := s.message(ctx)
		if err != nil {
			return
		}
		late := time.Duration(0)
		switch {
		case s.l.is("REQ overtakes EVENT") && strings.HasPrefix(string(data), `["EVENT"`):
			late = 200 * time.Millisecond
		case s.l.is("CLOSE overtakes REQ") && strings.HasPrefix(string(data), `["REQ","s"`):
			late = 5 * time.Millisecond
		}
		if late > 0 {
			go func() {
				time.Sleep(late)
				s.l.mu.Lock()
				defer s.l.mu.Unlock()
				if s.handle(kind, data) != nil {
					s.say("NOTICE", "invalid")
				}
			}()
			continue
		}
		s.l.mu.Lock()
		if s.l.dead {
			s.l.mu.Unlock()
			return
		}
		err = s.handle(kind, data)
		if err != nil && s.l.is("dies of mistakes") {
			s.l.die()
		}
		if err != nil && !s.l.is("mistakes are not answered") {
			s.say("NOTICE", "invalid: "+err.Error())
		}
		if err != nil && s.l.is("NOTICE to everybody") {
			for other := range s.l.sessions {
				for _, sub := range other.open {
					if sub.id == "s" {
						other.say("EVENT", "s", &nostr.Event{Tags: nostr.Tags{}})
					}
				}
			}
		}
		s.l.mu.Unlock()
	}
}

// message reads one message, or what is broken its first fragment.
func (s *session) message(ctx context.Context) (websocket.MessageType, []byte, error) {
	if !s.l.is("fragments are not joined") {
		return s.conn.Read(ctx)
	}
	kind, r, err := s.conn.Reader(ctx)
	if err != nil {
		return 0, nil, err
	}
	first := make([]byte, littleMessage)
	n, err := r.Read(first)
	_, _ = io.Copy(io.Discard, r)
	return kind, first[:n], err
}

var errMessage = errors.New("not a message")

// handle handles one message. An error is answered with NOTICE.
func (s *session) handle(kind websocket.MessageType, data []byte) error {
	var parts []json.RawMessage
	var label, id string
	if kind != websocket.MessageText || json.Unmarshal(data, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &label) != nil || !validUTF8(data) {
		return errMessage
	}
	if s.l.is("labels to the letter") && !strings.HasPrefix(string(data), `["`+label+`"`) {
		return errMessage
	}
	switch label {
	case "EVENT":
		return s.event(parts[1])
	case "AUTH":
		return s.auth(parts[1])
	}
	if json.Unmarshal(parts[1], &id) != nil {
		return errMessage
	}
	switch label {
	case "REQ":
		return s.req(id, parts[2:])
	case "COUNT":
		return s.count(id, parts[2:])
	case "CLOSE":
		if !s.l.is("CLOSE is ignored") {
			s.drop(id)
		}
		if s.l.is("CLOSE closes everybody's") {
			for other := range s.l.sessions {
				other.drop(id)
			}
		}
		return nil
	case "NEG-OPEN", "NEG-MSG", "NEG-CLOSE":
		return s.negentropy(label, id, parts[2:])
	}
	return errMessage
}

func validUTF8(data []byte) bool { return strings.ToValidUTF8(string(data), "") == string(data) }

func (s *session) drop(id string) {
	s.open = slices.DeleteFunc(s.open, func(sub *subscription) bool { return sub.id == id })
}

// event handles EVENT.
func (s *session) event(data []byte) error {
	ev, err := s.l.parseEvent(data)
	if err != nil {
		return err
	}
	answer := s.l.submit(ev, s)
	answers := 1
	if s.l.is("OK comes twice") {
		answers = 2
	}
	ok := !strings.Contains(answer, ": ") || strings.HasPrefix(answer, "duplicate: ")
	switch {
	case s.l.is("OK is always true"):
		ok = true
	case s.l.is("a duplicate is refused") && answer == "duplicate: known":
		ok = false
	case s.l.is("refusals have no prefix") && !ok:
		_, answer, _ = strings.Cut(answer, ": ")
	}
	if s.l.taken++; s.l.is("one in ten is not answered") && s.l.taken%10 == 0 {
		answers = 0
	}
	for range answers {
		s.say("OK", ev.ID, ok, answer)
	}
	return nil
}

// req handles REQ.
func (s *session) req(id string, raw []json.RawMessage) error {
	if len(raw) == 0 && !s.l.is("no filter means all") {
		return errMessage
	}
	if (id == "" && !s.l.is("empty ids are taken")) || len(id) > littleID && !s.l.is("long ids are taken") {
		s.say("CLOSED", id, "invalid: subscription id")
		return nil
	}
	if len(id) == 64 && s.l.is("ids end at 63") {
		s.say("CLOSED", id, "invalid: subscription id")
		return nil
	}
	if len(raw) > 9 && s.l.is("nine filters are enough") {
		s.say("CLOSED", id, "invalid: filters")
		return nil
	}
	sub := &subscription{id: id, keys: slices.Clone(s.keys)}
	for _, data := range raw {
		q, err := s.l.parseQuery(data, s)
		if err != nil {
			s.say("CLOSED", id, err.Error())
			return nil
		}
		sub.filters = append(sub.filters, q)
	}
	if len(raw) == 0 {
		sub.filters = []query{{}}
	}
	known := slices.ContainsFunc(s.open, func(o *subscription) bool { return o.id == id })
	if !s.l.is("a second REQ is added") && !s.l.is("a second REQ changes nothing") {
		s.drop(id)
	}
	if len(s.open) >= littleSubscriptions && !s.l.is("no limit of subscriptions") {
		s.say("CLOSED", id, "error: too many subscriptions")
		return nil
	}
	for _, ev := range s.l.find(sub.filters, sub.keys) {
		s.sayEvent(id, ev)
	}
	if s.l.is("says nonsense too") {
		s.say("HELLO", id)
	}
	if !s.l.is("no EOSE") {
		s.say("EOSE", id)
	}
	if !s.l.is("EOSE is the end") && !(known && s.l.is("a second REQ changes nothing")) {
		s.open = append(s.open, sub)
	}
	if s.l.is("one subscription at a time") {
		s.open = s.open[len(s.open)-1:]
	}
	return nil
}

// broadcast sends a live event to every subscription that matches.
func (l *little) broadcast(ev *nostr.Event, from *session) {
	sent := 0
	if l.lives++; l.is("every second live event is lost") && l.lives%2 == 0 {
		return
	}
	for s := range l.sessions {
		if s == from && l.is("no live events to the sender") {
			continue
		}
		if sent++; sent > 4 && l.is("four subscribers are enough") {
			return
		}
		for _, sub := range slices.Clone(s.open) {
			keys := sub.keys
			if l.is("a later key widens subscriptions") {
				keys = s.keys
			}
			for _, q := range sub.filters {
				if q.limited && l.is("limit ends a subscription") {
					continue
				}
				if l.matches(q, ev, true) && l.visible(q, ev, keys, true) {
					s.sayEvent(sub.id, ev)
					if l.is("live events come twice") {
						s.sayEvent(sub.id, ev)
					}
					if !l.is("a live copy for each filter") {
						break
					}
				}
			}
		}
	}
}
