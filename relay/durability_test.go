package relay_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// childDir names the folder of the relay a child process runs.
const childDir = "PARLEY_RELAY_TEST_DIR"

// TestChild is the relay process that TestAnsweredEventsSurviveSIGKILL kills.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("runs as the child of another test only")
	}
	s := relaytest.Start(t, relay.Options{Dir: dir})
	fmt.Println("listening", s.URL)
	select {}
}

// startChild runs a relay in a process of its own and returns its URL.
func startChild(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			return cmd, url
		}
	}
	t.Fatal("the child did not start")
	return nil, ""
}

// drill says that tests kill at many more points than usual.
const drill = "PARLEY_DRILL"

// Each point kills the relay after a seeded number of answers and starts the
// next one on what it left.
func TestAnsweredEventsSurviveSIGKILL(t *testing.T) {
	points := 20
	if os.Getenv(drill) != "" {
		points = 200
	}
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(20, 26))
	var all []string
	for point := range points {
		killAfter := 1 + rng.IntN(60)
		answered := publishUntilKilled(t, dir, killAfter)
		if len(answered) < killAfter {
			t.Fatalf("point %d: %d events were answered, want at least %d", point, len(answered), killAfter)
		}
		assertStored(t, dir, answered)
		all = append(all, answered...)
	}
	assertStored(t, dir, all)
}

// publishUntilKilled runs a relay on the folder, publishes from several
// connections, kills it after so many answers and returns the accepted events.
func publishUntilKilled(t *testing.T, dir string, killAfter int) (answered []string) {
	t.Helper()
	cmd, url := startChild(t, dir)
	const publishers = 4
	var mu sync.Mutex
	enough := make(chan struct{})
	var all sync.WaitGroup
	for range publishers {
		c := dialURL(t, url)
		all.Go(func() {
			for c.write(`["EVENT",`+newKey(t).note(nostr.Now(), "").String()+`]`) == nil {
				r, err := c.read()
				if err != nil {
					return
				}
				mu.Lock()
				if r.label == "OK" && r.ok {
					answered = append(answered, r.id)
				}
				if len(answered) == killAfter {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // It was killed.
	all.Wait()
	return answered
}
