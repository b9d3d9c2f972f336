package receipt

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declaredCodes are the constants of type Code as the source has them.
func declaredCodes(t *testing.T) []Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []Code
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, Code(text))
		}
		return true
	})
	slices.Sort(codes)
	return codes
}

func TestCodes_are_all_explained(t *testing.T) {
	declared := declaredCodes(t)
	if diff := cmp.Diff(declared, Codes()); diff != "" {
		t.Error(diff)
	}
	if unique := slices.Compact(slices.Clone(declared)); len(unique) != len(declared) {
		t.Error("two constants are one code")
	}
	for _, code := range declared {
		e := code.Explain()
		if e.Status < 400 || e.Status > 599 || e.Category == "" || !strings.HasSuffix(e.NextAction, ".") {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if (Code("E_UNHEARD_OF").Explain() != Explanation{}) {
		t.Error("an unknown code is explained")
	}
}

func TestCodes_stand_in_the_specification_as_they_are(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/receipt.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, code := range Codes() {
		e := code.Explain()
		retry := "no"
		if e.Retry {
			retry = "yes"
		}
		want = append(want, fmt.Sprintf("| `%s` | %d | %s | %s | %s |", code, e.Status, e.Category, retry, e.NextAction))
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `E_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestErrors_are_one_bounded_line_with_a_code(t *testing.T) {
	err := fmt.Errorf("context: %w", refuse(CodeConstraint, "/a\n"+strings.Repeat("x", 1_000), "more than %d", 7))
	if CodeOf(err) != CodeConstraint || CodeOf(errors.New("x")) != "" || CodeOf(nil) != "" || CodeOf((*Error)(nil)) != "" {
		t.Error("the code is lost")
	}
	if text := err.Error(); len(text) > 200 || strings.Contains(text, "\n") || !strings.Contains(text, "E_CONSTRAINT_VIOLATION") || !strings.Contains(text, "more than 7") {
		t.Errorf("%q", text)
	}
	if text := refuse(CodeInvalidFormat, "", "").Error(); text != "receipt: E_INVALID_FORMAT" {
		t.Errorf("%q", text)
	}
}
