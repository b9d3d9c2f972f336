package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxFile bounds the file in bytes, maxMistakes how many are told at once.
const (
	maxFile     = 1 << 20
	maxMistakes = 20
)

// Load reads and validates the file at path. Keys that the file does not name
// keep their defaults. The error names every mistake with its line or key.
func Load(path string) (*Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return c, nil
}

// Parse is Load without the file.
func Parse(data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	c := Default()
	if !blank(data) {
		if err := yaml.Load(data, &c, yaml.WithKnownFields()); err != nil {
			return nil, explain(err)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// blank reports whether a file has nothing but comments.
func blank(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// explain turns the library's errors into one line each, in words of the file
// and not of the program.
func explain(err error) error {
	var many *yaml.LoadErrors
	if errors.As(err, &many) {
		var lines []error
		for _, one := range many.Errors[:min(len(many.Errors), maxMistakes)] {
			lines = append(lines, explainOne(one))
		}
		return errors.Join(lines...)
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return explainOne(one)
	}
	return err
}

var (
	unknownKey = regexp.MustCompile(`^field (?s:(.*)) not found in type \S+$`)
	wrongType  = regexp.MustCompile("^cannot construct (!\\S*)(?: `((?s:.*))`)? into (.+)$")
)

func explainOne(e *yaml.LoadError) error {
	message := strings.TrimPrefix(e.Message, "yaml: ")
	if match := unknownKey.FindStringSubmatch(message); match != nil {
		message = fmt.Sprintf("unknown key %.60q", match[1])
	}
	if match := wrongType.FindStringSubmatch(message); match != nil {
		message = "want " + typeName(match[3]) + ", got " + typeName(match[1])
		if match[2] != "" {
			message += fmt.Sprintf(" %q", match[2])
		}
	}
	if e.Mark.Line == 0 {
		return errors.New(message)
	}
	return fmt.Errorf("line %d: %s", e.Mark.Line, message)
}

// typeName puts Go types and YAML tags in plain words.
func typeName(name string) string {
	switch {
	case name == "bool" || name == "!!bool":
		return "true or false"
	case name == "!!seq" || strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "int") || name == "!!int":
		return "a whole number"
	case name == "!!float":
		return "a number"
	case name == "string" || name == "!!str" || name == "config.Policy" || strings.HasSuffix(name, "(TextUnmarshaler)"):
		return "text"
	case name == "!!map" || strings.HasPrefix(name, "config."):
		return "a section"
	}
	return "something else"
}
