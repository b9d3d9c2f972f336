package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/parleykit/parley/agent"
)

// lockPatience is how long a command waits for another one to end.
const lockPatience = 10 * time.Second

// caller runs one operation: a daemon's client, or this process itself.
type caller interface {
	Call(ctx context.Context, operation string, request, response any) error
	Stream(ctx context.Context, operation string, request any, emit func(line []byte) error) error
	Close() error
}

// session is what every command gets.
type session struct {
	ctx    context.Context
	flags  *globals
	in     io.Reader
	out    *printer // answers
	err    *printer // progress and errors
	caller caller
}

func newSession(ctx context.Context, flags *globals, in io.Reader, out, errOut io.Writer) *session {
	return &session{ctx: ctx, flags: flags, in: in, out: newPrinter(out), err: newPrinter(errOut)}
}

// report prints a failure and returns the exit code.
func (s *session) report(err error) int {
	if s.caller != nil {
		if closing := s.caller.Close(); err == nil {
			err = closing
		}
	}
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errFindings) { // told already
		return exitRefused
	}
	if errors.Is(err, errUndetermined) { // told already
		return exitNothing
	}
	if errors.Is(err, context.Canceled) && s.ctx.Err() != nil {
		s.err.println("parley: interrupted")
		return exitNothing
	}
	e, _ := errors.AsType[*agent.Error](err)
	if s.flags.JSON {
		failure := map[string]string{"error": err.Error()}
		if e != nil {
			failure["code"], failure["hint"] = string(e.Code), e.Hint
		}
		_ = s.json(failure)
		return exitCode(err)
	}
	s.err.printf("%s %s\n", s.err.paint(red, "parley:"), plain(err.Error(), true))
	if e != nil && e.Hint != "" {
		s.err.printf("  %s\n", line(e.Hint))
	}
	return exitCode(err)
}

// json prints one value. Text of others stays harmless on a terminal: what the
// encoder leaves of control and format characters is escaped as JSON allows.
func (s *session) json(v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := s.out.out.Write(escapeJSON(text.Bytes()))
	return err
}

// escapeJSON writes every character that a terminal could obey as \uXXXX, in
// two halves beyond the basic plane (RFC 8259, section 7).
func escapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == utf8.RuneError || !unsafeRune(r, true):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// call runs one operation where it can: in the daemon when one is up, else
// here.
func (s *session) call(operation string, request, response any) error {
	if s.caller == nil {
		if err := s.connect(false); err != nil {
			return err
		}
	}
	return s.caller.Call(s.ctx, operation, request, response)
}

// stream runs one operation that answers line by line.
func (s *session) stream(operation string, request any, emit func(line []byte) error) error {
	if s.caller == nil {
		if err := s.connect(false); err != nil {
			return err
		}
	}
	return s.caller.Stream(s.ctx, operation, request, emit)
}

// connect finds the daemon or opens the home. Another command that holds the
// home is waited for; a daemon that is just starting is found on a later try.
func (s *session) connect(create bool) error {
	home, err := s.home()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(lockPatience)
	for told := false; ; {
		client, err := agent.Dial(s.ctx, home)
		if err == nil {
			s.caller = client
			return nil
		}
		if !errors.Is(err, agent.ErrNoDaemon) {
			return err
		}
		local, err := agent.OpenLocal(s.ctx, agent.Options{Home: home, PassphraseFile: s.flags.PassphraseFile, Create: create, Logger: s.logger(slog.LevelError)})
		if err == nil {
			warned := false // a command syncs twice; one warning is enough
			local.Warn = func(text string) {
				if !warned {
					s.note("%s", text)
				}
				warned = true
			}
			s.caller = local
			return nil
		}
		if !errors.Is(err, agent.ErrLocked) || time.Now().After(deadline) {
			return err
		}
		if !told {
			s.note("waiting for another command in %s", home)
			told = true
		}
		if err := pause(s.ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *session) home() (string, error) {
	if s.flags.Home != "" {
		return s.flags.Home, nil
	}
	return agent.DefaultHome()
}

// note says on standard error what is going on.
func (s *session) note(format string, args ...any) {
	if s.flags.JSON {
		return
	}
	s.err.println(s.err.paint(dim, line(fmt.Sprintf(format, args...))))
}

// waiting says what a command waits for, on a terminal only.
func (s *session) waiting(what string, d time.Duration) {
	if d > 0 && isTerminal(s.err.out) {
		s.note("waiting up to %s for %s …", span(d), what)
	}
}

// logger writes what is at least as bad as level to standard error.
func (s *session) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.err.out, &slog.HandlerOptions{Level: level}))
}

// seconds is a length for wait_seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// print shows v as JSON where that was asked for, else calls human.
func (s *session) print(v any, human func(p *printer)) error {
	if s.flags.JSON {
		return s.json(v)
	}
	human(s.out)
	return nil
}

// openAgent opens an agent that stays up, once a command that holds its home
// has ended. A daemon that is up already is not waited for.
func (s *session) openAgent(opts agent.Options) (*agent.Agent, error) {
	for deadline := time.Now().Add(lockPatience); ; {
		a, err := agent.New(s.ctx, opts)
		if !errors.Is(err, agent.ErrLocked) || time.Now().After(deadline) {
			return a, err
		}
		if client, dialing := agent.Dial(s.ctx, opts.Home); dialing == nil {
			return nil, errors.Join(err, client.Close())
		}
		if err := pause(s.ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
