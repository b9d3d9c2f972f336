package relay_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// badInput is one row of the table in docs/relay.md: what somebody sends, how
// the relay answers and the metric that counts it ("" when none does).
type badInput struct {
	sent, answered, metric string

	options  relay.Options
	readOnly bool // no event is taken from anybody
	send     func(a *attack)
}

// attack is where a row is tried.
type attack struct {
	*client // of the attacker, on a connection of its own
	server  *relaytest.Server
	healthy *healthy
}

// healthy is the work of others beside: a writer, and a reader of what is
// stored and of what comes.
type healthy struct {
	writer, reader *client
	key            *key
	want           map[string]bool // ids of what was written
}

func newHealthy(t *testing.T, s *relaytest.Server, readOnly bool) *healthy {
	h := &healthy{writer: dial(t, s), reader: dial(t, s), key: newKey(t), want: map[string]bool{}}
	h.reader.send("REQ", "live", nostr.Filter{Authors: []string{h.key.pub}})
	if r := h.reader.next(); r.label != "EOSE" {
		t.Fatalf("got %v, want EOSE", r)
	}
	if !readOnly {
		h.write()
	}
	return h
}

// write publishes a card, which the subscription gets.
func (h *healthy) write() nostr.Event {
	h.writer.t.Helper()
	ev := h.key.card(fmt.Sprint(len(h.want)), nostr.Now()-100)
	h.writer.accept(ev)
	h.reader.receive("live", ev)
	h.want[ev.ID] = true
	return ev
}

// goesOn demands that everything is as if nobody else were there.
func (h *healthy) goesOn(readOnly bool) {
	h.writer.t.Helper()
	if !readOnly {
		h.write()
	}
	got := map[string]bool{}
	for _, ev := range h.writer.stored(nostr.Filter{Authors: []string{h.key.pub}, Kinds: []int{30417}}) {
		got[ev.ID] = true
	}
	if diff := cmp.Diff(h.want, got); diff != "" {
		h.writer.t.Errorf("the cards of another client (-want +got):\n%s", diff)
	}
	h.reader.send("REQ", "nothing", nostr.Filter{Kinds: []int{30417}, LimitZero: true})
	if r := h.reader.next(); r.label != "EOSE" || r.id != "nothing" {
		h.writer.t.Errorf("another client got %v", r)
	}
}

func TestBadInputIsAnsweredAsDocumentedAndDisturbsNobody(t *testing.T) {
	for _, row := range badInputs() {
		t.Run(row.sent, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			o := row.options
			o.Registerer = reg
			s := relaytest.Start(t, o)
			a := &attack{client: dial(t, s), server: s, healthy: newHealthy(t, s, row.readOnly)}
			before := valueOf(t, reg, row.metric)
			row.send(a)
			eventually(t, func() bool { return row.metric == "" || valueOf(t, reg, row.metric) > before })
			a.healthy.goesOn(row.readOnly)
			if n := counter(t, reg, "parley_relay_panics_total"); n != 0 {
				t.Errorf("%v panics", n)
			}
		})
	}
}

// valueOf reads a metric that is written name or name{label="value"}.
func valueOf(t *testing.T, reg *prometheus.Registry, metric string) float64 {
	t.Helper()
	if metric == "" {
		return 0
	}
	parts := regexp.MustCompile(`^(\w+)(?:\{(\w+)="(\w+)"\})?$`).FindStringSubmatch(metric)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := m.GetLabel()
			if f.GetName() == parts[1] && (parts[2] == "" || labels[0].GetName() == parts[2] && labels[0].GetValue() == parts[3]) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s", metric)
	return 0
}

func TestBadInputIsDocumented(t *testing.T) {
	const (
		document = "../docs/relay.md"
		begin    = "<!-- bad input: written by go test ./relay -run BadInputIsDocumented -update -->\n"
		end      = "<!-- end of bad input -->\n"
	)
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table of bad input", document)
	}
	var want strings.Builder
	want.WriteString("\n| sent | answered | metric |\n|---|---|---|\n")
	for _, row := range badInputs() {
		metric := "–"
		if row.metric != "" {
			metric = "`" + row.metric + "`"
		}
		fmt.Fprintf(&want, "| %s | %s | %s |\n", row.sent, row.answered, metric)
	}
	want.WriteString("\n")
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", document, diff)
	}
}
