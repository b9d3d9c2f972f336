package negentropy

import (
	"fmt"
	"strings"

	upstream "github.com/nbd-wtf/go-nostr/nip77/negentropy"
)

// MinMessage is the smallest size, in bytes before hex, that messages may be
// bounded to.
const MinMessage = 4096

// MaxMessage is the largest one: a message is twice as long in hex.
const MaxMessage = 1 << 20

// Server answers the messages of one client about a sealed set.
type Server struct{ engine *upstream.Negentropy }

// NewServer makes a server whose answers have at most maxBytes bytes before
// hex; it is moved into MinMessage to MaxMessage.
func NewServer(set *Set, maxBytes int) *Server {
	return &Server{upstream.New(shelf(*set), min(max(maxBytes, MinMessage), MaxMessage))}
}

// Answer handles one message in hex and returns the answer in hex. The error
// wraps ErrMessage; the server can go on after it.
func (s *Server) Answer(message string) (string, error) {
	if err := check(message); err != nil {
		return "", err
	}
	answer, err := s.engine.Reconcile(strings.ToLower(message))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return answer, nil
}

// Client finds the difference between a sealed set and that of a server.
type Client struct {
	engine *upstream.Negentropy
	size   int
}

// NewClient makes a client whose messages have at most maxBytes bytes before
// hex; it is moved into MinMessage to MaxMessage.
func NewClient(set *Set, maxBytes int) *Client {
	return &Client{upstream.New(shelf(*set), min(max(maxBytes, MinMessage), MaxMessage)), set.Size()}
}

// Open returns the first message in hex.
func (c *Client) Open() string { return c.engine.Start() }

// Reconcile handles one message in hex. It returns what to send next, "" at the
// end, and the ids found by this message: those that only the client has and
// those that only the server has. An id may come again in a later round. The
// error wraps ErrMessage.
func (c *Client) Reconcile(message string) (next string, have, need []string, err error) {
	if err := check(message); err != nil {
		return "", nil, nil, err
	}
	// With room for everything one message can name, nothing waits for a reader.
	found, lacking := make(chan string, c.size), make(chan string, len(message)/(2*idSize))
	c.engine.Haves, c.engine.HaveNots = found, lacking
	next, err = c.engine.Reconcile(strings.ToLower(message))
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return next, take(found), take(lacking), nil
}

func take(ids <-chan string) (out []string) {
	for range len(ids) {
		out = append(out, <-ids)
	}
	return out
}
