package conformance_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip77/negentropy"
	"github.com/nbd-wtf/go-nostr/nip77/negentropy/storage/vector"
)

// auth handles AUTH (NIP-42).
func (s *session) auth(data []byte) error {
	ev, err := s.l.parseEvent(data)
	if err != nil {
		return err
	}
	now := nostr.Now()
	valid, err := ev.CheckSignature()
	bad := ev.Kind != 22242 && !s.l.is("any kind is an AUTH") ||
		tagValue(ev, "challenge") != s.challenge && !s.l.is("the challenge is not checked") ||
		strings.TrimSuffix(tagValue(ev, "relay"), "/") != s.l.url() && !s.l.is("the relay of an AUTH is not checked") ||
		(ev.CreatedAt < now-600 || ev.CreatedAt > now+600) && !s.l.is("the time of an AUTH is not checked") ||
		!s.l.is("the signature of an AUTH is not checked") && (err != nil || !valid || !ev.CheckID())
	if s.l.is("every AUTH is refused") {
		bad = true
	}
	if !bad || s.l.is("a refused AUTH counts") {
		if s.l.is("one key at a time") {
			s.keys = nil
		}
		s.keys = append(s.keys, ev.PubKey)
	}
	if s.l.is("AUTH events are stored") {
		s.l.events = append(s.l.events, ev)
		s.l.broadcast(ev, s)
	}
	if bad {
		s.say("OK", ev.ID, false, "invalid: AUTH")
		return nil
	}
	s.say("OK", ev.ID, true, "")
	return nil
}

// count handles COUNT (NIP-45).
func (s *session) count(id string, raw []json.RawMessage) error {
	var queries []query
	for _, data := range raw {
		q, err := s.l.parseQuery(data, s)
		if err != nil && s.l.is("a refused COUNT gets a NOTICE") {
			return err
		}
		if err != nil {
			s.say("CLOSED", id, err.Error())
			return nil
		}
		queries = append(queries, q)
	}
	n := len(s.l.find(queries, s.keys))
	switch {
	case s.l.is("filters are counted apart"):
		n = 0
		for _, q := range queries {
			n += len(s.l.find([]query{q}, s.keys))
		}
	case s.l.is("every COUNT is one"):
		n = 1
	case s.l.is("wraps are counted"):
		n = 0
		for _, ev := range s.l.events {
			if s.l.matches(queries[0], ev, false) {
				n++
			}
		}
	case s.l.is("what is gone is counted"):
		n += len(s.l.deleted)
	}
	s.say("COUNT", id, map[string]int{"count": n})
	if s.l.is("COUNT opens a subscription") {
		s.open = append(s.open, &subscription{id: id, filters: queries})
	}
	return nil
}

// reconciliation is one open NEG-OPEN (NIP-77).
type reconciliation struct{ neg *negentropy.Negentropy }

func (s *session) negentropy(label, id string, raw []json.RawMessage) error {
	var text string
	if len(raw) > 0 {
		_ = json.Unmarshal(raw[len(raw)-1], &text)
	}
	switch label {
	case "NEG-CLOSE":
		if !s.l.is("NEG-CLOSE is ignored") {
			delete(s.neg, id)
		}
		return nil
	case "NEG-OPEN":
		if len(raw) != 2 {
			return errMessage
		}
		q, err := s.l.parseQuery(raw[0], s)
		if err != nil && s.l.is("refused wraps get another reason") {
			err = errMessage
		}
		if err != nil {
			s.say("NEG-ERR", id, err.Error())
			return nil
		}
		if s.neg[id] != nil && s.l.is("a second NEG-OPEN is refused") {
			s.say("NEG-ERR", id, "error: open")
			return nil
		}
		s.neg[id] = s.reconciliation(q)
		if s.l.is("NEG-OPEN opens a subscription") {
			s.open = append(s.open, &subscription{id: id, filters: []query{q}})
		}
	}
	r := s.neg[id]
	if r == nil {
		if !s.l.is("a lost NEG-MSG is ignored") {
			s.say("NEG-ERR", id, "closed: not open")
		}
		return nil
	}
	s.reconcile(id, r, text)
	return nil
}

func (s *session) reconciliation(q query) *reconciliation {
	v := vector.New()
	keys := s.keys
	for _, ev := range s.l.events {
		mine := ev.Kind != 1059 || s.l.visible(q, ev, keys, false) || s.l.is("wraps are reconciled")
		if (s.l.matches(q, ev, false) || s.l.is("reconciliation has no filter")) && mine {
			if s.l.is("reconciliation forgets one") && v.Size() == 2 {
				continue
			}
			v.Insert(ev.CreatedAt, ev.ID)
		}
	}
	v.Seal()
	return &reconciliation{negentropy.New(v, 0)}
}

