package databasetest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
)

// Owner and password of every test server; it listens on loopback alone.
const (
	owner    = "parley"
	password = "test-server"
)

// patience bounds the start and the end of a server.
const patience = 60 * time.Second

// errNotInstalled means that the system has no PostgreSQL.
var errNotInstalled = errors.New("PostgreSQL is not installed (Debian: postgresql)")

// Server is a PostgreSQL with a folder of its own.
type Server struct {
	// Addr is host:port, the same after every restart.
	Addr string

	bin, data string
	settings  []string
	account   *syscall.Credential // nil: the test's own
	keeper    *exec.Cmd
	leash     io.Closer // closing it ends the server
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
	admin  *sql.DB
	next   atomic.Int64
}

// NewPostgres makes an empty database on the test binary's server and returns
// its address. It skips the test where PostgreSQL is not installed.
func NewPostgres(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.server, shared.err = newServer(true); shared.err == nil {
			shared.admin, shared.err = sql.Open("pgx", shared.server.URL("postgres"))
		}
	})
	if errors.Is(shared.err, errNotInstalled) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := "test_" + strconv.FormatInt(shared.next.Add(1), 10)
	if _, err := shared.admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test has closed its own connections by now
		_, _ = shared.admin.ExecContext(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return shared.server.URL(name)
}

// StartPostgres starts a server for one test, to be killed and started again.
// Settings are of the form name=value. It skips where PostgreSQL is missing.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := newServer(false, settings...)
	if errors.Is(err, errNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		_ = os.RemoveAll(filepath.Dir(s.data))
	})
	return s
}

// URL is the address of a database of the server for database.Open.
func (s *Server) URL(name string) string { return s.URLAt(s.Addr, name) }

// URLAt is URL through another address, such as that of a Proxy.
func (s *Server) URLAt(addr, name string) string {
	return "postgres://" + owner + ":" + password + "@" + addr + "/" + name + "?sslmode=disable"
}

// newServer makes a server and starts it. A disposable one removes its own
// folder at the end.
func newServer(disposable bool, settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	if err := s.choose(); err != nil {
		return nil, err
	}
	folder, err := s.folder()
	if err != nil {
		return nil, err
	}
	if s.Addr, err = freeAddr(); err == nil {
		err = s.initialize(folder)
	}
	if err == nil {
		remove := ""
		if disposable {
			remove = folder
		}
		err = s.start(remove)
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return s, nil
}

// binaries is the folder of the newest PostgreSQL installed.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNotInstalled
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// choose picks the account: PostgreSQL refuses to run as root.
func (s *Server) choose() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			return nil
		}
	}
	return errors.New("finding an account for PostgreSQL: neither postgres nor nobody exists")
}

// folder makes the server's folder, owned by its account.
func (s *Server) folder() (string, error) {
	folder, err := os.MkdirTemp("", "parley-postgres-")
	if err == nil && s.account != nil {
		err = os.Chown(folder, int(s.account.Uid), int(s.account.Gid))
	}
	return folder, err
}

// freeAddr is a loopback address whose port was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *Server) command(folder, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + folder}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account, Setpgid: true}
	return cmd
}

func (s *Server) initialize(folder string) error {
	s.data = filepath.Join(folder, "data")
	secret := filepath.Join(folder, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if s.account != nil {
		if err := os.Chown(secret, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return err
		}
	}
	out, err := s.command(folder, filepath.Join(s.bin, "initdb"), "-D", s.data, "-U", owner, "--pwfile="+secret,
		"-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// keep runs the server until standard input ends, as it does however the test
// binary ends. Then it stops it at once and removes the folder named by $0.
const keep = `"$@" & server=$!; read -r line; kill -QUIT $server; wait $server; cd /; [ "$0" = "-" ] || rm -rf "$0"`

// start starts the server and returns when it takes connections.
func (s *Server) start(remove string) error {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	if remove == "" {
		remove = "-"
	}
	folder := filepath.Dir(s.data)
	args := []string{
		"-c", keep, remove, filepath.Join(s.bin, "postgres"), "-D", s.data, "-h", host, "-p", port,
		"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=32MB", "-c", "max_wal_size=256MB",
	}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	deadline := time.Now().Add(patience)
	for { // after a kill the old memory may be in use for a moment
		exited, log, err := s.launch(folder, args)
		if err != nil {
			return err
		}
		if s.answers(deadline, exited) {
			return nil
		}
		s.Stop()
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			return fmt.Errorf("starting PostgreSQL: %s", bytes.TrimSpace(text))
		}
	}
}

func (s *Server) launch(folder string, args []string) (exited func() bool, log string, err error) {
	out, err := os.CreateTemp(folder, "log-")
	if err != nil {
		return nil, "", err
	}
	defer out.Close()
	s.keeper = s.command(folder, "/bin/sh", args...)
	s.keeper.Stdout, s.keeper.Stderr = out, out
	leash, err := s.keeper.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	s.leash = leash
	pid := filepath.Join(s.data, "postmaster.pid")
	if err := s.keeper.Start(); err != nil {
		return nil, "", fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return func() bool {
		text, _ := os.ReadFile(out.Name())
		if bytes.Contains(text, []byte("FATAL:  pre-existing shared memory")) {
			return true // it leaves the file of the killed one
		}
		_, err := os.Stat(pid)
		return err != nil && bytes.Contains(text, []byte("FATAL"))
	}, out.Name(), nil
}

// answers waits until the server takes connections; false when it ended.
func (s *Server) answers(deadline time.Time, exited func() bool) bool {
	db, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		return false
	}
	defer db.Close()
	for time.Now().Before(deadline) && !exited() {
		if db.Ping() == nil {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// Stop ends the server at once, as a crash does that leaves its disk intact.
func (s *Server) Stop() {
	if s.leash != nil {
		_ = s.leash.Close()
		_ = s.keeper.Wait()
		s.leash = nil
	}
}

// Kill kills every process of the server with SIGKILL.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	// Standing still, it makes no child that would not be seen here.
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(children(postmaster), postmaster) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Restart starts the server again on its folder, after Stop or Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.start(""); err != nil {
		t.Fatal(err)
	}
}

// children are the processes whose parent is pid.
func children(pid int) (found []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid …
		after := string(text[bytes.LastIndexByte(text, ')')+1:])
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
