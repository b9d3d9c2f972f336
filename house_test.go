package parley

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/parleykit/parley"

// house is every package of the module as the go command lists it.
type house []room

// room is one package: its folder below the root and its direct imports.
type room struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// folder is the package's place below the root, such as "carrier/nostr".
func (r room) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(r.ImportPath, module), "/")
}

func listHouse(t *testing.T) house {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var h house
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var r room
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return h
		} else if err != nil {
			t.Fatal(err)
		}
		h = append(h, r)
	}
}

// owners says which top-level folder alone may import a library directly, so
// that replacing it touches one package.
var owners = map[string]string{
	"github.com/fiatjaf/khatru":           "relay",
	"github.com/fiatjaf/eventstore":       "relay",
	"github.com/cockroachdb/pebble":       "relay",
	"github.com/cloudflare/circl":         "oprf",
	"github.com/emersion/go-smtp":         "mailprobe",
	"github.com/emersion/go-msgauth":      "mailprobe",
	"github.com/eclipse/paho.mqtt.golang": "mqttbridge",
	"github.com/mochi-mqtt/server":        "mqttbridge",
	"modernc.org/sqlite":                  "internal/database",
	"github.com/jackc/pgx":                "internal/database",
	"github.com/gowebpki/jcs":             "protocol/canonical",
	"github.com/alecthomas/kong":          "cmd",
	"go.yaml.in/yaml":                     "internal/config",
	"gopkg.in/yaml.v3":                    "nowhere: archived, use go.yaml.in/yaml/v4",
	"github.com/stretchr/testify":         "nowhere: the tests use the standard library and go-cmp",
	"log":                                 "nowhere: log/slog",
	"github.com/fiatjaf/khatru/policies":  "nowhere: they read khatru's own connection from the context",
}

// exceptions are the direct imports that break a rule of owners on purpose.
var exceptions = map[string]string{
	"relay imports github.com/jackc/pgx": "its store pages through events without holding a connection",
	"agent imports go.yaml.in/yaml":      "drafts of agreements are YAML that a person writes",
	"relay imports log":                  "the frame's logger is of that type, and is silenced",
}

func TestLibrariesAreImportedOnlyByTheirOwner(t *testing.T) {
	for _, r := range listHouse(t) {
		for _, imported := range r.Imports {
			library, owner := ownerOf(imported)
			if owner == "" || within(r.folder(), owner) {
				continue
			}
			if _, allowed := exceptions[r.folder()+" imports "+library]; !allowed {
				t.Errorf("%s imports %s, which belongs to %s", r.folder(), imported, owner)
			}
		}
	}
}

// ownerOf finds the longest listed library that imported lies in.
func ownerOf(imported string) (library, owner string) {
	for lib, o := range owners {
		exact := lib == "log" // a folder below it, log/slog, is another package
		if imported == lib || !exact && strings.HasPrefix(imported, lib+"/") {
			if len(lib) > len(library) {
				library, owner = lib, o
			}
		}
	}
	return library, owner
}

func within(folder, owner string) bool {
	return folder == owner || strings.HasPrefix(folder, owner+"/")
}

// floors are the top-level folders from the bottom up. A package imports its
// own folder and lower floors only; services do not import each other. Some
// plumbing stands on the protocol and has a floor of its own.
var floors = map[string]int{
	"internal": 0, "deploy": 0,
	"protocol": 1, "oprf": 1,
	"internal/agentidentity": 2, "internal/issuer": 2, "internal/merklelog": 2, "internal/receiptlog": 2,
	"carrier": 2,
	"relay":   3, "directory": 3, "mailprobe": 3, "ntfybridge": 3, "mqttbridge": 3, "venue": 3, "approval": 3,
	"agent": 4,
	"cmd":   5,
}

func TestImportsOnlyGoDown(t *testing.T) {
	for _, r := range listHouse(t) {
		if r.folder() == "" {
			continue // the root holds only tests of the whole
		}
		from, known := floorOf(r.folder())
		if !known {
			t.Errorf("folder %s has no floor: add it to floors", r.folder())
		}
		for _, imported := range r.Imports {
			rest, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			to, _ := floorOf(rest)
			if sameFolder := top(rest) == top(r.folder()); to > from || to == from && !sameFolder {
				t.Errorf("%s imports %s: not a lower floor", r.folder(), rest)
			}
		}
	}
}

// floorOf is the floor of a package: that of its own folder or else of the
// nearest one above it.
func floorOf(folder string) (floor int, known bool) {
	for {
		if floor, known = floors[folder]; known || !strings.Contains(folder, "/") {
			return floor, known
		}
		folder = folder[:strings.LastIndex(folder, "/")]
	}
}

func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

