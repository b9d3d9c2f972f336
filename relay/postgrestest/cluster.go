package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	postgresPrograms = "/usr/lib/postgresql/15/bin"
	postgresPatience = 60 * time.Second
)

// Cluster is a PostgreSQL server of its own on a loopback port.
type Cluster struct {
	dir, port string
	fsync     bool
	owner     *syscall.Credential // nil unless the tests run as root

	mu      sync.Mutex
	process *exec.Cmd
	output  bytes.Buffer
	made    int // databases
}

// StartCluster starts a PostgreSQL server that ends with the test, and skips
// the test where PostgreSQL 15 is not installed. Without fsync it is faster and
// still survives everything but a crash of the machine.
func StartCluster(t testing.TB, fsync bool) *Cluster {
	t.Helper()
	if _, err := os.Stat(filepath.Join(postgresPrograms, "postgres")); err != nil {
		t.Skip("PostgreSQL 15 is not installed in " + postgresPrograms)
	}
	c, err := makeCluster(fsync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// makeCluster prepares the folder of a server. Its path is short, as that of
// a socket must be, and belongs to a user without rights.
func makeCluster(fsync bool) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "parley-postgres-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, fsync: fsync}
	if os.Getuid() == 0 {
		if c.owner, err = nobody(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(c.owner.Uid), int(c.owner.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := c.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "parley", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		c.remove()
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, c.port, _ = net.SplitHostPort(listener.Addr().String())
	return c, listener.Close()
}

// nobody is the user PostgreSQL runs as when the tests run as root, which it
// refuses.
func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		return nil, fmt.Errorf("user nobody has the ids %s and %s", u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (c *Cluster) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(postgresPrograms, program), args...)
	cmd.Dir, cmd.Env = c.dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner}
	return cmd
}

// Start starts the server, again after Kill, and waits until it answers.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for deadline := time.Now().Add(postgresPatience); ; {
		cmd := c.command("postgres", "-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-h", "127.0.0.1", "-p", c.port,
			"-c", fmt.Sprintf("fsync=%v", c.fsync), "-c", "max_connections=200")
		cmd.Stdout, cmd.Stderr = &c.output, &c.output
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }() //nolint:errcheck // It is killed or fails to start.
		if c.answers(ctx, ended, deadline) {
			c.process = cmd
			return nil
		}
		cmd.Process.Kill() //nolint:errcheck // It may have ended.
		<-ended
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL did not start: %s", c.output.String())
		}
	}
}

// answers waits for the server until it answers, ended or time is over.
func (c *Cluster) answers(ctx context.Context, ended <-chan struct{}, deadline time.Time) bool {
	for time.Now().Before(deadline) {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err == nil {
			conn.Close(ctx) //nolint:errcheck // It answered.
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// Kill ends every process of the server by SIGKILL.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	pid := c.process.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	c.process.Process.Kill() //nolint:errcheck // It may have ended.
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			syscall.Kill(n, syscall.SIGKILL) //nolint:errcheck // It may have ended.
		}
	}
	c.process = nil
}

func (c *Cluster) remove() {
	c.Kill()
	for range 100 { // processes that end may still write
		if os.RemoveAll(c.dir) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *Cluster) url(database string) string {
	return "postgres://parley@127.0.0.1:" + c.port + "/" + database + "?sslmode=disable"
}

// Database makes an empty database and returns its address.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	c.mu.Lock()
	c.made++
	name := fmt.Sprint("test", c.made)
	c.mu.Unlock()
	conn, err := pgx.Connect(t.Context(), c.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The statement answered.
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return c.url(name)
}
