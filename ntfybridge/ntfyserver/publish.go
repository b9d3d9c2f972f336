package ntfyserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	shortestDelay = 10 * time.Second
	longestDelay  = 72 * time.Hour
	maxAttachment = 15 << 20
)

// draft is a message that is being published.
type draft struct {
	msg  Message
	due  time.Time // zero for now
	keep bool
}

// publish answers one publication.
func (s *Server) publish(rw http.ResponseWriter, r *http.Request, topic string) {
	d := &draft{msg: Message{Topic: topic}}
	if err := s.readDraft(d, r); err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	s.accept(rw, r, d)
}

// accept authorizes a draft, keeps and delivers it.
func (s *Server) accept(rw http.ResponseWriter, r *http.Request, d *draft) {
	if err := s.authorize(r, []string{d.msg.Topic}, true); err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	msg, err := s.deliver(d)
	if err != nil {
		s.opts.Logger.ErrorContext(r.Context(), "keeping a message", "err", err)
		s.refuse(rw, errInternal)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(msg)
}

// header reads a parameter: a header with or without X-, or a query.
func header(r *http.Request, names ...string) string {
	for _, name := range names {
		for _, value := range []string{r.Header.Get("X-" + name), r.Header.Get(name), r.URL.Query().Get(strings.ToLower(name))} {
			if value = strings.TrimSpace(value); value != "" {
				return value
			}
		}
	}
	return ""
}

func (s *Server) readDraft(d *draft, r *http.Request) error {
	d.msg.Title = header(r, "Title", "T")
	d.msg.Click = header(r, "Click")
	d.msg.Message = strings.ReplaceAll(header(r, "Message", "M"), `\n`, "\n")
	d.msg.Priority, _ = strconv.Atoi(header(r, "Priority", "Prio", "P"))
	if tags := header(r, "Tags", "Tag", "Ta"); tags != "" {
		d.msg.Tags = strings.Split(tags, ",")
	}
	d.keep = header(r, "Cache") != "no"
	if err := s.delay(d, header(r, "Delay", "In", "At")); err != nil {
		return err
	}
	up := header(r, "UnifiedPush", "Up")
	return s.readBody(d, r, up == "1" || up == "true" || up == "yes")
}

// delay reads when a message is due: a duration or a Unix time.
func (s *Server) delay(d *draft, text string) error {
	if text == "" {
		return nil
	}
	now := s.opts.Now()
	if unix, err := strconv.ParseInt(text, 10, 64); err == nil {
		d.due = time.Unix(unix, 0)
	} else if after, err := time.ParseDuration(text); err == nil {
		d.due = now.Add(after)
	} else {
		return errDelay
	}
	switch {
	case d.due.Before(now.Add(shortestDelay)):
		return errDelayShort
	case d.due.After(now.Add(longestDelay)):
		return errDelayLong
	}
	return nil
}

// readBody takes the text, or what becomes of a body that is none: the limit
// counts raw bytes, and reaching it is already too long.
func (s *Server) readBody(d *draft, r *http.Request, unifiedPush bool) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(s.opts.MessageLimit)))
	if err != nil {
		return errInternal
	}
	switch {
	case unifiedPush:
		d.msg.Message = string(body)
		if !utf8.Valid(body) {
			d.msg.Message, d.msg.Encoding = base64.StdEncoding.EncodeToString(body), "base64"
		}
		return nil
	case len(body) >= s.opts.MessageLimit || !utf8.Valid(body):
		rest, _ := io.Copy(io.Discard, io.LimitReader(r.Body, maxAttachment))
		return s.attach(d, body, int64(len(body))+rest)
	}
	if text := strings.TrimSpace(string(body)); text != "" {
		d.msg.Message = text
	}
	if d.msg.Message == "" {
		d.msg.Message = "triggered"
	}
	return nil
}

// attach makes a body an attachment.
func (s *Server) attach(d *draft, body []byte, size int64) error {
	if s.opts.NoAttachments {
		return errNoAttachments
	}
	ext, kind := ".txt", "text/plain; charset=utf-8"
	if !utf8.Valid(body) {
		ext, kind = ".bin", "application/octet-stream"
	}
	name := "attachment" + ext
	d.msg.ID = newID()
	d.msg.Attachment = &Attachment{
		Name: name, Type: kind, Size: size, Expires: s.opts.Now().Add(3 * time.Hour).Unix(), URL: s.opts.Origin + "/file/" + d.msg.ID + ext,
	}
	if d.msg.Message == "" {
		d.msg.Message = "You received a file: " + name
	}
	return nil
}

// jsonDraft is the body of a publication to the root.
type jsonDraft struct {
	Topic    string          `json:"topic"`
	Title    string          `json:"title"`
	Message  string          `json:"message"`
	Priority int             `json:"priority"`
	Tags     []string        `json:"tags"`
	Click    string          `json:"click"`
	Actions  json.RawMessage `json:"actions"`
	Delay    string          `json:"delay"`
}

// publishJSON answers a publication to the root.
func (s *Server) publishJSON(rw http.ResponseWriter, r *http.Request) {
	limit := 2 * s.opts.MessageLimit
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	var in jsonDraft
	switch {
	case err != nil:
		s.refuse(rw, errInternal)
		return
	case len(body) > limit:
		s.refuse(rw, errJSONSize)
		return
	case json.NewDecoder(bytes.NewReader(body)).Decode(&in) != nil:
		s.refuse(rw, errJSON)
		return
	case !topicPattern.MatchString(in.Topic):
		s.refuse(rw, errNotFound)
		return
	}
	d := &draft{keep: header(r, "Cache") != "no", msg: Message{
		Topic: in.Topic, Title: in.Title, Priority: in.Priority, Tags: in.Tags, Click: in.Click, Actions: in.Actions,
	}}
	if err := s.delay(d, in.Delay); err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	r.Body = io.NopCloser(strings.NewReader(in.Message))
	if err := s.readBody(d, r, false); err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	s.accept(rw, r, d)
}
