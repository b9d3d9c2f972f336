package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// MaxDraft bounds a draft file, in bytes.
const MaxDraft = 256 << 10

// ErrDraft is wrapped by every refusal of ParseDraft.
var ErrDraft = errors.New("agent: draft")

// Draft is what a person writes before a proposal. Its limits are those of the
// agreement made from it.
type Draft struct {
	Title     string   `yaml:"title"`
	Objective string   `yaml:"objective"`
	Must      []string `yaml:"must"`
	MustNot   []string `yaml:"must_not"`
	Deadline  string   `yaml:"deadline"` // a length such as 48h or 3d, or an RFC 3339 instant; optional
}

// draftProblem takes out of the library's texts what tells the writer of a
// draft nothing.
var draftProblem = strings.NewReplacer(" in type agent.Draft", "", "yaml: construct errors: ", "")

// ParseDraft reads one YAML document with the keys title, objective, must,
// must_not and deadline. An unknown key or a wrong type is an error that names
// its line.
func ParseDraft(data []byte) (*Draft, error) {
	if len(data) > MaxDraft {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrDraft, len(data), MaxDraft)
	}
	var d Draft
	if err := yaml.Load(data, &d, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDraft, draftProblem.Replace(err.Error()))
	}
	switch {
	case strings.TrimSpace(d.Title) == "":
		return nil, fmt.Errorf("%w: title is missing", ErrDraft)
	case strings.TrimSpace(d.Objective) == "":
		return nil, fmt.Errorf("%w: objective is missing", ErrDraft)
	}
	return &d, nil
}

// ParseDeadline reads a length from now ("48h", "3d") or an RFC 3339 instant.
func ParseDeadline(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	length, err := ParseLength(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("deadline %q is neither a length such as 48h nor an instant such as 2026-12-24T18:00:00Z", text)
	}
	return now.Add(length), nil
}

// ParseLength is time.ParseDuration with days: "90d", "1d12h", "30s".
func ParseLength(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("length %q: use a number and s, m, h or d", text)
	}
	length := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return length, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 {
		return 0, fmt.Errorf("length %q: use a number and s, m, h or d", text)
	}
	return length + more, nil
}
