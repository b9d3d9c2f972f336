package ntfyserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"sync"
	"time"
)

// row is a kept message. Rows are numbered in the order they came.
type row struct {
	Number int64   `json:"n"`
	Due    int64   `json:"due"` // Unix seconds: when it is delivered
	Msg    Message `json:"msg"`
	sent   bool
}

// store keeps messages until they expire, in memory and, if it has one, in a
// file of JSON lines.
type store struct {
	mu     sync.Mutex
	max    int
	rows   []*row            // in order
	byID   map[string]*row   // of rows
	topics map[string][]*row // in order
	number int64
	file   *os.File
}

// openStore reads the file, if there is to be one, without what has expired.
func openStore(path string, limit int, now time.Time) (*store, error) {
	s := &store{max: limit, byID: make(map[string]*row), topics: make(map[string][]*row)}
	if path == "" {
		return s, nil
	}
	if err := s.load(path, now); err != nil {
		return nil, fmt.Errorf("ntfyserver: reading the messages: %w", err)
	}
	if err := s.rewrite(path); err != nil {
		return nil, fmt.Errorf("ntfyserver: writing the messages: %w", err)
	}
	return s, nil
}

func (s *store) load(path string, now time.Time) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := new(row)
		if json.Unmarshal(lines.Bytes(), r) != nil {
			continue // a line that a crash cut short
		}
		s.number = max(s.number, r.Number)
		if r.Msg.Expires > now.Unix() {
			r.sent = r.Due <= now.Unix()
			s.keep(r)
		}
	}
	return lines.Err()
}

// rewrite leaves in the file what is kept, and goes on with it.
func (s *store) rewrite(path string) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for _, r := range s.rows {
		if err := json.NewEncoder(file).Encode(r); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := errors.Join(file.Sync(), os.Rename(path+".new", path)); err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = file
	return nil
}

// keep adds a row; the caller holds mu or has the store to itself.
func (s *store) keep(r *row) {
	s.rows = append(s.rows, r)
	s.byID[r.Msg.ID] = r
	s.topics[r.Msg.Topic] = append(s.topics[r.Msg.Topic], r)
	for len(s.rows) > s.max {
		s.forget()
	}
}

// forget drops the oldest row; the caller holds mu.
func (s *store) forget() {
	oldest := s.rows[0]
	s.rows = s.rows[1:]
	delete(s.byID, oldest.Msg.ID)
	if rest := s.topics[oldest.Msg.Topic][1:]; len(rest) > 0 {
		s.topics[oldest.Msg.Topic] = rest
	} else {
		delete(s.topics, oldest.Msg.Topic)
	}
}

// add keeps a message that is due at a time; the caller holds mu.
func (s *store) add(m Message, due int64, sent bool) error {
	s.number++
	r := &row{Number: s.number, Due: due, Msg: m, sent: sent}
	if s.file != nil {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := s.file.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	s.keep(r)
	return nil
}

// expire drops what is too old; the caller holds mu. Rows expire in order,
// except delayed ones, which hold up those behind them.
func (s *store) expire(now int64) {
	for len(s.rows) > 0 && s.rows[0].Msg.Expires <= now {
		s.forget()
	}
}

// since is where a subscriber goes on.
type since struct {
	none, latest bool
	id           string
	unix         int64
}

// read lists what topics hold after a position, oldest first; the caller holds
// mu. An id that is not kept gives everything.
func (s *store) read(topics []string, from since, scheduled bool, now int64) []Message {
	if from.none {
		return nil
	}
	var after int64
	if known := s.byID[from.id]; known != nil {
		after = known.Number
	}
	var found []*row
	for _, topic := range topics {
		rows := s.topics[topic]
		rows = rows[sort.Search(len(rows), func(i int) bool { return rows[i].Number > after }):]
		for _, r := range rows {
			if (scheduled || r.sent) && r.Msg.Time >= from.unix && r.Msg.Expires > now {
				found = append(found, r)
			}
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Number < found[j].Number })
	if from.latest && len(found) > 1 {
		found = found[len(found)-1:]
	}
	all := make([]Message, len(found))
	for i, r := range found {
		all[i] = r.Msg
	}
	return all
}

// due takes out the delayed messages whose time has come; the caller holds mu.
func (s *store) due(now int64) []Message {
	var all []Message
	for _, r := range s.rows {
		if !r.sent && r.Due <= now {
			r.sent = true
			all = append(all, r.Msg)
		}
	}
	return all
}

func (s *store) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
