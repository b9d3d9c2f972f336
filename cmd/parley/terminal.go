package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// plain makes text of others safe for a terminal: every control character
// (C0, C1, DEL), every bidirectional control and every other invisible format
// character is shown as its code instead of obeyed. Line feeds and tabs stay
// when lines is true.
func plain(s string, lines bool) string {
	if strings.IndexFunc(s, func(r rune) bool { return unsafeRune(r, lines) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafeRune(r, lines):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unsafeRune(r rune, lines bool) bool {
	switch {
	case r == '\n' || r == '\t':
		return !lines
	case r == utf8.RuneError, r == '\u2028', r == '\u2029':
		return true
	}
	// Cc holds C0, DEL and C1; Cf holds the bidi controls, zero-width
	// characters and tags.
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
}

// line is plain for one line.
func line(s string) string { return plain(s, false) }

// isTerminal reports whether f is a character device that is not the null
// device.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// Styles of paint (ECMA-48 SGR).
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

// printer writes for people.
type printer struct {
	out   io.Writer
	color bool
}

// newPrinter paints only on a terminal and not under NO_COLOR
// (https://no-color.org).
func newPrinter(out io.Writer) *printer {
	return &printer{out: out, color: isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *printer) println(text string) { fmt.Fprintln(p.out, text) }

// paint wraps text in a style where colours are wanted.
func (p *printer) paint(style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// fields prints pairs of name and value in two columns; empty values are left
// out.
func (p *printer) fields(pairs ...string) {
	width := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			p.printf("%-*s  %s\n", width, pairs[i], pairs[i+1])
		}
	}
}

// table prints rows under a header. Cells are made plain here.
func (p *printer) table(header []string, rows [][]string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = line(cell)
			if cell == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
}

// span says a length the way people do: "40 s", "3 h", "12 days".
func span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second)/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
	default:
		return fmt.Sprintf("%d days", int(d.Round(time.Hour)/(24*time.Hour)))
	}
}

// when says an instant and how far away it is.
func when(t, now time.Time) string {
	text := t.UTC().Format(time.RFC3339)
	if t.After(now) {
		return text + " (in " + span(t.Sub(now)) + ")"
	}
	return text + " (" + span(now.Sub(t)) + " ago)"
}
