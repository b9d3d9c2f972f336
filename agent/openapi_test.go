package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/parleykit/parley/protocol/canonical"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The document has one origin: the table of operations, the Go types of their
// requests and answers, and the comments on these.
func TestOpenAPIIsMadeFromTheOperations(t *testing.T) {
	t.Parallel()
	want := describeAPI(t)
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(strings.Split(string(OpenAPI()), "\n"), strings.Split(string(want), "\n")); diff != "" {
		t.Errorf("openapi.json is not that of the operations; write it anew with -update:\n%s", diff)
	}
}

type object = map[string]any

// api is the document with its members in the order people read them.
type api struct {
	OpenAPI    string   `json:"openapi"`
	Info       object   `json:"info"`
	Servers    []object `json:"servers"`
	Paths      object   `json:"paths"`
	Components object   `json:"components"`
}

// failures are the answers of every operation that fails.
var failures = []Code{CodeInvalid, CodeNotFound, CodeRefused, CodeInternal, CodeUnavailable, CodeTimeout}

func describeAPI(t *testing.T) []byte {
	t.Helper()
	s := &schemas{t: t, words: readComments(t, ".", "../protocol/agreement"), done: make(map[string]reflect.Type), all: make(object)}
	problem := s.ref(reflect.TypeFor[problemDocument]())
	responses := make(object)
	for _, code := range failures {
		responses[string(code)] = object{
			"description": s.words.consts[code],
			"content":     object{"application/problem+json": object{"schema": problem}},
		}
	}
	paths := object{
		"/v1/events": object{"get": s.stream()},
		"/openapi.json": object{"get": object{
			"operationId": "openapi", "summary": "this document",
			"responses": object{"200": answerOf("application/json", object{"type": "object"})},
		}},
	}
	for _, op := range operations {
		paths["/v1/"+op.Name] = object{"post": s.operation(op)}
	}
	return encode(t, api{
		OpenAPI: "3.1.0",
		Info: object{
			"title": "Parley agent", "version": "1",
			"description": "The JSON API of a running agent on the unix socket agent.sock in its home. Who reaches it acts as the agent. " +
				"JSON is strict: an unknown member, another case or a second document is an error. Times are RFC 3339 in UTC to the second, keys lower-case hex. " +
				"Answers may get more members.",
		},
		Servers:    []object{{"url": "http://agent", "description": "over the socket; the host name is not looked at"}},
		Paths:      paths,
		Components: object{"schemas": s.all, "responses": responses},
	})
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func answerOf(media string, schema any) object {
	return object{"description": "done", "content": object{media: object{"schema": schema}}}
}

// withFailures adds what else may come instead of an answer.
func withFailures(answer object, codes ...Code) object {
	responses := object{"200": answer}
	for _, code := range codes {
		responses[strconv.Itoa(code.status())] = object{"$ref": "#/components/responses/" + string(code)}
	}
	return responses
}

func (s *schemas) operation(op Operation) object {
	request := s.ref(op.request)
	required := s.all[componentOf(op.request)].(*jsonschema.Schema).Required
	group, _, _ := strings.Cut(op.Name, ".")
	media := "application/json"
	if op.stream != nil {
		media = "application/x-ndjson"
	}
	return object{
		"operationId": op.Name, "summary": op.Summary, "tags": []string{group},
		"requestBody": object{
			"required": len(required) > 0, // an empty body means {}
			"content":  object{"application/json": object{"schema": request}},
		},
		"responses": withFailures(answerOf(media, s.ref(op.answer)), failures...),
	}
}

func (s *schemas) stream() object {
	return object{
		"operationId": "events", "summary": "a live stream of notices, one JSON document on each line", "tags": []string{"events"},
		"parameters": []object{{
			"name": "after", "in": "query", "description": "number of the notice to go on after; without it the stream begins now",
			"schema": object{"type": "integer", "minimum": 0},
		}},
		"responses": withFailures(answerOf("application/x-ndjson", s.ref(reflect.TypeFor[Notice]())), CodeInvalid, CodeInternal),
	}
}

// schemas collects the schema of every named type under its name.
type schemas struct {
	t     *testing.T
	words *comments
	done  map[string]reflect.Type
	all   object // name to *jsonschema.Schema
}

// ref adds a type with all that it holds and points to it.
func (s *schemas) ref(t reflect.Type) *jsonschema.Schema {
	s.t.Helper()
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	name := componentOf(t)
	if known := s.done[name]; known != nil && known != t {
		s.t.Fatalf("two types are called %s: %s and %s", name, known, t)
	}
	if s.done[name] == nil {
		s.done[name] = t
		s.all[name] = s.describe(t)
	}
	return &jsonschema.Schema{Ref: schemaPrefix + name}
}

const schemaPrefix = "#/components/schemas/"

func componentOf(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// describe infers the schema of a struct, with references for the structs in
// it, and adds what the Go types do not say.
func (s *schemas) describe(t reflect.Type) *jsonschema.Schema {
	s.t.Helper()
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[canonical.Time]():  {Type: "string", Format: "date-time", Pattern: `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$`},
		reflect.TypeFor[Code]():            {Type: "string", Enum: s.codes()},
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
	}
	for _, f := range reflect.VisibleFields(t) {
		under := f.Type
		for under.Kind() == reflect.Pointer || under.Kind() == reflect.Slice {
			under = under.Elem()
		}
		if under.Kind() == reflect.Struct && known[under] == nil && !f.Anonymous {
			known[under] = s.ref(under)
		}
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		s.t.Fatalf("%s: %v", t, err)
	}
	schema.Description = s.words.types[t.Name()]
	if !slices.ContainsFunc(operations, func(op Operation) bool { return op.request == t }) {
		schema.AdditionalProperties = nil // an answer may grow
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		withoutNull(property)
		property.Description = s.words.fields[owner(t, f)+"."+f.Name]
		if name == "wait_seconds" {
			property.Minimum, property.Maximum = jsonschema.Ptr(0.0), jsonschema.Ptr(float64(maxWait))
		}
	}
	return schema
}

func (s *schemas) codes() []any {
	var list []any
	for _, code := range failures {
		if s.words.consts[code] == "" {
			s.t.Errorf("the code %s has no comment", code)
		}
		list = append(list, code)
	}
	if len(s.words.consts) != len(list) {
		s.t.Errorf("codes described: %v, in the program: %v", list, slices.Collect(maps.Keys(s.words.consts)))
	}
	return list
}

// withoutNull: a member that is there is never null, in requests and answers.
func withoutNull(s *jsonschema.Schema) {
	s.Types = slices.DeleteFunc(s.Types, func(name string) bool { return name == "null" })
	if len(s.Types) == 1 {
		s.Type = s.Types[0]
	}
	if len(s.Types) < 2 {
		s.Types = nil
	}
	if s.Items != nil {
		withoutNull(s.Items)
	}
}

// owner is the name of the struct that declares a field, which may be embedded
// in t.
func owner(t reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t.Name()
}

// comments are what the sources say about types, "Type.Field" and codes.
type comments struct {
	types, fields map[string]string
	consts        map[Code]string
}

func readComments(t *testing.T, folders ...string) *comments {
	t.Helper()
	c := &comments{types: make(map[string]string), fields: make(map[string]string), consts: make(map[Code]string)}
	values := make(map[string]string) // of string constants
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			c.read(file, values)
		}
	}
	for _, texts := range []map[string]string{c.types, c.fields} {
		for name, text := range texts {
			texts[name] = replaceWords(text, values)
		}
	}
	return c
}