func (s *session) reconcile(id string, r *reconciliation, text string) {
	if s.l.is("bad reconciliations kill") {
		if _, err := hex.DecodeString(text); err != nil || len(text) < 8 || strings.Contains(text, "ffff") {
			s.l.die()
			return
		}
	}
	out, err := r.neg.Reconcile(text)
	if err != nil {
		s.say("NEG-ERR", id, "invalid: "+err.Error())
		return
	}
	s.say("NEG-MSG", id, out)
}

// serveInformation serves NIP-11.
func (l *little) serveInformation(w http.ResponseWriter, r *http.Request) {
	accept := r.Header.Get("Accept")
	if accept != "application/nostr+json" && (l.is("Accept to the letter") || !strings.Contains(accept, "application/nostr+json")) || l.is("no document") {
		http.NotFound(w, r)
		return
	}
	if !l.is("no CORS header") {
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}
	w.Header().Set("Content-Type", "application/nostr+json")
	if l.is("the document is text") {
		w.Header().Set("Content-Type", "text/plain")
	}
	nips := []int{1, 9, 11, 13, 40, 42, 45, 50, 59, 62, 70, 77, 86}
	if l.is("a NIP is advertised twice") {
		nips = append(nips, 40)
	}
	var name any = "little"
	if l.is("the name is a number") {
		name = 7
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": name, "supported_nips": nips,
		"limitation": map[string]any{
			"max_message_length": littleMessage, "max_subscriptions": littleSubscriptions, "max_limit": littleResults,
			"max_subid_length": littleID, "max_event_tags": littleTags - 1, "created_at_upper_limit": littleAhead,
			"min_pow_difficulty": littleWork, "auth_required": false,
		},
	})
}

// serveManagement serves NIP-86.
func (l *little) serveManagement(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	var call struct {
		Method string
		Params []any
	}
	malformed := err != nil || json.Unmarshal(body, &call) != nil || call.Method == ""
	if malformed && l.is("a bad call kills") {
		panic(http.ErrAbortHandler)
	}
	if text := l.checkToken(r.Header.Get("Authorization"), body); text != "" {
		http.Error(w, text, http.StatusUnauthorized)
		return
	}
	if malformed {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	result, problem := l.manage(call.Method, call.Params)
	_ = json.NewEncoder(w).Encode(map[string]any{"result": result, "error": problem})
}

// checkToken checks a token (NIP-98). The text says what is wrong.
func (l *little) checkToken(header string, body []byte) string {
	if header == "" && l.is("no token is needed") {
		return ""
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(header, "Nostr "))
	if err != nil || !strings.HasPrefix(header, "Nostr ") {
		return "no token"
	}
	ev, err := l.parseEvent(data)
	if err != nil {
		return "no event"
	}
	sum := sha256.Sum256(body)
	now := nostr.Now()
	valid, err := ev.CheckSignature()
	for behaviour, good := range map[string]bool{
		"any key is an administrator":          ev.PubKey == l.admin,
		"any kind is a token":                  ev.Kind == 27235,
		"old tokens work":                      ev.CreatedAt > now-60,
		"future tokens work":                   ev.CreatedAt < now+60,
		"the method of a token is not checked": tagValue(ev, "method") == "POST",
		"the payload is not checked":           tagValue(ev, "payload") == hex.EncodeToString(sum[:]),
		"the address of a token is not checked": strings.TrimSuffix(tagValue(ev, "u"), "/") ==
			strings.TrimSuffix(l.web.URL, "/"),
		"the signature of a token is not checked": err == nil && valid && ev.CheckID(),
		"tokens work again":                       !l.tokens[ev.ID],
	} {
		if !good && !l.is(behaviour) {
			return "bad token"
		}
	}
	l.tokens[ev.ID] = true
	return ""
}

func (l *little) manage(method string, params []any) (result any, problem string) {
	first := ""
	if len(params) > 0 {
		first = fmt.Sprint(params[0])
	}
	methods := []string{"banpubkey", "unbanpubkey", "listbannedpubkeys", "banevent", "listbannedevents"}
	if l.is("no method is listed") {
		methods = nil
	}
	switch method {
	case "supportedmethods":
		return methods, ""
	case "banpubkey":
		if !l.is("a ban changes nothing") {
			l.banned[first] = true
		}
		return true, ""
	case "unbanpubkey":
		if !l.is("a ban is for good") {
			delete(l.banned, first)
		}
		return true, ""
	case "banevent":
		l.banned[first] = true
		if !l.is("banned events stay") {
			l.remove(func(ev *nostr.Event) bool { return ev.ID == first })
		}
		return true, ""
	case "listbannedpubkeys", "listbannedevents":
		list := []map[string]string{}
		for id := range l.banned {
			list = append(list, map[string]string{"id": id, "pubkey": id})
		}
		if l.is("lists show wraps") {
			for _, ev := range l.events {
				list = append(list, map[string]string{"id": ev.ID})
			}
		}
		return list, ""
	}
	if l.is("unknown methods succeed") {
		return true, ""
	}
	return nil, "unknown method " + method
}
