package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// run keeps the program running until ctx ends; after it ended by itself it is
// started again, later each time.
func (p *plugin) run(ctx context.Context) {
	if p == nil {
		return
	}
	pause := pluginPause
	for {
		begin := time.Now()
		err := p.serve(ctx)
		if ctx.Err() != nil {
			p.refuseUntil(ctx.Done())
			return
		}
		if time.Since(begin) > pluginMaxPause {
			pause = pluginPause
		}
		p.relay.log.ErrorContext(ctx, "policy plugin", "err", err, "again_in", pause)
		paused, over := context.WithTimeout(ctx, pause)
		p.refuseUntil(paused.Done())
		over()
		pause = min(2*pause, pluginMaxPause)
		p.relay.metrics.pluginRestarts.Inc()
	}
}

// refuseUntil refuses all questions until done is closed, those that wait at
// that moment included.
func (p *plugin) refuseUntil(done <-chan struct{}) {
	for {
		select {
		case q := <-p.questions:
			q.settle(pluginFailed)
		case <-done:
			for {
				select {
				case q := <-p.questions:
					q.settle(pluginFailed)
				default:
					return
				}
			}
		}
	}
}

// conversation is one run of the program.
type conversation struct {
	mu      sync.Mutex
	waiting map[string][]*question // by id, oldest first
}

// serve runs the program once and says why it ended.
func (p *plugin) serve(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	cmd := exec.CommandContext(ctx, p.opts.Command[0], p.opts.Command[1:]...) //nolint:gosec // The operator's own program.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	cmd.Stderr = &pluginLog{log: p.relay.log, limit: rate.NewLimiter(10, 20)}
	cmd.WaitDelay = time.Second // for a child of it that keeps the pipes
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	c := &conversation{waiting: map[string][]*question{}}
	var parts sync.WaitGroup
	parts.Go(func() { end(p.write(ctx, c, in)) })
	parts.Go(func() { p.watch(ctx, c, end) })
	parts.Go(func() { end(c.read(out)) })
	<-ctx.Done()
	in.Close()  // it unblocks the writer
	out.Close() // and the reader, where a child of the program holds the pipe
	parts.Wait()
	ended := cmd.Wait()
	c.fail()
	return errors.Join(context.Cause(ctx), ended)
}

// write passes questions on.
func (p *plugin) write(ctx context.Context, c *conversation, in io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-p.questions:
			if time.Since(q.asked) > p.opts.Timeout { // nobody waits for it any more
				continue
			}
			c.mu.Lock()
			c.waiting[q.id] = append(c.waiting[q.id], q)
			c.mu.Unlock()
			if _, err := in.Write(q.line); err != nil {
				return fmt.Errorf("writing to it: %w", err)
			}
		}
	}
}

// watch ends a program that does not answer in time.
func (p *plugin) watch(ctx context.Context, c *conversation, end context.CancelCauseFunc) {
	ticker := time.NewTicker(p.opts.Timeout / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		late := false
		for _, list := range c.waiting {
			late = late || time.Since(list[0].asked) > p.opts.Timeout
		}
		c.mu.Unlock()
		if late {
			end(errors.New("it did not answer in time and is ended"))
			return
		}
	}
}

// read settles questions by the program's answers.
func (c *conversation) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 4096), maxPluginLine)
	for lines.Scan() {
		id, v, err := parseAnswer(lines.Bytes())
		if err != nil {
			return err
		}
		q := c.take(id)
		if q == nil {
			return errors.New("it answered about an event that it was not asked about")
		}
		q.settle(v)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading from it: %w", err)
	}
	return errors.New("it closed its output")
}

// take removes the oldest question about the event, or returns nil.
func (c *conversation) take(id string) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.waiting[id]
	if len(list) == 0 {
		return nil
	}
	if c.waiting[id] = list[1:]; len(list) == 1 {
		delete(c.waiting, id)
	}
	return list[0]
}

// fail settles what was not answered.
func (c *conversation) fail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.waiting {
		for _, q := range list {
			q.settle(pluginFailed)
		}
	}
}

// pluginLog logs what the program writes to its standard error, not more than
// the limit lets through.
type pluginLog struct {
	log   *slog.Logger
	limit *rate.Limiter
}

// Write implements io.Writer.
func (l *pluginLog) Write(data []byte) (int, error) {
	if l.limit.Allow() {
		l.log.Warn("policy plugin says", "text", strings.TrimSpace(string(data[:min(len(data), 1024)])))
	}
	return len(data), nil
}
