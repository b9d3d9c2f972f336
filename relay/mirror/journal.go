package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
)

// JournalSuffix is what the name of a journal has behind that of its input.
const JournalSuffix = ".progress"

const (
	journalPause = time.Second // between two writings of the file
	tailBytes    = 4 << 10     // before the offset, by which the input is known again
	maxJournal   = 1 << 20
)

// Journal is a small file beside an input that says how far its import came.
// It is there while an import runs and after one that was cut off.
type Journal struct {
	path  string
	input *os.File
	state journalState
	last  time.Time // of the last writing
}

// journalState is the content of the file.
type journalState struct {
	Target  string  `json:"target"` // where the events go
	Offset  int64   `json:"offset"` // behind the last line that is done
	Line    int64   `json:"line"`   // its number
	Tail    string  `json:"tail"`   // SHA-256 of the bytes before Offset
	Summary Summary `json:"summary"`
}

// OpenJournal finds out whether an earlier import of the input to the same
// target was cut off, and sets the input to where it ended. A journal of
// another target or of another content does not count: then the import begins
// at the start.
func OpenJournal(input *os.File, target string) (*Journal, error) {
	j := &Journal{path: input.Name() + JournalSuffix, input: input, state: journalState{Target: target}}
	earlier, err := readJournal(j.path)
	if err != nil {
		return nil, err
	}
	if earlier != nil && earlier.Target == target && earlier.Offset > 0 {
		if tail, err := tailOf(input, earlier.Offset); err == nil && tail == earlier.Tail {
			j.state = *earlier
		}
	}
	if _, err := input.Seek(j.state.Offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("mirror: going on in the input: %w", err)
	}
	return j, nil
}

// Offset is the number of bytes that need not be read again.
func (j *Journal) Offset() int64 { return j.state.Offset }

// readJournal returns nil when there is no journal, or none that can be read.
func readJournal(path string) (*journalState, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mirror: reading the journal: %w", err)
	}
	defer file.Close()
	var state journalState
	if json.NewDecoder(io.LimitReader(file, maxJournal)).Decode(&state) != nil {
		return nil, nil
	}
	return &state, nil
}

// tailOf is the digest of what stands before an offset.
func tailOf(input *os.File, offset int64) (string, error) {
	tail := make([]byte, min(offset, tailBytes))
	if _, err := input.ReadAt(tail, offset-int64(len(tail))); err != nil {
		return "", fmt.Errorf("mirror: reading the input: %w", err)
	}
	return canonical.Digest(tail), nil
}

// note remembers how far the import is, on the disk now and then.
func (j *Journal) note(offset, line int64, s *Summary) error {
	j.state.Offset, j.state.Line, j.state.Summary = offset, line, s.clone()
	if now := time.Now(); now.Sub(j.last) >= journalPause {
		j.last = now
		return j.write()
	}
	return nil
}

// end removes the file of an import that is complete, and writes it for one
// that is not.
func (j *Journal) end(complete bool) error {
	if !complete {
		return j.write()
	}
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mirror: removing the journal: %w", err)
	}
	return nil
}

// write replaces the file as a whole.
func (j *Journal) write() (err error) {
	if j.state.Offset == 0 {
		return nil
	}
	if j.state.Tail, err = tailOf(j.input, j.state.Offset); err != nil {
		return err
	}
	data, err := json.Marshal(j.state)
	if err != nil {
		return fmt.Errorf("mirror: writing the journal: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+"-*")
	if err != nil {
		return fmt.Errorf("mirror: writing the journal: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), j.path)
	}
	if err != nil {
		return fmt.Errorf("mirror: writing the journal: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
