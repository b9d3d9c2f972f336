package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/internal/disktest"
)

// runParley is one call of the program with a home folder.
func runParley(t *testing.T, home string, args ...string) (code int, stderr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	cmd := exec.Cmd{Path: program, Args: append([]string{"parley"}, args...), Env: append(os.Environ(), "PARLEY_HOME="+home), Stderr: &lines}
	var exited *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, lines.String()
}

func TestFullDisk_exitsWith2AndASentenceUntilThereIsSpace(t *testing.T) {
	volume := disktest.Mount(t, 8<<20)
	home := filepath.Join(volume.Path, "home")
	server := agenttest.Start(t)
	if code, text := runParley(t, home, "init", "--server", server.URL); code != 0 {
		t.Fatal(text)
	}
	volume.Fill(t, 0)
	code, text := runParley(t, home, "contact", "add", server.VenueKey.PublicKey())
	if code != 2 || !strings.Contains(text, "the disk of the database is full") || strings.Count(text, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, text)
	}
	volume.Empty(t)
	if code, text := runParley(t, home, "status"); code != 0 {
		t.Errorf("with space again: exit code %d: %s", code, text)
	}
}
