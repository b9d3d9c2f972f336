package mqtttest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Mosquitto is a running mosquitto.
type Mosquitto struct {
	Addr string // 127.0.0.1:port
	URL  string // mqtt://127.0.0.1:port

	config, log string
	command     *exec.Cmd
}

// StartMosquitto starts one with further lines of configuration, or skips the test
// where there is none. It keeps what it has in memory unless the lines say otherwise.
// There is never a listener for WebSockets, which would listen on every interface.
func StartMosquitto(t testing.TB, lines ...string) *Mosquitto {
	t.Helper()
	path := find(t)
	addr := freePort(t)
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	m := &Mosquitto{Addr: addr, URL: "mqtt://" + addr, config: filepath.Join(dir, "mosquitto.conf"), log: filepath.Join(dir, "log")}
	text := fmt.Sprintf("user root\nlistener %s 127.0.0.1\nlog_dest file %s\n", port, m.log)
	if !strings.Contains(strings.Join(lines, "\n"), "allow_anonymous") {
		text += "allow_anonymous true\n"
	}
	text += strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start(t, path)
	t.Cleanup(func() { m.kill() })
	return m
}

// Persistent are the lines of a mosquitto that writes what it has to disk after
// every change.
func Persistent(dir string) []string {
	return []string{"persistence true", "persistence_location " + dir + "/", "autosave_on_changes true", "autosave_interval 1"}
}

// freePort is a loopback address that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func find(t testing.TB) string {
	for _, path := range []string{"mosquitto", "/usr/sbin/mosquitto"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skip("mosquitto is not installed (Debian package mosquitto)")
	return ""
}

func (m *Mosquitto) start(t testing.TB, path string) {
	t.Helper()
	m.command = exec.Command(path, "-c", m.config)
	if err := m.command.Start(); err != nil {
		t.Fatalf("starting mosquitto: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := net.Dial("tcp", m.Addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(m.log)
			t.Fatalf("mosquitto does not answer: %v\n%s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Restart kills it with SIGKILL and starts it on the same port.
func (m *Mosquitto) Restart(t testing.TB) {
	t.Helper()
	m.kill()
	m.start(t, m.command.Path)
}

// Log is what it wrote so far.
func (m *Mosquitto) Log() string {
	data, _ := os.ReadFile(m.log)
	return string(data)
}

func (m *Mosquitto) kill() {
	_ = m.command.Process.Signal(syscall.SIGKILL)
	_ = m.command.Wait()
}
