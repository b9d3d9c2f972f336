package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// metricName is a metric of ours in an expression.
var metricName = regexp.MustCompile(`\bparley_[a-z0-9_]+`)

// documented holds expressions against the list of metrics, which another test
// holds against the code.
func documented(t *testing.T, expressions string) {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := metricName.FindAllString(expressions, -1)
	if len(names) == 0 {
		t.Fatal("no metric is named")
	}
	for _, name := range names {
		bare := strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(string(page), "`"+bare+"`") {
			t.Errorf("%s is no metric of docs/metrics.md", name)
		}
	}
}

func TestAlertsNameMetricsThatThereAre(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documented(t, string(rules))
	cases, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if strings.Count(string(cases), "alertname: "+m[1]+"\n")+strings.Count(string(cases), "alertname: "+m[1]+",") < 2 {
			t.Errorf("%s is not tested both firing and silent", m[1])
		}
	}
}

// TestAlertsFireAndStaySilent needs promtool.
func TestAlertsFireAndStaySilent(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestDashboardAsksForMetricsThatThereAre(t *testing.T) {
	data, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			documented(t, target.Expr)
		}
	}
}
