package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// DefaultMaxEvent is the largest event that is read from a file, in bytes.
const DefaultMaxEvent = 1 << 20

// ImportOptions configures Import. Input and Target are required.
type ImportOptions struct {
	Input    io.Reader
	Target   Target
	MaxEvent int      // bytes of one line; 0 is DefaultMaxEvent
	Workers  int      // that check events; 0 is one for each processor
	Journal  *Journal // where an earlier import of the same input ended; nil begins at the start

	// Progress is told how far the import is, after every batch: the bytes
	// that are done and what became of the events. Nil for nobody.
	Progress func(done int64, s Summary)
	// Refused is told about each event that is refused. Nil for nobody.
	Refused func(line int64, o Outcome)
}

// batch is some lines on their way through the checks into the target.
type batch struct {
	lines    []line
	events   []Event   // those that go to the target
	outcomes []Outcome // of each line; "" for those that go to the target
	end      int64     // offset behind the batch
	number   int64     // of its last line
	read     error     // of what comes after the lines
	failed   error     // of the checks
	checked  chan struct{}
}

// Import checks the events of a file and gives them to a target, in the order
// of the file. It returns what became of them, also with an error; then what
// was counted is done, and Journal says where to go on.
func Import(ctx context.Context, o ImportOptions) (Summary, error) {
	if o.MaxEvent <= 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	i := &importer{ImportOptions: o, work: make(chan *batch), order: make(chan *batch, 2*o.Workers)}
	if o.Journal != nil {
		i.sum = o.Journal.state.Summary.clone()
	}
	ctx, cancel := context.WithCancel(ctx)
	go i.read(ctx) // it may hang in an Input that does not end; nothing waits for it
	var running sync.WaitGroup
	for range o.Workers {
		running.Go(func() { i.check(ctx) })
	}
	err := i.put(ctx)
	cancel()
	running.Wait()
	if o.Journal != nil {
		err = errors.Join(err, o.Journal.end(err == nil))
	}
	return i.sum.clone(), err
}

// importer is one Import.
type importer struct {
	ImportOptions
	work  chan *batch // to be checked
	order chan *batch // all of them, in the order of the file
	sum   Summary     // of put alone
}

// read cuts the input into batches.
func (i *importer) read(ctx context.Context) {
	defer close(i.order)
	defer close(i.work)
	var offset, number int64
	if i.Journal != nil {
		offset, number = i.Journal.state.Offset, i.Journal.state.Line
	}
	source := newLines(i.Input, i.MaxEvent, offset, number)
	for {
		b := &batch{checked: make(chan struct{})}
		var err error
		b.lines, err = source.batch()
		b.end, b.number = source.offset, source.number
		if err != nil && !errors.Is(err, io.EOF) {
			b.read = fmt.Errorf("mirror: reading events: %w", err)
		}
		for _, to := range []chan *batch{i.order, i.work} {
			select {
			case to <- b:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// check takes batches through the checks that need no target.
func (i *importer) check(ctx context.Context) {
	for {
		var b *batch
		select {
		case b = <-i.work:
		case <-ctx.Done():
		}
		if b == nil {
			return
		}
		b.outcomes = make([]Outcome, len(b.lines))
		for n, l := range b.lines {
			if ctx.Err() != nil {
				break
			}
			ev, o, err := examine(ctx, l.data, i.Target)
			if err != nil {
				b.failed = err
				break
			}
			if b.outcomes[n] = o; o == "" {
				b.events = append(b.events, ev)
			}
		}
		close(b.checked)
	}
}

// examine checks one event, the cheap things first. An outcome of "" says that
// only the target can tell.
func examine(ctx context.Context, data []byte, to Target) (Event, Outcome, error) {
	ev, err := parse(data)
	if err != nil {
		return ev, Malformed, nil
	}
	if !ev.CheckID() {
		return ev, WrongID, nil
	}
	if known, ok := to.(Checker); ok {
		if o, err := known.Check(ctx, ev); o != "" || err != nil {
			return ev, o, err
		}
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok {
		return ev, WrongSig, nil
	}
	return ev, "", nil
}

// put gives the batches to the target, in their order.
func (i *importer) put(ctx context.Context) error {
	for {
		var b *batch
		select {
		case b = <-i.order:
		case <-ctx.Done():
		}
		if b == nil {
			return context.Cause(ctx)
		}
		select {
		case <-b.checked:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := i.putBatch(ctx, b); err != nil {
			return err
		}
	}
}

// putBatch stores one batch and counts it; what was read before an error of
// the input counts too.
func (i *importer) putBatch(ctx context.Context, b *batch) error {
	if b.failed != nil {
		return b.failed
	}
	var outcomes []Outcome
	if len(b.events) > 0 {
		var err error
		if outcomes, err = i.Target.Put(ctx, b.events); err != nil {
			return err
		}
	}
	for n, o := range b.outcomes {
		if o == "" {
			o, outcomes = outcomes[0], outcomes[1:]
		}
		i.sum.add(o)
		if i.Refused != nil && !o.settled() {
			i.Refused(b.lines[n].number, o)
		}
	}
	if i.Progress != nil {
		i.Progress(b.end, i.sum.clone())
	}
	if i.Journal != nil {
		if err := i.Journal.note(b.end, b.number, &i.sum); err != nil {
			return err
		}
	}
	return b.read
}
