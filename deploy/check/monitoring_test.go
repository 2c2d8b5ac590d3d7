package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	strict "sigs.k8s.io/yaml"
)

const (
	alertsFile    = "deploy/helm/evalfleet/files/alerts.yaml"
	dashboardFile = "deploy/helm/evalfleet/files/dashboards/evalfleet.json"
)

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := strict.UnmarshalStrict([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v; `make check-deploy` installs it\n%s", strings.Join(args, " "), err, out)
	}
}

// anchorOf is what GitHub makes of a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// Every alert fires when it should and not before, by alerts_test.yaml, and says what
// to do, where docs/monitoring.md says more.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", filepath.Join(root, alertsFile))
	promtool(t, "test", "rules", "alerts_test.yaml")

	var file struct {
		RuleFiles []string `json:"rule_files"`
		Interval  string   `json:"evaluation_interval"`
		Tests     []struct {
			Name     string           `json:"name"`
			Interval string           `json:"interval"`
			Series   []map[string]any `json:"input_series"`
			Expects  []struct {
				Expr    string `json:"expr"`
				At      string `json:"eval_time"`
				Samples []struct {
					Labels string  `json:"labels"`
					Value  float64 `json:"value"`
				} `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	tests, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := strict.UnmarshalStrict(tests, &file); err != nil {
		t.Fatal(err)
	}
	quiet, firing := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, expects := range test.Expects {
			if expects.Expr != fmt.Sprintf(`ALERTS{alertname="%s",alertstate="firing"}`, test.Name) {
				t.Errorf("the test of %s asks for %s", test.Name, expects.Expr)
			}
			quiet[test.Name] = quiet[test.Name] || len(expects.Samples) == 0
			firing[test.Name] = firing[test.Name] || len(expects.Samples) > 0
		}
	}

	page, sections := read(t, "docs/monitoring.md"), map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		sections[anchorOf(m[1])] = true
	}
	alerts := rules(t)
	for _, alert := range alerts {
		if !quiet[alert.Alert] || !firing[alert.Alert] {
			t.Errorf("%s: no test in which it stays quiet, or none in which it fires", alert.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			t.Errorf("%s has the severity %q", alert.Alert, alert.Labels["severity"])
		}
		if alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s does not say what it means and what to do", alert.Alert)
		}
		_, anchor, ok := strings.Cut(alert.Annotations["runbook_url"], "/docs/monitoring.md#")
		if !ok || anchor != anchorOf(alert.Alert) || !sections[anchor] {
			t.Errorf("%s: docs/monitoring.md has no section for %s", alert.Alert, alert.Annotations["runbook_url"])
		}
		row := fmt.Sprintf("| [%s](#%s) | %s |", alert.Alert, anchor, alert.Labels["severity"])
		if !strings.Contains(page, row) {
			t.Errorf("docs/monitoring.md lacks %q", row)
		}
	}
	if len(alerts) != len(firing) {
		t.Errorf("%d alerts, and tests of %v", len(alerts), slices.Sorted(maps.Keys(firing)))
	}
}

// scraping is what of a configuration of Prometheus is used here.
type scraping struct {
	Global    map[string]any `json:"global"`
	RuleFiles []string       `json:"rule_files"`
	Scrape    []scrapeJob    `json:"scrape_configs"`
}

type scrapeJob struct {
	Name   string             `json:"job_name"`
	DNS    []dnsTargets       `json:"dns_sd_configs,omitempty"`
	Static []map[string][]any `json:"static_configs,omitempty"`
}

type dnsTargets struct {
	Names   []string `json:"names"`
	Type    string   `json:"type"`
	Port    int      `json:"port"`
	Refresh string   `json:"refresh_interval"`
}

func composeScraping(t *testing.T) (s scraping) {
	t.Helper()
	if err := strict.UnmarshalStrict([]byte(read(t, "deploy/compose/prometheus.yaml")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Compose's Prometheus reads a configuration that it understands, with the alerts, and
// scrapes the services that serve metrics where they serve them.
func TestComposePrometheus(t *testing.T) {
	t.Parallel()
	p := project(t)
	given := map[string]string{} // files by where the container has them
	for _, config := range p.Services["prometheus"].Configs {
		given[config.Target] = p.Configs[config.Source].File
	}
	dir := t.TempDir()
	for target, file := range given {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "/etc/prometheus/", dir+"/"))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(target)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))

	var scraped []string
	for _, job := range composeScraping(t).Scrape {
		for _, targets := range job.DNS {
			scraped = append(scraped, targets.Names...)
			if targets.Type != "A" || targets.Port != 9090 {
				t.Errorf("%s is scraped at %+v", job.Name, targets)
			}
		}
	}
	for _, name := range scraped {
		command := p.Services[name].Command
		if i := slices.Index(command, "--metrics-addr"); i < 0 || command[i+1] != ":9090" {
			t.Errorf("%s serves no metrics to others: %v", name, command)
		}
	}
	slices.Sort(scraped)
	if !slices.Equal(scraped, []string{"controller", "worker"}) {
		t.Errorf("scraped are %v, want controller and worker", scraped)
	}
}

// Compose's Grafana finds a Prometheus that is there, and the dashboard.
func TestComposeGrafana(t *testing.T) {
	t.Parallel()
	p := project(t)
	grafana := p.Services["grafana"]
	var sources struct {
		APIVersion int `json:"apiVersion"`
		Sources    []struct {
			Name    string         `json:"name"`
			UID     string         `json:"uid"`
			Type    string         `json:"type"`
			URL     string         `json:"url"`
			Default bool           `json:"isDefault"`
			JSON    map[string]any `json:"jsonData"`
		} `json:"datasources"`
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name    string            `json:"name"`
			Type    string            `json:"type"`
			Updates bool              `json:"allowUiUpdates"`
			Options map[string]string `json:"options"`
		} `json:"providers"`
	}
	for _, given := range grafana.Configs {
		text, err := os.ReadFile(p.Configs[given.Source].File)
		if err != nil {
			t.Fatal(err)
		}
		var into any = &sources
		if strings.HasPrefix(given.Target, "/etc/grafana/provisioning/dashboards/") {
			into = &dashboards
		}
		if err := strict.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s: %v", given.Target, err)
		}
	}
	if len(sources.Sources) != 1 || sources.Sources[0].Type != "prometheus" || sources.Sources[0].URL != "http://prometheus:9090" || !sources.Sources[0].Default {
		t.Errorf("data sources: %+v, want compose's Prometheus", sources)
	} else if every := composeScraping(t).Global["scrape_interval"]; sources.Sources[0].JSON["timeInterval"] != every {
		t.Errorf("Grafana takes scrapes to be %v apart, and they are %v", sources.Sources[0].JSON["timeInterval"], every)
	}
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Type != "file" {
		t.Fatalf("dashboards: %+v", dashboards)
	}
	mounted := ""
	for _, volume := range grafana.Volumes {
		if volume.Target == dashboards.Providers[0].Options["path"] && volume.ReadOnly {
			mounted = volume.Source
		}
	}
	if !exists(mounted, "evalfleet.json") {
		t.Errorf("no dashboard in %q, which is mounted at %s", mounted, dashboards.Providers[0].Options["path"])
	}
	env := asMap(grafana.Environment)
	if env["GF_AUTH_ANONYMOUS_ENABLED"] != "false" || env["GF_SECURITY_ADMIN_PASSWORD__FILE"] != "/run/secrets/grafana" || len(grafana.Secrets) != 1 {
		t.Error("Grafana lets anybody in")
	}
	if home := env["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home != dashboards.Providers[0].Options["path"]+"/evalfleet.json" {
		t.Errorf("Grafana begins with %s", home)
	}
}

// dashboard is what of Grafana's model is used here.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Query any    `json:"query"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	Pos struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	fromJSON(t, read(t, dashboardFile), &d)
	return d
}

// Each panel says what it shows and in which unit, of the data source that was chosen,
// and covers no other.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	ids, cells := map[int]bool{}, map[[2]int]string{}
	rows, page := 0, read(t, "docs/monitoring.md")
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: a second panel %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.Pos.X; x < p.Pos.X+p.Pos.W; x++ {
			for y := p.Pos.Y; y < p.Pos.Y+p.Pos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies outside or covers %q", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows++
			if !strings.Contains(page, "\n| "+p.Title+" | ") {
				t.Errorf("docs/monitoring.md does not tell of the row %s", p.Title)
			}
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d, %q, lacks a title, description, unit or expression, or has its own data source", p.ID, p.Title)
		}
	}
	if d.UID == "" || rows != 7 {
		t.Errorf("dashboard %q with %d rows, want 7", d.UID, rows)
	}
}

