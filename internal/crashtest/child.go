package crashtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// arguments makes the test binary a child. Its value is a JSON array of texts.
const arguments = "PARLEY_TEST_CHILD"

// patience bounds the wait for the next line of a child.
const patience = 60 * time.Second

// maxLine bounds one line either way, in bytes.
const maxLine = 1 << 20

// Child is a running process of the test binary.
type Child struct {
	// Lines are what the child says. It is closed once the child is dead and
	// everything was read.
	Lines <-chan string

	cmd    *exec.Cmd
	mu     sync.Mutex // one line at a time
	in     io.WriteCloser
	killed bool
}

// Start runs the test of that exact name in a process of its own, which finds
// args in Parent.Args. It is killed at the end of t at the latest.
func Start(t testing.TB, test string, args ...string) *Child {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), arguments+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // where a child says why it failed
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer say.Close()
	cmd.ExtraFiles = []*os.File{say} // descriptor 3 of the child
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<12)
	go func() {
		defer said.Close()
		defer close(lines)
		for scanner := newScanner(said); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	c := &Child{Lines: lines, cmd: cmd, in: in}
	t.Cleanup(func() { c.Kill(t) })
	return c
}

// Next is the next line. The test fails when the child ended or says nothing.
func (c *Child) Next(t testing.TB) string {
	t.Helper()
	select {
	case line, open := <-c.Lines:
		if !open {
			t.Fatal("the child ended by itself")
		}
		return line
	case <-time.After(patience):
		t.Fatal("the child says nothing")
	}
	return ""
}

// KillAfter waits for the last of the answers and a moment more, and kills.
func (c *Child) KillAfter(t testing.TB, answers *Countdown) (rest []string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-answers.done:
			waiting = false
		case line, open := <-c.Lines:
			if !open {
				t.Fatal("the child ended by itself")
			}
			rest = append(rest, line)
		case <-timer.C:
			t.Fatal("the answers do not come")
		}
	}
	time.Sleep(answers.moment)
	return append(rest, c.Kill(t)...)
}

// Tell writes one line to the child. One that is dead is told nothing.
func (c *Child) Tell(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.in, line+"\n")
}

// Kill ends the process with SIGKILL and returns what it said and nobody has
// read. A second call does nothing.
func (c *Child) Kill(t testing.TB) (rest []string) {
	t.Helper()
	if c.killed {
		return nil
	}
	c.killed = true
	if err := c.cmd.Process.Kill(); err != nil {
		t.Errorf("killing a child: %v", err)
	}
	for line := range c.Lines {
		rest = append(rest, line)
	}
	_ = c.cmd.Wait() // it was killed
	return rest
}

// Parent is the child's side.
type Parent struct {
	Args []string // as they were given to Start
	// Lines are what Child.Tell wrote.
	Lines <-chan string

	mu  sync.Mutex // one line at a time
	out *os.File
}

// parent is the pipe to the parent, nil in other processes. It stays open as
// long as the process lives, since its end tells of the child's death.
var parent *os.File

// IsChild reports whether this process was started by Start, for a TestMain
// that prepares something.
func IsChild() bool { return os.Getenv(arguments) != "" }

// Begin is the first call of a child's test, which it skips in any other
// process. When the parent ends, this process does.
func Begin(t testing.TB) *Parent {
	t.Helper()
	if !IsChild() {
		t.Skip("runs as the child of another test")
	}
	parent = os.NewFile(3, "parent")
	p := &Parent{out: parent}
	if err := json.Unmarshal([]byte(os.Getenv(arguments)), &p.Args); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	p.Lines = lines
	go func() {
		for scanner := newScanner(os.Stdin); scanner.Scan(); {
			lines <- scanner.Text()
		}
		os.Exit(1)
	}()
	return p
}

// Say tells the parent one line, in one write. Any goroutine may call it.
func (p *Parent) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// Wait goes on until the child is killed.
func (p *Parent) Wait() { select {} }

func newScanner(r io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	return scanner
}
