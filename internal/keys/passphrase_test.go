package keys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The test vector of NIP-49.
const (
	vectorEncrypted       = "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4jdzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
	vectorPassphrase      = "nostr"
	vectorEncryptedSecret = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"
)

func passphrase(t *testing.T, text string) Passphrase {
	t.Helper()
	p, err := ParsePassphrase(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cheap opens the folder with a passphrase and the least work for new files.
func cheap(t *testing.T, dir *Dir, text string) *Dir {
	t.Helper()
	with := dir.WithPassphrase(passphrase(t, text))
	with.cost = 1
	return with
}

func TestPassphrase_agreesWithTheVectorOfNIP49(t *testing.T) {
	key, err := decrypt(vectorEncrypted, passphrase(t, vectorPassphrase))
	if err != nil || key.secret() != vectorEncryptedSecret {
		t.Fatalf("decrypt = %v, %v", key, err)
	}
	dir := openDir(t)
	if _, err := cheap(t, dir, vectorPassphrase).ImportNostr(Agent, vectorEncrypted); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Nostr(Agent); !errors.Is(err, ErrPassphraseMissing) {
		t.Errorf("without a passphrase: %v", err)
	}
	if _, err := dir.EnsureNostr(Agent); !errors.Is(err, ErrPassphraseMissing) {
		t.Errorf("ensuring without a passphrase: %v", err)
	}
	if _, err := cheap(t, dir, "Nostr").Nostr(Agent); !errors.Is(err, ErrPassphraseWrong) {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	if again, err := cheap(t, dir, vectorPassphrase).Nostr(Agent); err != nil || again.PublicKey() != key.PublicKey() {
		t.Errorf("with its passphrase: %v, %v", again, err)
	}
}

func TestPassphrase_isTheSameHoweverItWasTyped(t *testing.T) {
	// NIP-49: two spellings of one text in NFKC.
	typed := []string{"\u212b\u2126\u1e9b\u0323", "\u00c5\u03a9\u1e69"}
	dir := openDir(t)
	key, err := cheap(t, dir, typed[0]).EnsureNostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := cheap(t, dir, typed[1]).Nostr(Agent); err != nil || again.KID() != key.KID() {
		t.Errorf("%v, %v", again, err)
	}
}

func TestPassphrase_anyKeySurvivesItsFile(t *testing.T) {
	dir := openDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(1, 40, maxPassphrase).Draw(rt, "passphrase")
		p, err := ParsePassphrase(text)
		if err != nil {
			if !strings.ContainsAny(text, "\r\n\x00") {
				rt.Fatalf("%q: %v", text, err)
			}
			return
		}
		key, err := GenerateNostr()
		if err != nil {
			rt.Fatal(err)
		}
		file, err := key.file(p, 1)
		if err != nil || bytes.Contains(file, []byte(prefixSecret+"1")) {
			rt.Fatalf("%s, %v", file, err)
		}
		again, err := dir.WithPassphrase(p).parseFile(file)
		if err != nil || again.PublicKey() != key.PublicKey() {
			rt.Fatalf("%v, %v", again, err)
		}
	})
}

// TestDecrypt_checksFormAndCostBeforeItWorks would take hours and all memory if
// a hostile LOG_N were obeyed.
func TestDecrypt_checksFormAndCostBeforeItWorks(t *testing.T) {
	p := passphrase(t, vectorPassphrase)
	for name, text := range map[string]string{
		"prefix alone":   "ncryptsec1",
		"short":          vectorEncrypted[:len(vectorEncrypted)-1],
		"long":           vectorEncrypted + "q",
		"upper case":     strings.ToUpper(vectorEncrypted),
		"version 1":      "ncryptsec1qy" + vectorEncrypted[12:],
		"LOG_N 0":        "ncryptsec1qgq" + "q" + vectorEncrypted[14:],
		"LOG_N 255":      "ncryptsec1qtl" + "l" + vectorEncrypted[14:],
		"no bech32":      "ncryptsec1b" + vectorEncrypted[11:],
		"typo":           vectorEncrypted[:40] + "q" + vectorEncrypted[41:],
		"wrong checksum": vectorEncrypted[:len(vectorEncrypted)-1] + "q",
		"two separators": vectorEncrypted[:40] + "1" + vectorEncrypted[41:],
	} {
		if key, err := decrypt(text, p); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", name, key, err)
		}
	}
	for cost := maxCost + 1; cost <= 255; cost += 9 {
		file, err := mustParse(t, vectorNSec).file(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		// The checksum is wrong after this; the cost must be what is refused.
		head := []byte(file)
		bits := 2<<12 | cost<<4
		for i := range 4 {
			head[len(prefixEncrypted)+1+i] = charset[bits>>(15-5*i)&31]
		}
		if _, err := decrypt(string(head), p); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is %d, not", cost)) {
			t.Errorf("LOG_N %d: %v", cost, err)
		}
	}
}