var word = regexp.MustCompile(`\b[A-Z]\w+\b`)

func (c *comments) read(file *ast.File, values map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					c.readType(s, oneLine(d.Doc))
				}
			}
		case *ast.ValueSpec:
			if len(d.Values) != 1 {
				return true
			}
			if literal, ok := d.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, _ := strconv.Unquote(literal.Value)
				values[d.Names[0].Name] = value
				if kind, ok := d.Type.(*ast.Ident); ok && kind.Name == "Code" {
					c.consts[Code(value)] = oneLine(d.Comment)
				}
			}
		}
		return true
	})
}

// readType keeps what is said about a struct and its fields, which are called
// there as in JSON.
func (c *comments) readType(s *ast.TypeSpec, text string) {
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	names := make(map[string]string)
	for _, f := range structure.Fields.List {
		for _, name := range f.Names {
			if f.Tag != nil {
				tag, _ := strconv.Unquote(f.Tag.Value)
				names[name.Name], _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			}
			c.fields[s.Name.Name+"."+name.Name] = cmp.Or(oneLine(f.Doc), oneLine(f.Comment))
		}
	}
	first, rest, _ := strings.Cut(text, " ")
	c.types[s.Name.Name] = strings.TrimSpace(first + " " + replaceWords(rest, names))
	for _, f := range structure.Fields.List {
		for _, name := range f.Names {
			key := s.Name.Name + "." + name.Name
			c.fields[key] = replaceWords(c.fields[key], names)
		}
	}
}

func replaceWords(text string, by map[string]string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(by[w], w) })
}

func oneLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}
