package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parleykit/parley/agent/agenttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": main})
}

// TestScripts runs testdata/*.txtar, each against a server of its own that
// lives in this process; parley is the real program. The commands shown in
// docs/agent.md are the ones in testdata/docs.txtar.
func TestScripts(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := agenttest.Start(env.T().(testing.TB))
			env.Values["server"], env.Values[tKey{}] = server, env.T()
			env.Setenv("SERVER", server.URL)
			env.Setenv("VENUE", server.VenueKey.PublicKey())
			env.Setenv("NO_COLOR", "1")
			env.Setenv("EXAMPLES", examples)
			for _, name := range []string{"alice", "bob", "carol"} {
				env.Setenv(strings.ToUpper(name), env.WorkDir+"/"+name)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"capture":   capture,
			"newkey":    newServerKey,
			"flip":      flip,
			"terminate": terminate,
			"waitfile":  waitFile,
			"mode":      mode,
			"refuse":    refuse,
		},
	})
}

// capture NAME PREFIX: the rest of the first line of the last standard output
// that begins with PREFIX.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	for _, line := range strings.Split(ts.ReadFile("stdout"), "\n") {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), args[1]); found {
			ts.Setenv(args[0], strings.TrimSpace(rest))
			return
		}
	}
	ts.Fatalf("no line begins with %q", args[1])
}

// refuse on|off: the relay refuses all messages for good, or no more.
func refuse(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value("server").(*agenttest.Server).Refuse(args[0] == "on")
}

// newkey: the server has another key from now on.
func newServerKey(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Value("server").(*agenttest.Server).NewKey(ts.Value(tKey{}).(testing.TB))
}

type tKey struct{}

// flip FILE OUT TEXT: a copy with one bit changed at TEXT.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	at := strings.Index(string(data), args[2])
	if at < 0 {
		ts.Fatalf("%s does not hold %q", args[0], args[2])
	}
	data[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o600))
}

// terminate: SIGTERM to everything in the background.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// waitfile FILE: until the file is there.
func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(30 * time.Second); ; {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not appear", args[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// mode FILE PERM: the file has exactly these permissions.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// Every command of the tour in docs/agent.md stands in the script
// that runs them.
func TestTheDocumentedCommandsAreRun(t *testing.T) {
	doc, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/docs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\$ (parley .*)$`).FindAllStringSubmatch(string(doc), -1)
	if len(shown) < 15 {
		t.Fatalf("docs/agent.md shows %d commands", len(shown))
	}
	for _, m := range shown {
		command := strings.ReplaceAll(m[1], `"`, `'`) // testscript quotes with these only
		if !strings.Contains(string(script), "exec "+command+"\n") {
			t.Errorf("docs/agent.md shows %q, which testdata/docs.txtar does not run", m[1])
		}
	}
}
