package agreement

import (
	"fmt"
	"strings"
)

// Markdown is the exact rendering of the revision (docs/spec/agreement.md,
// "Markdown"). It is a function of the agreement alone and ends with one line
// feed. Text of the parties stands only in the first heading and on lines
// whose first mark is ">", escaped, so it can forge nothing.
func (a *Agreement) Markdown() string {
	var p page
	p.heading("#", escapeLine(a.Title))
	p.fields(a.identity())
	p.terms(a)
	p.heading("##", "Participants")
	for i, m := range a.Participants {
		p.item(i+1, m.describe(), m.Label)
	}
	return p.String()
}

// identity are the fields that both documents begin with.
func (a *Agreement) identity() []field {
	f := []field{
		{"Agreement", code(a.AgreementID)},
		{"Profile", code(a.Profile)},
		{"Venue", code(a.Venue)},
		{"Schema", code(a.Schema)},
		{"Revision", fmt.Sprint(a.Revision)},
	}
	if a.Supersedes != nil {
		f = append(f, field{"Supersedes", code(a.Supersedes.AgreementID) + ", digest " + code(a.Supersedes.Digest)})
	}
	strategy := code(a.Strategy.Name)
	if a.Strategy.Threshold != "" {
		strategy += ", threshold " + code(a.Strategy.Threshold)
	}
	return append(f, field{"Strategy", strategy}, field{"Deadline", a.Deadline.String()})
}

// describe is everything of a roster entry but its label.
func (m Participant) describe() string {
	s := code(m.ID) + ", " + m.Role + ", " + m.Kind
	if m.PubKey != "" {
		s += ", key " + code(m.PubKey)
	}
	if m.AddressCommitment != "" {
		s += ", address commitment " + code(m.AddressCommitment)
	}
	if m.Delegate != "" {
		s += ", delegate " + code(m.Delegate)
	}
	return s
}

// field is one line of the list under the title. Its value is Parley's own
// text or a code span of characters that need no escape.
type field struct{ name, value string }

func code(s string) string { return "`" + s + "`" }

// page collects blocks of Markdown, one empty line between two.
type page struct{ b strings.Builder }

func (p *page) String() string { return p.b.String() }

func (p *page) block(lines ...string) {
	if p.b.Len() > 0 {
		p.b.WriteByte('\n')
	}
	for _, line := range lines {
		p.b.WriteString(line)
		p.b.WriteByte('\n')
	}
}

func (p *page) heading(marks, text string) { p.block(marks + " " + text) }

func (p *page) fields(fields []field) {
	lines := make([]string, len(fields))
	for i, f := range fields {
		lines[i] = "- " + f.name + ": " + f.value
	}
	p.block(lines...)
}

func (p *page) terms(a *Agreement) {
	p.heading("##", "Objective")
	p.block(quote("", "", a.Objective)...)
	p.rules("Must", a.Must)
	p.rules("Must not", a.MustNot)
}

func (p *page) rules(name string, rules []string) {
	p.heading("##", name)
	if len(rules) == 0 {
		p.block("None.")
	}
	for i, rule := range rules {
		mark := fmt.Sprintf("%d. ", i+1)
		p.block(quote(mark, strings.Repeat(" ", len(mark)), rule)...)
	}
}

// item is a numbered line of Parley's with a text of the parties quoted below.
func (p *page) item(number int, line, text string) {
	mark := fmt.Sprintf("%d. ", number)
	indent := strings.Repeat(" ", len(mark))
	p.block(append([]string{mark + line}, quote(indent, indent, text)...)...)
}
