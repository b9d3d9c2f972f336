package disktest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Fault makes system calls fail with Errno, without being carried out: those
// that a thread makes from number First to number Last of its calls of that
// name. Calls is a list as strace takes it, such as "fsync,fdatasync"; Paths,
// when given, are the only files it concerns, which leaves the others out of
// the recording too.
type Fault struct {
	Calls       string
	Errno       string // "ENOSPC", "EIO", "EROFS"
	First, Last int
	Paths       []string
}

// changing are the system calls that change files or make changes last.
const changing = "open,openat,mkdirat,unlink,unlinkat,rename,renameat,renameat2," +
	"write,pwrite64,ftruncate,fsync,fdatasync"

// maxTrace bounds the file that strace writes.
const maxTrace = 512 << 20

// Recording is what a program did to the files below a folder.
type Recording struct {
	ops    []op
	Output []Line
	// Injected is the number of calls that a Fault made fail, and FirstFault
	// the point of the first of them.
	Injected, FirstFault int
	root                 string
	end                  int
}

// Line is one write(2) to standard output, and the point at which it began.
type Line struct {
	Text string
	At   int
}

// op is one system call; its effect may have come at any point from start to
// end.
type op struct {
	call       string
	path, to   string
	fd         string
	data       []byte
	size, at   int64
	start, end int
	failed     bool
	create     bool
	truncate   bool
}

// Record runs command to its end and keeps what it did below root, which is
// taken as durable and empty. Standard output of the command is recorded.
// An exit code other than 0 is returned.
func Record(t testing.TB, root string, command *exec.Cmd, faults ...Fault) (*Recording, error) {
	t.Helper()
	strace := find(t)
	trace := filepath.Join(Scratch(t), "trace")
	args := []string{"-f", "-qq", "-xx", "-y", "-s", "70000", "-o", trace, "-e", "signal=none", "-e", "trace=" + changing}
	for _, f := range faults {
		args = append(args, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d..%d", f.Calls, f.Errno, f.First, f.Last))
		for _, path := range f.Paths {
			args = append(args, "-P", path)
		}
	}
	command.Args = append(append([]string{strace}, args...), append([]string{"--", command.Path}, command.Args[1:]...)...)
	command.Path = strace
	ran := command.Run()
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(trace)
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() > maxTrace {
		t.Fatalf("the trace has %d bytes: %v", info.Size(), err)
	}
	r := &Recording{root: root}
	if err := r.read(file); err != nil {
		t.Fatal(err)
	}
	return r, ran
}

// find is the path of a strace that works here.
func find(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed (Debian: strace)")
	}
	if out, err := exec.Command(path, "-f", "-qq", "-o", os.DevNull, "-e", "trace=none", "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	return path
}

// Points is the number of points of the run: Image takes 0 to Points.
func (r *Recording) Points() int { return r.end }

// read takes the lines of strace; a call that was interrupted by others comes
// in two pieces.
func (r *Recording) read(from io.Reader) error {
	type piece struct {
		text string
		at   int
	}
	pending := map[string]piece{}
	lines := bufio.NewReaderSize(from, 1<<20)
	for at := 0; ; at++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			r.end = at
			return nil
		}
		if err != nil {
			return err
		}
		pid, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		text, start := strings.TrimSpace(text), at
		if before, found := strings.CutSuffix(text, "<unfinished ...>"); found {
			pending[pid] = piece{strings.TrimRight(before, " "), at}
			r.acknowledge(before, at)
			continue
		}
		if _, after, found := strings.Cut(text, " resumed>"); found && strings.HasPrefix(text, "<... ") {
			text, start = pending[pid].text+after, pending[pid].at
		} else {
			r.acknowledge(text, at)
		}
		if strings.HasSuffix(text, "(INJECTED)") {
			if r.Injected++; r.Injected == 1 {
				r.FirstFault = at
			}
		}
		if err := r.take(text, start, at); err != nil {
			return fmt.Errorf("line %d of the trace, %.80q: %w", at+1, text, err)
		}
	}
}

