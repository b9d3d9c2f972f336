package config

import (
	"encoding"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/httpserver"
)

var update = flag.Bool("update", false, "write the golden files of testdata/config")

const (
	mistakesDir = "../../testdata/config"
	deployed    = "../../deploy/parley.yaml"
)

// comparable lets cmp look into the values that come from other packages.
var comparable = cmpopts.EquateComparable(Prefix{}, Allow{}, Duration{})

func TestDeployedFile_isTheDefault(t *testing.T) {
	got, err := Load(deployed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), *got, comparable); diff != "" {
		t.Errorf("deploy/parley.yaml differs from Default():\n%s", diff)
	}
}

// TestDeployedFile_hasEveryKeyWithAComment also holds docs/config.md to the
// same keys.
func TestDeployedFile_hasEveryKeyWithAComment(t *testing.T) {
	text, err := os.ReadFile(deployed)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil {
		t.Fatal(err)
	}
	want := keysOfType("", reflect.TypeFor[Config]())
	if diff := cmp.Diff(want, keysOfNode("", root.Content[0])); diff != "" {
		t.Errorf("keys of deploy/parley.yaml:\n%s", diff)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines[1:] {
		if line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(lines[i], "#") {
			t.Errorf("line %d has no comment above it: %s", i+2, line)
		}
	}
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range want {
		if !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("docs/config.md has no line for %s", key)
		}
	}
}

// keysOfType lists the paths of all keys that hold a value.
func keysOfType(prefix string, section reflect.Type) []string {
	var paths []string
	for field := range section.Fields() {
		path := prefix + field.Tag.Get("yaml")
		_, isText := reflect.New(field.Type).Interface().(encoding.TextUnmarshaler)
		if field.Type.Kind() == reflect.Struct && field.Type.PkgPath() == section.PkgPath() && !isText {
			paths = append(paths, keysOfType(path+".", field.Type)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

func keysOfNode(prefix string, section *yaml.Node) []string {
	var paths []string
	for i := 0; i < len(section.Content); i += 2 {
		path, value := prefix+section.Content[i].Value, section.Content[i+1]
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 { // {} is a value
			paths = append(paths, keysOfNode(path+".", value)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

func TestMistakes_areNamedWithTheirLineOrKey(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(mistakesDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(data)
			if err == nil {
				t.Fatal("the mistake is accepted")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".error"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if diff := cmp.Diff(string(want), err.Error()+"\n"); diff != "" {
				t.Errorf("error differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_keepsTheDefaultsOfWhatIsNotNamed(t *testing.T) {
	for _, text := range []string{"", "# nothing\n\n", "relay:\n", "{}", "relay: {}\nvenue: {}\n"} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(Default(), *got, comparable); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
	want := Default()
	want.Relay.MaxLimit, want.Log.Level = 7, "debug"
	got, err := Parse([]byte("relay: {max_limit: 7}\nlog: {level: debug}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got, comparable); diff != "" {
		t.Error(diff)
	}
}

func TestParse_readsEveryKind(t *testing.T) {
	got, err := Parse([]byte(`
origin: https://parley.example.org
trusted_proxies: [127.0.0.1, "::1", 10.0.0.0/8]
database: sqlite:/var/lib/parley/parley.db
relay:
  recipients: listed
  recipients_listed:
    - npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6
    - 7E7E9C42A91BFEF19FA929E5FDA1B72E0EBC1A4C1141673E2794234D86ADDF4E
  max_event_size: 128KiB
  max_frame: 1MiB
egress: {allow: [10.1.0.0/16, "broker.lan:8883"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	listed := []PublicKey{"3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d", "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"}
	if diff := cmp.Diff(listed, got.Relay.RecipientsListed); diff != "" {
		t.Error(diff)
	}
	if got.Relay.MaxEventSize != 128<<10 || got.Relay.MaxFrame != 1<<20 {
		t.Errorf("sizes %d and %d", got.Relay.MaxEventSize, got.Relay.MaxFrame)
	}
	var proxies []string
	for _, p := range got.Proxies() {
		proxies = append(proxies, p.String())
	}
	if diff := cmp.Diff([]string{"127.0.0.1/32", "::1/128", "10.0.0.0/8"}, proxies); diff != "" {
		t.Error(diff)
	}
	if allowed := got.EgressAllow(); len(allowed) != 2 || allowed[1].String() != "broker.lan:8883" {
		t.Errorf("allowed %v", allowed)
	}
	if got.DatabaseURL() != "sqlite:/var/lib/parley/parley.db" {
		t.Errorf("database %s", got.DatabaseURL())
	}
}

func TestPaths_lieInTheDataFolder(t *testing.T) {
	c := Default()
	c.Data = "/srv/parley"
	got := []string{c.DatabaseURL(), c.KeysDir(), c.RelayDir()}
	if diff := cmp.Diff([]string{"sqlite:/srv/parley/parley.db", "/srv/parley/keys", "/srv/parley/relay"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPolicy_autoMeansAnyoneOnLoopbackOnly(t *testing.T) {
	const known, stranger = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d", "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
	for _, tt := range []struct {
		policy           Policy
		origin           string
		stranger, listed bool
	}{
		{Auto, "http://127.0.0.1:8417", true, true},
		{Auto, "https://parley.example.org", false, true},
		{Anyone, "https://parley.example.org", true, true},
		{Listed, "http://127.0.0.1:8417", false, true},
	} {
		own, err := httpserver.ParseOrigin(tt.origin)
		if err != nil {
			t.Fatal(err)
		}
		r := Relay{Recipients: tt.policy, RecipientsListed: []PublicKey{known}}
		v := Venue{Hosts: tt.policy, HostsListed: []PublicKey{known}}
		keys := r.RecipientKeys(own)
		if (keys == nil) != tt.stranger || v.Host(stranger, own) != tt.stranger ||
			(keys == nil || slices.Contains(keys, known)) != tt.listed || v.Host(known, own) != tt.listed {
			t.Errorf("%s at %s decides otherwise", tt.policy, tt.origin)
		}
	}
}

func TestLoad_namesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if _, err := Load(path); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `line 1: unknown key "x"`) {
		t.Errorf("unknown key: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("endless file accepted")
	}
}

func unwrapAll(err error) error {
	for {
		next, ok := err.(interface{ Unwrap() error })
		if !ok || next.Unwrap() == nil {
			return err
		}
		err = next.Unwrap()
	}
}

func TestByteSize_readsItsOwnForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := ByteSize(rapid.Int64Range(0, 1<<62).Draw(t, "size"))
		var again ByteSize
		if err := again.UnmarshalText([]byte(size.String())); err != nil || again != size {
			t.Fatalf("%d writes as %s reads as %d, %v", size, size, again, err)
		}
	})
	for _, text := range []string{"", "B", "KiB", "-1B", "1.5KiB", "1 KiB", "1kb", "64", "9999999999GiB", "+1B", "1kiB"} {
		var size ByteSize
		if err := size.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as %d", text, size)
		}
	}
}

func TestDuration_readsItsOwnForm(t *testing.T) {
	for _, text := range []string{"0s", "30s", "1m30s", "24h0m0s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != text {
			t.Errorf("%s reads as %s, %v", text, d, err)
		}
		if back, err := d.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%s writes as %s", text, back)
		}
	}
	for _, text := range []string{"", "30", "-1s", "one hour"} {
		if err := new(Duration).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q accepted", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join(mistakesDir, "*.yaml"))
	for _, file := range append(slices.Clone(files), deployed) {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte("! x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "config.") {
				t.Errorf("the error names a type of the program: %v", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("an invalid configuration was accepted: %v", err)
		}
	})
}
