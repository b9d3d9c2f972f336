package parley

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// demo makes the chapters speak to the terminal and keep what they produce.
var demo = flag.Bool("demo", false, "tell the story on standard output and keep its files in bin/demo")

// demoFolder is where the files of the last demonstration stay to be looked at.
const demoFolder = "bin/demo"

// TestDemo plays the chapters in testdata/demo with the real programs, each
// agent and each server a process of its own, on free loopback ports.
func TestDemo(t *testing.T) {
	programs := buildPrograms(t)
	if *demo {
		if err := os.RemoveAll(demoFolder); err != nil {
			t.Fatal(err)
		}
	}
	agreements, err := filepath.Abs("testdata/agreements")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := filepath.Abs("docs")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{"AGREEMENTS": agreements, "MANUAL": manual}
	chapters, err := filepath.Glob("testdata/demo/*.txtar")
	if err != nil || len(chapters) == 0 {
		t.Fatalf("no chapters: %v", err)
	}
	for _, chapter := range chapters {
		name := strings.TrimSuffix(filepath.Base(chapter), ".txtar")
		// testscript runs its scripts side by side; a group of its own for each
		// keeps the story in order.
		t.Run(name, func(t *testing.T) { play(t, chapter, name, programs, folders) })
	}
}

// play runs one chapter.
func play(t *testing.T, chapter, name, programs string, folders map[string]string) {
	stage := &stage{folder: filepath.Join(demoFolder, name)}
	testscript.Run(t, testscript.Params{
		Files:               []string{chapter},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
			for name, folder := range folders {
				env.Setenv(name, folder)
			}
			env.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"say":        stage.say,
			"show":       stage.show,
			"keep":       stage.keep,
			"freeport":   freePort,
			"waitfor":    waitFor,
			"expand":     expand,
			"eventually": eventually,
			"capture":    capture,
			"flip":       flip,
			"pick":       pick,
			"fetch":      fetch,
			"hangup":     hangUp,
			"terminate":  terminate,
		},
	})
}

// buildPrograms compiles parley and parleyd into a folder and returns it.
func buildPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/parley", "./cmd/parleyd")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// stage is where a chapter speaks.
type stage struct{ folder string }

func (s *stage) tell(ts *testscript.TestScript, text string) {
	if *demo {
		fmt.Println(text)
	}
	ts.Logf("%s", text)
}

// say TEXT...: one line of the story, with environment variables filled in.
func (s *stage) say(ts *testscript.TestScript, _ bool, args []string) {
	s.tell(ts, strings.Join(args, " "))
}

// show FILE|stdout [PATTERN]: the lines of a file, or only those that match,
// indented.
func (s *stage) show(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(strings.Join(args[1:], " "))
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if line = strings.TrimRight(line, "\n"); pattern.MatchString(line) {
			s.tell(ts, "    "+line)
		}
	}
}

// keep FILE NAME: in a demonstration, a copy to look at afterwards.
func (s *stage) keep(ts *testscript.TestScript, _ bool, args []string) {
	data := ts.ReadFile(args[0])
	if !*demo {
		return
	}
	ts.Check(os.MkdirAll(s.folder, 0o755))
	path := filepath.Join(s.folder, args[1])
	ts.Check(os.WriteFile(path, []byte(data), 0o644))
	s.tell(ts, "    "+path)
}

// freeport NAME...: a free loopback port into each variable.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer l.Close() // after all are found, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		ts.Check(err)
		ts.Setenv(name, port)
	}
}

// waitfor HOST:PORT|FILE: until something listens there, or the file exists.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	ready := func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	}
	if host, _, err := net.SplitHostPort(args[0]); err == nil && host != "" {
		ready = func() bool {
			conn, err := net.DialTimeout("tcp", args[0], time.Second)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			ts.Fatalf("nothing at %s after 30 s", args[0])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// eventually PATTERN PROGRAM [ARGS]: runs the program until its standard output
// matches, for what another process is about to do.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no output matches %s after 30 s (%v)", pattern, err)
		}
	}
}

// expand FILE: environment variables in the file are filled in.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// capture NAME [PREFIX]: the standard output of the last command, or the rest
// of its first line that begins with PREFIX, into a variable.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	out := ts.ReadFile("stdout")
	if len(args) == 2 {
		for _, line := range strings.Split(out, "\n") {
			if rest, found := strings.CutPrefix(strings.TrimSpace(line), args[1]); found {
				ts.Setenv(args[0], strings.TrimSpace(rest))
				return
			}
		}
		ts.Fatalf("no line of stdout begins with %q", args[1])
	}
	ts.Setenv(args[0], strings.TrimSpace(out))
}

// flip FILE OUT TEXT: a copy of the file with one bit changed in the last byte
// of the first TEXT in it.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	at := strings.Index(string(data), args[2])
	if at < 0 {
		ts.Fatalf("%s does not hold %q", args[0], args[2])
	}
	data[at+len(args[2])-1] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o644))
}

// pick NAME FILE PATTERN: what the first group of the pattern matches in the
// file, into a variable.
func pick(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[2])
	ts.Check(err)
	match := pattern.FindStringSubmatch(ts.ReadFile(args[1]))
	if len(match) < 2 {
		ts.Fatalf("%s does not match %s", args[1], pattern)
	}
	ts.Setenv(args[0], match[1])
}

// fetch URL FILE: the body of a good answer to a GET into a file.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	answer, err := http.Get(args[0])
	ts.Check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	ts.Check(err)
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s\n%s", args[0], answer.Status, body)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), body, 0o644))
}

// hangup TEXT: SIGHUP to the programs in the background with TEXT among their
// arguments.
func hangUp(ts *testscript.TestScript, _ bool, args []string) {
	for _, cmd := range ts.BackgroundCmds() {
		if cmd.ProcessState == nil && slices.Contains(cmd.Args, args[0]) {
			ts.Check(cmd.Process.Signal(syscall.SIGHUP))
		}
	}
}

// terminate: asks every program in the background to stop; "wait" then requires
// that each drained and exited without an error.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}
