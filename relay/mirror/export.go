package mirror

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Exported counts what Export wrote.
type Exported struct {
	Events int64
	Bytes  int64
	// Incomplete counts the times that the source gave ErrIncomplete.
	Incomplete int
}

// progressEvery is the number of events between two reports.
const progressEvery = 500

// Export writes events as JSON Lines. It returns what was written, also with
// an error. progress is told now and then how much that is; nil for nobody.
func Export(out io.Writer, events iter.Seq2[Event, error], progress func(events, bytes int64)) (done Exported, err error) {
	w := bufio.NewWriterSize(out, readBuffer)
	defer func() { err = errors.Join(err, w.Flush()) }()
	for ev, err := range events {
		if errors.Is(err, ErrIncomplete) {
			done.Incomplete++
			continue
		}
		if err != nil {
			return done, err
		}
		_, err := w.Write(ev.JSON)
		if err = errors.Join(err, w.WriteByte('\n')); err != nil {
			return done, fmt.Errorf("mirror: writing events: %w", err)
		}
		done.Events++
		done.Bytes += int64(len(ev.JSON)) + 1
		if progress != nil && done.Events%progressEvery == 0 {
			progress(done.Events, done.Bytes)
		}
	}
	return done, nil
}