// The protocol is pure: bytes in, bytes out.
func TestProtocolHasNoNetworkNoDatabaseAndNoPlumbing(t *testing.T) {
	banned := []string{"net", "net/http", "database/sql", "os", "os/exec", "syscall", "math/rand", "math/rand/v2"}
	for _, r := range listHouse(t) {
		if !within(r.folder(), "protocol") {
			continue
		}
		for _, imported := range r.Imports {
			if slices.Contains(banned, imported) || strings.HasPrefix(imported, module+"/internal/") {
				t.Errorf("%s imports %s", r.folder(), imported)
			}
		}
	}
}

func TestServersForTestsStayInTests(t *testing.T) {
	for _, r := range listHouse(t) {
		for _, imported := range r.Imports {
			if strings.HasPrefix(imported, module+"/") && strings.HasSuffix(imported, "test") && !strings.HasSuffix(r.folder(), "test") {
				t.Errorf("%s imports %s outside its tests", r.folder(), imported)
			}
		}
	}
}

// No type of the relay's frame may leak, so that the frame stays replaceable.
func TestRelayExportsNoTypeOfItsFrame(t *testing.T) {
	for _, file := range parse(t, "relay") {
		for _, decl := range file.Decls {
			for _, node := range exportedFace(decl) {
				ast.Inspect(node, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok {
						if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "khatru" || pkg.Name == "eventstore") {
							t.Errorf("an exported declaration of relay names %s.%s", pkg.Name, sel.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// exportedFace is what other packages see of a declaration: the signature of
// an exported function, exported types, variables and constants.
func exportedFace(decl ast.Decl) []ast.Node {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			return []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		var nodes []ast.Node
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					nodes = append(nodes, exportedFields(s)...)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					nodes = append(nodes, s.Type)
				}
			}
		}
		return nodes
	}
	return nil
}

func exportedFields(s *ast.TypeSpec) []ast.Node {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return []ast.Node{s.Type}
	}
	var nodes []ast.Node
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 || f.Names[0].IsExported() {
			nodes = append(nodes, f.Type)
		}
	}
	return nodes
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, r := range listHouse(t) {
		var doc string
		for _, file := range parse(t, r.Dir) {
			doc += file.Doc.Text()
		}
		if !regexp.MustCompile(`^(Package|Command) \w+|^Parley\w* `).MatchString(doc) {
			t.Errorf("%s has no package comment of the form \"Package x ...\" (got %.40q)", r.folder(), doc)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "doc.go")); err != nil && !within(r.folder(), "cmd") {
			t.Errorf("%s has no doc.go", r.folder())
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, r := range listHouse(t) {
		for name, file := range parse(t, r.Dir) {
			for _, decl := range file.Decls {
				if missing := undocumented(decl); missing != "" {
					t.Errorf("%s: %s has no comment", name, missing)
				}
			}
		}
	}
}

func undocumented(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			return d.Name.Name
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					return s.Name.Name
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					return s.Names[0].Name
				}
			}
		}
	}
	return ""
}

// exportedReceiver reports whether a method's type is itself exported.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := true
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !id.IsExported() {
			exported = false
		}
		return true
	})
	return exported
}

// parse reads the Go files of a folder, without its tests.
func parse(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*ast.File)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

// maxFunction is the longest a function may be, in lines; nothing longer can be
// read at one sight.
const maxFunction = 120

func TestFunctionsStayShort(t *testing.T) {
	walkGo(t, func(path string, fset *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				if lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; lines > maxFunction {
					t.Errorf("%s: %s has %d lines", path, f.Name.Name, lines)
				}
			}
		}
	})
}

func walkGo(t *testing.T, visit func(path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		visit(path, fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// metricName is how a metric is named where it is registered.
var metricName = regexp.MustCompile(`"(parley_[a-z0-9_]+)"`)

func TestEveryMetricIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registered := make(map[string]bool)
	walkSources(t, func(path, text string) {
		for _, m := range metricName.FindAllStringSubmatch(text, -1) {
			registered[m[1]] = true
			if !strings.Contains(string(doc), "`"+m[1]+"`") {
				t.Errorf("%s registers %s, which docs/metrics.md does not name", path, m[1])
			}
		}
	})
	for _, m := range regexp.MustCompile("`(parley_[a-z0-9_]+)`").FindAllStringSubmatch(string(doc), -1) {
		if !registered[m[1]] {
			t.Errorf("docs/metrics.md names %s, which nothing registers", m[1])
		}
	}
}

func TestEveryDependencyHasAReason(t *testing.T) {
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mod), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 2 && strings.Contains(fields[0], ".") && strings.HasPrefix(fields[1], "v") {
			if !strings.Contains(string(doc), "`"+fields[0]+"` "+fields[1]) {
				t.Errorf("docs/dependencies.md has no line for `%s` %s", fields[0], fields[1])
			}
		}
	}
}

// walkSources visits the text of every Go file that is not a test.
func walkSources(t *testing.T, visit func(path, text string)) {
	t.Helper()
	walkGo(t, func(path string, _ *token.FileSet, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		visit(path, string(data))
	})
}