// The chart hands on the alerts and the dashboard as they are: Helm reads none of the
// braces in them.
func TestChartMonitoring(t *testing.T) {
	t.Parallel()
	files, err := rendered(t, "monitoring: {rules: {enabled: true}, dashboards: {enabled: true}}", "Helm")
	if err != nil {
		t.Fatal(err)
	}
	var wrapped, plain struct {
		Spec   map[string]any    `json:"spec"`
		Data   map[string]string `json:"data"`
		Groups []any             `json:"groups"`
	}
	found := 0
	if err := strict.Unmarshal([]byte(read(t, alertsFile)), &plain); err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(files["monitoring.yaml"], "\n---\n") {
		wrapped.Spec, wrapped.Data = nil, nil
		if err := strict.Unmarshal([]byte(document), &wrapped); err != nil {
			t.Fatal(err)
		}
		if groups, ok := wrapped.Spec["groups"]; ok {
			found++
			if !reflect.DeepEqual(groups, any(plain.Groups)) {
				t.Error("the chart's rules are not those of the file")
			}
		}
		if text, ok := wrapped.Data["evalfleet.json"]; ok {
			found++
			if text != read(t, dashboardFile) {
				t.Error("the chart's dashboard is not that of the file")
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of rules and dashboard in\n%s", found, files["monitoring.yaml"])
	}
}
