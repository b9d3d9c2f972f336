package ntfyserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options of New; the zero value is a stock server without users.
type Options struct {
	Listen string // host:port of Run; "" is a free port of 127.0.0.1
	Origin string // of the URLs of attachments; "" is http://localhost
	File   string // keeps messages over restarts; "" keeps them in memory

	MessageLimit  int           // bytes of a text that are already too many; 0 is 4096
	NoAttachments bool          // refuses what is too long
	MaxMessages   int           // that are kept; 0 is 100,000
	Cache         time.Duration // how long they are kept; 0 is 12 h
	KeepAlive     time.Duration // between keepalive events; 0 is 45 s
	Burst         int           // requests of one address at once; 0 is 60, negative unlimited
	Refill        time.Duration // until it gets another; 0 is 5 s
	Subscriptions int           // of one address; 0 is 30
	RetryAfter    time.Duration // told with 429; 0 tells nothing, as ntfy does

	Users   map[string]string // passwords by name
	Tokens  map[string]string // names by token
	Access  []Access          // the first rule that fits decides
	DenyAll bool              // where no rule fits

	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	o.Origin = cmp.Or(o.Origin, "http://localhost")
	o.MessageLimit = cmp.Or(o.MessageLimit, 4096)
	o.MaxMessages = cmp.Or(o.MaxMessages, 100_000)
	o.Cache = cmp.Or(o.Cache, 12*time.Hour)
	o.KeepAlive = cmp.Or(o.KeepAlive, 45*time.Second)
	o.Burst = cmp.Or(o.Burst, 60)
	o.Refill = cmp.Or(o.Refill, 5*time.Second)
	o.Subscriptions = cmp.Or(o.Subscriptions, 30)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server is one server.
type Server struct {
	opts     Options
	store    *store
	visitors *visitors
	listener net.Listener
	done     chan struct{} // closed by Close
	close    sync.Once

	subscribers map[*subscriber]bool // guarded by store.mu, so that nothing falls between reading and joining
}

// New opens the store and, for Run, the port. Close it when it is no longer
// needed; Run does so.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	kept, err := openStore(opts.File, opts.MaxMessages, opts.Now())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		kept.close()
		return nil, fmt.Errorf("ntfyserver: listening: %w", err)
	}
	return &Server{
		opts: opts, store: kept, listener: listener, done: make(chan struct{}), subscribers: make(map[*subscriber]bool),
		visitors: &visitors{opts: opts, all: make(map[string]*visitor)},
	}, nil
}

// Addr is where Run listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends streams and closes the port and the store.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.done)
		_ = s.listener.Close()
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		s.store.close()
	})
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	due := time.NewTicker(time.Second)
	defer due.Stop()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("ntfyserver: %w", err)
		case <-due.C:
			s.Tick()
		case <-ctx.Done():
			_ = server.Close()
			<-ended
			return nil
		}
	}
}

// Tick delivers delayed messages that are due and forgets expired ones. Run
// does so every second.
func (s *Server) Tick() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now := s.opts.Now().Unix()
	for _, m := range s.store.due(now) {
		s.broadcast(m)
	}
	s.store.expire(now)
}

// Handler is the whole interface.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/health" && r.Method == http.MethodGet {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"healthy":true}` + "\n"))
		return
	}
	if !s.visitors.request(r) {
		s.refuse(rw, errRequests)
		return
	}
	name, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	post := r.Method == http.MethodPost || r.Method == http.MethodPut
	topics := strings.Split(name, ",")
	for _, topic := range topics {
		if r.URL.Path != "/" && !topicPattern.MatchString(topic) {
			s.refuse(rw, errNotFound)
			return
		}
	}
	switch {
	case r.URL.Path == "/" && post:
		s.publishJSON(rw, r)
	case name != "" && action == "" && post && len(topics) == 1:
		s.publish(rw, r, name)
	case r.Method == http.MethodGet && len(topics) == 1 && (action == "publish" || action == "send" || action == "trigger"):
		s.publish(rw, r, name)
	case r.Method == http.MethodGet && (contentTypes[action] != "" || action == "ws"):
		s.subscribe(rw, r, topics, action)
	default:
		s.refuse(rw, errNotFound)
	}
}

// deliver gives a draft its id and time, keeps it and tells subscribers, all
// in one order.
func (s *Server) deliver(d *draft) (Message, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now := s.opts.Now()
	m := d.msg
	m.ID, m.Event = cmp.Or(m.ID, newID()), eventMessage
	at := now
	if !d.due.IsZero() {
		at = d.due
	}
	m.Time = at.Unix()
	if d.keep {
		m.Expires = at.Add(s.opts.Cache).Unix()
		if err := s.store.add(m, m.Time, d.due.IsZero()); err != nil {
			return m, err
		}
	}
	if d.due.IsZero() {
		s.broadcast(m)
	}
	s.store.expire(now.Unix())
	return m, nil
}

// broadcast tells subscribers; the caller holds store.mu.
func (s *Server) broadcast(m Message) {
	for sub := range s.subscribers {
		if !sub.topics[m.Topic] || sub.slow {
			continue
		}
		select {
		case sub.messages <- m:
		default:
			sub.slow = true
			close(sub.lost)
		}
	}
}

// join starts a subscription with what is stored.
func (s *Server) join(topics []string, from since, scheduled bool) (*subscriber, []Message) {
	sub := &subscriber{topics: make(map[string]bool), messages: make(chan Message, queue), lost: make(chan struct{})}
	for _, topic := range topics {
		sub.topics[topic] = true
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.subscribers[sub] = true
	return sub, s.store.read(topics, from, scheduled, s.opts.Now().Unix())
}

func (s *Server) leave(sub *subscriber) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	delete(s.subscribers, sub)
}

// stored lists what is kept for topics.
func (s *Server) stored(topics []string, from since, scheduled bool) []Message {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.read(topics, from, scheduled, s.opts.Now().Unix())
}

func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return errInternal
}
