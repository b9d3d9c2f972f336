package ntfybridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleykit/parley/carrier"
)

const (
	maxSkipped = 4 << 20 // bytes of one line that is left out
	maxBad     = 64      // bad lines in a row
)

// errSilent means that a stream said nothing for too long.
var errSilent = errors.New("ntfybridge: the stream is silent")

// event is one line of a stream, or what is wrong with it.
type event struct {
	message
	dropped string // reason; "" for an event
}

// stream is the open answer to a subscription.
type stream struct {
	body  io.ReadCloser
	lines *bufio.Reader
	now   func() time.Time
	alive atomic.Int64 // Unix nanoseconds of the last bytes
	busy  atomic.Bool  // somebody else is waited for
	bad   int          // lines in a row
}

// open subscribes to topics of a server, after the message of an id or, when
// that is empty, from the oldest on. With poll the stream ends with what is
// stored.
func (c *Client) open(ctx context.Context, origin string, topics []string, after string, poll bool) (*stream, error) {
	query := url.Values{"since": {"all"}}
	if after != "" {
		query.Set("since", after)
	}
	if poll {
		query.Set("poll", "1")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/"+strings.Join(topics, ",")+"/json?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL", carrier.ErrPermanent)
	}
	response, err := c.do(origin, r)
	if err != nil {
		return nil, err
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-ndjson" {
		response.Body.Close()
		return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, errNonsense)
	}
	return newStream(response.Body, c.now), nil
}

func newStream(body io.ReadCloser, now func() time.Time) *stream {
	s := &stream{body: body, now: now}
	s.alive.Store(now().UnixNano())
	s.lines = bufio.NewReaderSize(watched{s}, 32<<10)
	return s
}

// watched notes when bytes come.
type watched struct{ s *stream }

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.s.body.Read(p)
	if n > 0 {
		w.s.alive.Store(w.s.now().UnixNano())
	}
	return n, err
}

// silent reports whether nothing came for longer than limit while somebody
// waited for it.
func (s *stream) silent(limit time.Duration) bool {
	return !s.busy.Load() && s.now().UnixNano()-s.alive.Load() > int64(limit)
}

// handling marks the time in which the next line is not waited for.
func (s *stream) handling(on bool) {
	s.alive.Store(s.now().UnixNano())
	s.busy.Store(on)
}

// next reads one event. What is wrong with a line is told in the event; too
// many of those in a row, and the end, are errors; io.EOF is an end without
// harm.
func (s *stream) next() (event, error) {
	line, long, err := s.line()
	if err != nil {
		return event{}, err
	}
	e := event{}
	switch {
	case long:
		e.dropped = droppedOversized
	case json.Unmarshal(line, &e.message) != nil || e.Event == "":
		e.dropped = droppedLine
	case e.Event == "message" && !idPattern.MatchString(e.ID):
		e.dropped = droppedLine
	}
	if e.dropped == "" {
		s.bad = 0
	} else if s.bad++; s.bad > maxBad {
		return e, errNonsense
	}
	return e, nil
}

// line reads up to the next line end. Of a line that is too long nothing is
// kept.
func (s *stream) line() (line []byte, long bool, err error) {
	var size int
	for {
		part, err := s.lines.ReadSlice('\n')
		size += len(part)
		switch {
		case size > maxSkipped:
			return nil, true, errNonsense
		case size > maxLine:
			line = nil
		default:
			line = append(line, part...)
		}
		if err == nil {
			return bytes.TrimSpace(line), size > maxLine, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, false, err
		}
	}
}
