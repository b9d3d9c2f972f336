package mirror

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	batchLines = 256     // lines that are checked and stored together
	batchBytes = 1 << 20 // about as many bytes, if the lines are long
	readBuffer = 256 << 10
)

// line is one line of the input.
type line struct {
	number int64
	data   []byte // nil when it is longer than allowed
}

// lines reads JSON Lines in batches.
type lines struct {
	in     *bufio.Reader
	max    int   // bytes of one line
	offset int64 // behind the last line that was read
	number int64 // of the last line that was read
}

func newLines(in io.Reader, limit int, offset, number int64) *lines {
	return &lines{in: bufio.NewReaderSize(in, readBuffer), max: limit, offset: offset, number: number}
}

// batch reads the next lines that are not blank. At the end it returns io.EOF
// with the last of them.
func (l *lines) batch() (all []line, err error) {
	for size := 0; len(all) < batchLines && size < batchBytes && err == nil; {
		var data []byte
		before := l.offset
		data, err = l.line()
		if l.offset == before {
			break // nothing was left
		}
		l.number++
		if data == nil || len(bytes.TrimSpace(data)) > 0 {
			all = append(all, line{l.number, data})
			size += len(data)
		}
	}
	return all, err
}

// line reads one line without its end; nil when it is too long. With io.EOF it
// returns what stands behind the last end of a line.
func (l *lines) line() ([]byte, error) {
	data, long := []byte{}, false
	for {
		part, err := l.in.ReadSlice('\n')
		l.offset += int64(len(part))
		if long = long || len(data)+len(part) > l.max+1; !long {
			data = append(data, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long:
			return nil, err
		}
		return bytes.TrimSuffix(data, []byte("\n")), err
	}
}
