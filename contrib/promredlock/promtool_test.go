package promredlock_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/redlock-go/redlock/contrib/promredlock"
	"github.com/redlock-go/redlock/internal/programs"
)

// promtool runs Prometheus' own tool.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	cmd := programs.Command(t, "promtool", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

func TestTheAlertsAreRaisedAsTheirTestsSay(t *testing.T) {
	promtool(t, nil, "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, nil, "test", "rules", "alerts_test.yml")
}

// TestPrometheusReadsTheExpressionsOfTheDashboard makes a rule of each expression, since promtool checks rules.
func TestPrometheusReadsTheExpressionsOfTheDashboard(t *testing.T) {
	values := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*")
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, p := range readDashboard(t).Panels {
		for j, target := range p.Targets {
			rules += fmt.Sprintf("  - record: panel_%d_%d\n    expr: %q\n", i, j, values.Replace(target.Expr))
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", file)
}

func TestPrometheusReadsTheMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promredlock.New(nil))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, text.Bytes(), "check", "metrics")
}
