// Command bench-relay measures the relay beside relays of others: each in a
// process of its own on this machine, over an empty store that syncs before it
// answers OK, under the load of "parley relay bench". It prints Markdown.
//
// It runs from its own folder; BENCH=quick only shows that everything runs, and
// REPETITIONS is another number of them than five.
// Relays that need a C compiler are left out where there is none.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// subject is one relay under load.
type subject struct {
	name    string
	command []string
	env     []string
	ours    bool
	numbers map[string][]result
	starts  []float64 // milliseconds from the start of the process over a filled store
}

// result is what of "parley relay bench --json" is shown.
type result struct {
	Scenario string  `json:"scenario"`
	Unit     string  `json:"unit"`
	Rate     float64 `json:"rate"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Alone    float64 `json:"p99_alone_ms"`
	Missing  int     `json:"missing"`
	Refused  int     `json:"refused"`
	Ops      int     `json:"operations"`
	Client   float64 `json:"client_cpu_s"`
	Relay    float64 `json:"relay_cpu_s"`
	Memory   int64   `json:"relay_memory_bytes"`
	Growth   int64   `json:"relay_memory_growth_bytes"`
}

// plan is how much is measured.
type plan struct {
	repetitions int
	length      string
	scenarios   string
	idle        string
}

func main() {
	p := plan{5, "1s", "ingest-1,ingest-4,ingest-64,lookup-1,lookup-4,lookup-64,tag-4,inbox-4,fanout-400,fanout-4000,burst-400,stopped-40", "idle-10000"}
	if os.Getenv("BENCH") == "quick" {
		p = plan{1, "200ms", "ingest-4,lookup-4,tag-4,inbox-4,fanout-40,burst-40,stopped-4", "idle-100"}
	}
	if n, err := strconv.Atoi(os.Getenv("REPETITIONS")); err == nil && n > 0 {
		p.repetitions = n
	}
	if err := run(p); err != nil {
		fmt.Fprintln(os.Stderr, "bench-relay:", err)
		os.Exit(1)
	}
}

func run(p plan) error {
	work, err := os.MkdirTemp("", "bench-relay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	subjects, err := build(work)
	if err != nil {
		return err
	}
	limits := verification()
	before := loadAverage()
	for i := range p.repetitions {
		for j := range subjects { // another one begins each time
			s := subjects[(i+j)%len(subjects)]
			fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, p.repetitions, s.name)
			if err := s.measure(work, p.scenarios, p); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for _, s := range subjects {
		if s.ours {
			if err := s.measure(work, p.idle, p); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	report(p, subjects, limits, before)
	return nil
}

// build makes every program. Ours is the test binary of the load package, which
// is the relay of the server without its limits on rates.
func build(work string) ([]*subject, error) {
	const root = "../.."
	cgo := exec.Command("gcc", "--version").Run() == nil
	ours := []string{"-test.run=^TestServe$", "-test.timeout=0"}
	subjects := []*subject{{name: "parley", command: append([]string{work + "/parley-go"}, ours...), ours: true}}
	steps := [][]string{
		{root, "0", "go", "build", "-o", work + "/parley", "./cmd/parley"},
		{root, "0", "go", "test", "-c", "-o", work + "/parley-go", "./relay/load"},
		{".", "0", "go", "build", "-o", work, "./khatru-badger"},
	}
	if cgo {
		subjects = append(subjects, &subject{name: "parley, libsecp256k1", command: append([]string{work + "/parley-c"}, ours...), ours: true})
		steps = append(steps, []string{root, "1", "go", "test", "-c", "-tags", "libsecp256k1", "-o", work + "/parley-c", "./relay/load"},
			[]string{".", "1", "go", "build", "-o", work, "./khatru-lmdb", "./rely-lmdb"})
	}
	subjects = append(subjects, &subject{name: "khatru, badger", command: []string{work + "/khatru-badger"}})
	if cgo {
		subjects = append(subjects, &subject{name: "khatru, LMDB", command: []string{work + "/khatru-lmdb"}},
			&subject{name: "rely, LMDB", command: []string{work + "/rely-lmdb"}})
	}
	for _, step := range steps {
		cmd := exec.Command(step[2], step[3:]...)
		cmd.Dir, cmd.Stderr = step[0], os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+step[1])
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(step[2:], " "), err)
		}
	}
	for _, s := range subjects {
		s.numbers = map[string][]result{}
	}
	return subjects, nil
}

// start runs the relay over a folder and waits until it listens.
func (s *subject) start(dir string) (cmd *exec.Cmd, url string, took time.Duration, err error) {
	command := s.command
	if !s.ours {
		command = append(slices.Clone(command), dir)
	}
	cmd = exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PARLEY_LOAD_RELAY="+dir)
	out, err := os.Create(dir + ".out")
	if err != nil {
		return nil, "", 0, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, "", 0, err
	}
	ready := regexp.MustCompile(`(?m)^ready (ws://\S+)$`)
	for time.Since(begin) < time.Minute {
		text, _ := os.ReadFile(dir + ".out")
		if m := ready.FindSubmatch(text); m != nil {
			return cmd, string(m[1]), time.Since(begin), nil
		}
		time.Sleep(time.Millisecond)
	}
	end(cmd)
	return nil, "", 0, fmt.Errorf("it does not listen")
}

// end kills: what a relay answered is stored by then.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// measure plays the scenarios on an empty store and starts the relay once more.
func (s *subject) measure(work, scenarios string, p plan) error {
	dir, err := os.MkdirTemp(work, "store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd, url, _, err := s.start(dir)
	if err != nil {
		return err
	}
	bench := exec.Command(filepath.Join(work, "parley"), "relay", "bench", url, "--json",
		"--scenario", scenarios, "--for", p.length, "--pid", strconv.Itoa(cmd.Process.Pid))
	var out, problems bytes.Buffer
	bench.Stdout, bench.Stderr = &out, &problems
	failed := bench.Run()
	end(cmd)
	var report struct {
		Results []result `json:"results"`
		Error   string   `json:"error"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return fmt.Errorf("%w: %s%s", failed, out.Bytes(), problems.Bytes())
	}
	for _, r := range report.Results {
		s.numbers[r.Scenario] = append(s.numbers[r.Scenario], r)
	}
	if failed != nil { // that relay does not bear it; the table shows a dash
		fmt.Fprintln(os.Stderr, "  "+report.Error)
	}
	cmd, _, took, err := s.start(dir)
	if err != nil {
		return err
	}
	end(cmd)
	s.starts = append(s.starts, float64(took)/1e6)
	return nil
}

// verification measures what one signature costs each build, in nanoseconds.
func verification() map[string]float64 {
	costs := map[string]float64{}
	for name, build := range map[string][]string{
		"parley": {"0", ""}, "parley, libsecp256k1": {"1", "libsecp256k1"},
	} {
		cmd := exec.Command("go", "test", "-tags", build[1], "-run", "^$", "-bench", "^BenchmarkVerification$", "-count", "3", "./relay")
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED="+build[0])
		out, _ := cmd.Output()
		for _, m := range regexp.MustCompile(`BenchmarkVerification\S*\s+\d+\s+([0-9.]+) ns/op`).FindAllSubmatch(out, -1) {
			n, _ := strconv.ParseFloat(string(m[1]), 64)
			if old, ok := costs[name]; !ok || n < old {
				costs[name] = n
			}
		}
	}
	return costs
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return string(bytes.Join(bytes.Fields(text)[:1], nil))
}

// spread is the median of numbers and their ends.
type spread struct{ least, median, most float64 }

func spreadOf(values []float64) (s spread, ok bool) {
	if len(values) == 0 {
		return s, false
	}
	slices.Sort(values)
	return spread{values[0], values[len(values)/2], values[len(values)-1]}, true
}

func short(x float64) string {
	switch {
	case x >= 100:
		digits := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", short(s.median), short(s.least), short(s.most))
}

// of collects one number of a scenario over the repetitions.
func (s *subject) of(scenario string, number func(result) float64) []float64 {
	var values []float64
	for _, r := range s.numbers[scenario] {
		values = append(values, number(r))
	}
	return values
}
