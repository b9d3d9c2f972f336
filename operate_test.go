package parley

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each command of the operator's guides is run by a script of the tests: the
// program with its verbs, whatever its flags and arguments are.
func TestCommandsOfTheOperatorsGuidesArePlayed(t *testing.T) {
	played := map[string]bool{}
	for _, pattern := range []string{"testdata/demo/*.txtar", "cmd/*/testdata/*.txtar"} {
		for _, path := range glob(t, pattern) {
			for _, line := range commands(t, path, `(?m)(?:^|\s)exec (parleyd? .*)$`) {
				for words := verbs(line); len(words) > 0; words = words[:len(words)-1] {
					played[strings.Join(words, " ")] = true
				}
			}
		}
	}
	for _, path := range glob(t, "docs/operate-*.md") {
		for _, line := range commands(t, path, "(?m)(?:^\\$ |^    |`)(parleyd? [^`\n]*)") {
			if command := strings.Join(verbs(line), " "); !played[command] {
				t.Errorf("%s: no script runs %q (%s)", path, command, line)
			}
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: nothing there (%v)", pattern, err)
	}
	return paths
}

// commands are what the pattern captures in a file.
func commands(t *testing.T, path, pattern string) (found []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(data), -1) {
		found = append(found, match[1])
	}
	return found
}

// verbs are the program and its verbs: words without anything that looks like a
// flag, a value or a file.
func verbs(line string) []string {
	return slices.DeleteFunc(strings.Fields(line), func(word string) bool {
		return !regexp.MustCompile(`^[a-z]+$`).MatchString(word)
	})
}
