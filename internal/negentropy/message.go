package negentropy

import (
	"encoding/hex"
	"errors"
	"fmt"

	upstream "github.com/nbd-wtf/go-nostr/nip77/negentropy"
)

// ErrMessage is wrapped by every refusal of a peer's message.
var ErrMessage = errors.New("negentropy: message is not well-formed")

// version is the first byte of every message: protocol version 1.
const version = 0x61

// check reads a message in hex: the version, then ranges of a bound (time and
// the beginning of an id), a mode and what that needs. A message of another
// version is not read further.
func check(text string) error {
	data, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("%w: not hex", ErrMessage)
	}
	if len(data) == 0 {
		return fmt.Errorf("%w: empty", ErrMessage)
	}
	if data[0] != version {
		return nil
	}
	m := message{data[1:], 0}
	for last := false; len(m.rest) > 0; {
		if last {
			return fmt.Errorf("%w: a range follows the last one", ErrMessage)
		}
		if last, err = m.readRange(); err != nil {
			return err
		}
	}
	return nil
}

// message is what is left to read of one.
type message struct {
	rest []byte
	time int64
}

// readRange reads one range and reports whether its bound is the infinite one.
func (m *message) readRange() (last bool, err error) {
	if last, err = m.readBound(); err != nil {
		return false, err
	}
	mode, err := m.number()
	if err != nil {
		return false, err
	}
	switch mode {
	case int(upstream.SkipMode):
		return last, nil
	case int(upstream.FingerprintMode):
		return last, m.skip(upstream.FingerprintSize)
	case int(upstream.IdListMode):
		n, err := m.number()
		if err != nil || n > len(m.rest)/idSize {
			return false, fmt.Errorf("%w: more ids are announced than come", ErrMessage)
		}
		return last, m.skip(n * idSize)
	}
	return false, fmt.Errorf("%w: unknown mode", ErrMessage)
}

func (m *message) readBound() (infinite bool, err error) {
	delta, err := m.number()
	if err != nil {
		return false, err
	}
	infinite = delta == 0
	if m.time += int64(delta); m.time > MaxTime {
		return false, fmt.Errorf("%w: a time is out of range", ErrMessage)
	}
	size, err := m.number()
	if err != nil || size > idSize {
		return false, fmt.Errorf("%w: a bound is longer than an id", ErrMessage)
	}
	return infinite, m.skip(size)
}

// number reads a number below 2^53, seven bits a byte, the high ones first.
func (m *message) number() (n int, err error) {
	for i, b := range m.rest {
		n = n<<7 | int(b&0x7f)
		if n >= MaxTime {
			break
		}
		if b&0x80 == 0 {
			m.rest = m.rest[i+1:]
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: a number has no end or is out of range", ErrMessage)
}

func (m *message) skip(n int) error {
	if n > len(m.rest) {
		return fmt.Errorf("%w: it ends early", ErrMessage)
	}
	m.rest = m.rest[n:]
	return nil
}