// acknowledge keeps a write to standard output from the moment it began.
func (r *Recording) acknowledge(text string, at int) {
	if !strings.HasPrefix(text, "write(1<") {
		return
	}
	if fields := strings.Split(text, ", "); len(fields) > 1 {
		data, _ := quoted(fields[1])
		r.Output = append(r.Output, Line{strings.TrimSpace(string(data)), at})
	}
}

// take reads one whole call, such as
//
//	pwrite64(5<\x2f\x74>, "\x00\x01", 2, 4096) = 2
func (r *Recording) take(text string, start, end int) error {
	call, rest, opened := strings.Cut(text, "(")
	list, answer, closed := strings.Cut(rest, ")") // with -xx no text holds a bracket
	answer, ended := strings.CutPrefix(strings.TrimLeft(answer, " "), "= ")
	if !opened || !closed || !ended {
		return nil // the end of a thread
	}
	args := strings.Split(list, ", ")
	o := op{call: call, start: start, end: end, failed: strings.HasPrefix(answer, "-1") || strings.HasPrefix(answer, "?")}
	if o.failed && call != "fsync" && call != "fdatasync" {
		return nil
	}
	if err := o.parse(args, answer); err != nil {
		return err
	}
	if within(r.root, o.path) {
		r.ops = append(r.ops, o)
	}
	return nil
}

func (o *op) parse(args []string, answer string) (err error) {
	o.fd, o.path = descriptor(args[0])
	switch o.call {
	case "open", "openat":
		flags := strings.Join(args, " ")
		o.create, o.truncate = strings.Contains(flags, "O_CREAT"), strings.Contains(flags, "O_TRUNC")
		o.fd, o.path = descriptor(answer)
	case "mkdirat":
		o.path, err = name(args[0], args[1])
	case "unlinkat":
		o.path, err = name(args[0], args[1])
	case "unlink":
		o.path, err = name("", args[0])
	case "rename":
		o.path, o.to, err = names("", args[0], "", args[1])
	case "renameat", "renameat2":
		o.path, o.to, err = names(args[0], args[1], args[2], args[3])
	case "write", "pwrite64":
		if o.data, err = quoted(args[1]); err != nil {
			return err
		}
		written, _, _ := strings.Cut(answer, " ")
		var n int
		if n, err = strconv.Atoi(written); err == nil && n <= len(o.data) {
			o.data = o.data[:n]
		}
		if o.call == "pwrite64" && err == nil {
			o.at, err = strconv.ParseInt(args[3], 10, 64)
		}
	case "ftruncate":
		o.size, err = strconv.ParseInt(args[1], 10, 64)
	}
	return err
}

// descriptor reads 12<\x2f…> as number and path.
func descriptor(text string) (fd, path string) {
	fd, rest, _ := strings.Cut(text, "<")
	data, err := hex.DecodeString(strings.ReplaceAll(strings.SplitN(rest, ">", 2)[0], `\x`, ""))
	if err != nil {
		return fd, ""
	}
	return fd, string(data)
}

// quoted reads "\x2f…"; a text that strace cut short is an error.
func quoted(text string) ([]byte, error) {
	inner, found := strings.CutPrefix(text, `"`)
	inner, ended := strings.CutSuffix(inner, `"`)
	if !found || !ended {
		return nil, fmt.Errorf("no whole text: %.40s", text)
	}
	return hex.DecodeString(strings.ReplaceAll(inner, `\x`, ""))
}

func name(folder, text string) (string, error) {
	data, err := quoted(text)
	if err != nil || filepath.IsAbs(string(data)) {
		return string(data), err
	}
	_, at := descriptor(folder)
	return filepath.Join(at, string(data)), nil
}

func names(folder1, text1, folder2, text2 string) (string, string, error) {
	from, err := name(folder1, text1)
	if err != nil {
		return "", "", err
	}
	to, err := name(folder2, text2)
	return from, to, err
}

func within(root, path string) bool {
	return path == root || strings.HasPrefix(path, root+string(filepath.Separator))
}
