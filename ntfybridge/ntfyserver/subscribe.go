package ntfyserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// queue is how many messages wait for one subscriber. One that is further
// behind is cut off, and goes on by id.
const queue = 1024

// subscriber is one stream.
type subscriber struct {
	topics   map[string]bool
	messages chan Message
	lost     chan struct{} // closed when the queue is full
	slow     bool
}

// writer puts events on the wire of one stream.
type writer func(Message) error

// parseSince reads a position.
func (s *Server) parseSince(text string, poll bool) (since, error) {
	switch {
	case text == "" && poll, text == "all":
		return since{}, nil
	case text == "", text == "none":
		return since{none: true}, nil
	case text == "latest":
		return since{latest: true}, nil
	case idPattern.MatchString(text):
		return since{id: text}, nil
	}
	if unix, err := strconv.ParseInt(text, 10, 64); err == nil {
		return since{unix: unix}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return since{unix: s.opts.Now().Add(-ago).Unix()}, nil
	}
	return since{}, errSince
}

// subscribe answers one subscription; format is json, sse, raw or ws.
func (s *Server) subscribe(rw http.ResponseWriter, r *http.Request, topics []string, format string) {
	if err := s.authorize(r, topics, false); err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	poll := header(r, "Poll", "Po") == "1"
	from, err := s.parseSince(header(r, "Since", "Si"), poll)
	if err != nil {
		s.refuse(rw, asRefusal(err))
		return
	}
	scheduled := header(r, "Scheduled", "Sched") == "1"
	if poll {
		write := s.lines(rw, format)
		for _, m := range s.stored(topics, from, scheduled) {
			if write(m) != nil {
				return
			}
		}
		return
	}
	leave, ok := s.visitors.subscribe(r)
	if !ok {
		s.refuse(rw, errSubscriptions)
		return
	}
	defer leave()
	ctx, write := r.Context(), s.lines(rw, format)
	if format == "ws" {
		var end func()
		if ctx, write, end, err = socket(rw, r); err != nil {
			return
		}
		defer end()
	}
	sub, stored := s.join(topics, from, scheduled)
	defer s.leave(sub)
	s.stream(ctx, write, sub, strings.Join(topics, ","), stored)
}

// stream writes what is stored and what comes until the subscriber goes.
func (s *Server) stream(ctx context.Context, write writer, sub *subscriber, topics string, stored []Message) {
	if write(s.event(eventOpen, topics)) != nil {
		return
	}
	for _, m := range stored {
		if write(m) != nil {
			return
		}
	}
	alive := time.NewTicker(s.opts.KeepAlive)
	defer alive.Stop()
	for {
		var m Message
		select {
		case <-ctx.Done():
			return
		case <-s.done:
			return
		case <-sub.lost:
			return
		case m = <-sub.messages:
		case <-alive.C:
			m = s.event(eventKeepalive, topics)
		}
		if write(m) != nil {
			return
		}
	}
}

func (s *Server) event(kind, topics string) Message {
	return Message{ID: newID(), Time: s.opts.Now().Unix(), Event: kind, Topic: topics}
}

var contentTypes = map[string]string{
	"json": "application/x-ndjson; charset=utf-8", "sse": "text/event-stream; charset=utf-8", "raw": "text/plain; charset=utf-8",
}

// lines writes events as one of the formats that are lines of text.
func (s *Server) lines(rw http.ResponseWriter, format string) writer {
	rw.Header().Set("Content-Type", contentTypes[format])
	flusher := http.NewResponseController(rw)
	return func(m Message) error {
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		text := string(data) + "\n"
		switch {
		case format == "raw":
			text = strings.ReplaceAll(m.Message, "\n", " ") + "\n"
		case format == "sse" && m.Event == eventMessage:
			text = fmt.Sprintf("data: %s\n\n", data)
		case format == "sse":
			text = fmt.Sprintf("event: %s\ndata: %s\n\n", m.Event, data)
		}
		if _, err := rw.Write([]byte(text)); err != nil {
			return err
		}
		return flusher.Flush()
	}
}

// socket opens a WebSocket.
func socket(rw http.ResponseWriter, r *http.Request) (ctx context.Context, write writer, end func(), err error) {
	ws, err := websocket.Accept(rw, r, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx = ws.CloseRead(r.Context())
	write = func(m Message) error {
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, data)
	}
	return ctx, write, func() { _ = ws.CloseNow() }, nil
}