func TestSetPassphrase_changesEveryStateAndCanBeCompleted(t *testing.T) {
	dir := openDir(t)
	old, err := dir.EnsureNostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.NextNostr(Agent); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Rotate(Agent); err != nil {
		t.Fatal(err)
	}
	key, err := dir.Nostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	first, second := cheap(t, dir, "first"), cheap(t, dir, "second")
	dir.cost = 1
	if err := dir.SetPassphrase(Agent, first.passphrase); err != nil {
		t.Fatal(err)
	}
	for _, file := range names(t, dir) {
		if text, _ := os.ReadFile(filepath.Join(dir.Path(), file)); !isEncrypted(string(text)) {
			t.Errorf("%s is in clear", file)
		}
	}
	changes := 0
	first.fault = func() error {
		if changes++; changes > 1 {
			return errStopped
		}
		return nil
	}
	if err := first.SetPassphrase(Agent, second.passphrase); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	first.fault = nil
	if err := first.SetPassphrase(Agent, second.passphrase); err != nil {
		t.Fatalf("completing: %v", err)
	}
	if err := second.SetPassphrase(Agent, Passphrase{}); err != nil {
		t.Fatal(err)
	}
	if again, err := dir.Nostr(Agent); err != nil || again.KID() != key.KID() {
		t.Errorf("in clear again: %v, %v", again, err)
	}
	if got := kids(t, dir, Agent, Retired); len(got) != 1 || got[0] != old.KID() {
		t.Errorf("retired %v", got)
	}
	if err := dir.SetPassphrase(Venue, first.passphrase); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestSetPassphrase_withAWrongOneChangesNothing(t *testing.T) {
	dir := openDir(t)
	key, err := cheap(t, dir, "right").EnsureNostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	if err := cheap(t, dir, "wrong").SetPassphrase(Agent, passphrase(t, "other")); !errors.Is(err, ErrPassphraseWrong) {
		t.Errorf("error %v", err)
	}
	if again, err := cheap(t, dir, "right").Nostr(Agent); err != nil || again.KID() != key.KID() {
		t.Errorf("%v, %v", again, err)
	}
}

func TestExport_isAPrivateFileThatImportsAndReplacesNothing(t *testing.T) {
	key := mustParse(t, vectorNSec)
	for _, p := range []Passphrase{{}, passphrase(t, "backup")} {
		path := filepath.Join(t.TempDir(), "backup")
		if err := key.Export(path, p); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		text, err := os.ReadFile(path)
		if err != nil || isEncrypted(string(text)) != p.IsSet() {
			t.Errorf("backup %.12s, %v", text, err)
		}
		again, err := openDir(t).WithPassphrase(p).ImportNostr(Agent, string(text))
		if err != nil || again.PublicKey() != key.PublicKey() {
			t.Errorf("importing: %v, %v", again, err)
		}
		if err := key.Export(path, p); !errors.Is(err, ErrExists) {
			t.Errorf("over a file: %v", err)
		}
	}
}

func TestReadPassphrase_takesOneLineOfAPrivateFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want error
	}{
		"one line":      {"secret words\n", 0o600, nil},
		"no line feed":  {"secret words", 0o400, nil},
		"others may":    {"secret words", 0o640, ErrPermissions},
		"empty":         {"", 0o600, ErrMalformed},
		"an empty line": {"\n", 0o600, ErrPassphrase},
		"two lines":     {"secret words\n\n", 0o600, ErrPassphrase},
		"no UTF-8":      {"\xff", 0o600, ErrPassphrase},
		"too long":      {strings.Repeat("x", maxPassphrase+1), 0o600, ErrPassphrase},
	} {
		path := filepath.Join(t.TempDir(), "passphrase")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		p, err := ReadPassphrase(path)
		if !errors.Is(err, c.want) || c.want == nil && p.text() != "secret words" {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret words") {
			t.Errorf("%s: the error shows it: %v", name, err)
		}
	}
}

func TestPassphrase_isNeverPrinted(t *testing.T) {
	p := passphrase(t, "open sesame")
	for _, value := range []any{p, &p, struct{ P Passphrase }{p}, struct{ p Passphrase }{p}, []Passphrase{p}} {
		var text strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&text, verb+"\n", value)
		}
		slog.New(slog.NewTextHandler(&text, nil)).Info("passphrase", "passphrase", value)
		encoded, _ := json.Marshal(value)
		all := text.String() + string(encoded)
		if strings.Contains(all, "sesame") || strings.Contains(all, fmt.Sprintf("%x", "sesame")) {
			t.Errorf("%T shows it:\n%s", value, all)
		}
	}
}

func FuzzDecrypt(f *testing.F) {
	p, _ := ParsePassphrase(vectorPassphrase)
	for _, seed := range []string{vectorEncrypted[:80], "ncryptsec1", "ncryptsec1qgg", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := decrypt(text, p); err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrPassphraseWrong) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
