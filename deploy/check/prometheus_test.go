package check

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	strict "sigs.k8s.io/yaml"
)

// watched is a fleet at work, and a Prometheus that scrapes it.
type watched struct {
	t                 *testing.T
	dir               string
	prometheus, pages string // URLs
	began             time.Time
}

// start runs a program until the test ends.
func (w *watched) start(name string, args ...string) {
	w.t.Helper()
	log, err := os.CreateTemp(w.dir, filepath.Base(name)+"-*.log")
	if err != nil {
		w.t.Fatal(err)
	}
	command := exec.Command(name, args...)
	command.Dir, command.Stdout, command.Stderr = w.dir, log, log
	if err := command.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && w.t.Failed() {
			w.t.Logf("%s: %s", log.Name(), text)
		}
		_ = log.Close()
	})
}

func (w *watched) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// watch starts a controller, two workers and three evaluations against a simulated
// provider, in which runs wait for a limit, are refused for longer than they wait, fall
// back and fail, and a Prometheus configured as compose's is, but for where it looks
// and how often.
func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), began: time.Now()}
	simulator, redis := freeAddress(t), privateRedis(t, "--maxmemory", "1gb")
	w.write("simulator.json", `{"latency": "50ms..100ms", "models": {
		"refuses": {"behaviour": {"throttle_rate": 1, "retry_after": "6s"}},
		"fails": {"behaviour": {"fail_rate": 0.5}},
		"paced": {}}}`)
	w.start(program(t), "simulate", "--listen", simulator, "--settings", "simulator.json")
	w.write("fleet.yaml", fmt.Sprintf(`
providers:
  simulator: {base_url: "http://%[1]s/v1"}
  strict: {dialect: chat, base_url: "http://%[1]s/v1"}
prices: {"simulator:*": {input: 1, output: 10}, "strict:*": {input: 1, output: 10}}
concurrency:
  per_provider:
    simulator: {max_concurrency: 8, models: {paced: {rate_limit: {qps: 4}}}}
    strict: {max_concurrency: 8, adaptive: true}
`, simulator))
	controller, pages, prometheus := freeAddress(t), freeAddress(t), freeAddress(t)
	w.pages, w.prometheus = "http://"+pages, "http://"+prometheus
	w.start(program(t), "controller", "--redis", redis, "--listen", pages, "--metrics-addr", controller, "--prometheus", w.prometheus)
	workers := []string{freeAddress(t), freeAddress(t)}
	for _, address := range workers {
		w.start(program(t), "worker", "--redis", redis, "--config", "fleet.yaml", "--metrics-addr", address)
	}
	for i := range 12 {
		w.write(fmt.Sprintf("%d.md", i), fmt.Sprintf("Text number %d.", i))
	}
	for name, rest := range map[string]string{
		"falls": "judges: [\"strict:refuses\", \"simulator:paced\"]\nfallback: {models: [\"simulator:careful\"], max_wait_seconds: 5, max_retries: 1, after_429_seconds: 1}\nbudget: {usd: 50}\n",
		"fails": "judges: [\"simulator:fails\"]\nretry: {max_attempts: 2, base_delay_ms: 100}\n",
		// Prometheus may start long after the refusals of the first, and their limit is whole again soon.
		"refused": "judges: [\"strict:refuses\"]\nretry: {max_attempts: 10}\n",
	} {
		w.write(name+".yaml", "name: "+name+"\ndocuments: [\"*.md\"]\npairwise: {}\n"+rest)
		command := exec.Command(program(t), "enqueue", name+".yaml", "--redis", redis, "--config", "fleet.yaml")
		command.Dir = w.dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("enqueue: %v: %s", err, out)
		}
	}

	scraping := composeScraping(t)
	alerts, err := filepath.Abs(filepath.Join(root, alertsFile))
	if err != nil {
		t.Fatal(err)
	}
	scraping.RuleFiles = []string{alerts}
	scraping.Global = map[string]any{"scrape_interval": "500ms", "evaluation_interval": "1s"}
	for i, job := range scraping.Scrape {
		targets := map[string][]any{"controller": {controller}, "worker": {workers[0], workers[1]}}[job.Name]
		scraping.Scrape[i].DNS, scraping.Scrape[i].Static = nil, []map[string][]any{{"targets": targets}}
	}
	text, err := strict.Marshal(scraping)
	if err != nil {
		t.Fatal(err)
	}
	w.write("prometheus.yaml", string(text))
	w.start("prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=tsdb", "--web.listen-address="+prometheus, "--log.level=warn")
	return w
}

// get reads a URL; ok is false while there is no answer.
func get(address string) (text []byte, ok bool) {
	response, err := http.Get(address)
	if err != nil {
		return nil, false
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return text, err == nil && response.StatusCode == http.StatusOK
}

// found reports whether an expression has had a value since the fleet began. An error
// is Prometheus's about the expression.
func (w *watched) found(expr string) (bool, error) {
	w.t.Helper()
	query := url.Values{
		"query": {expr}, "step": {"1"},
		"start": {fmt.Sprint(w.began.Unix())}, "end": {fmt.Sprint(time.Now().Unix())},
	}
	response, err := http.Get(w.prometheus + "/api/v1/query_range?" + query.Encode())
	if err != nil {
		return false, nil // it has not started yet
	}
	defer response.Body.Close()
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return false, nil
	}
	if answer.Status != "success" {
		return false, fmt.Errorf("%s", answer.Error)
	}
	return len(answer.Data.Result) > 0, nil
}

// withoutBounds is an alert's expression without what it is compared with, in parts:
// each must find something for the alert to be able to fire.
func withoutBounds(expr parser.Expr) []parser.Expr {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return withoutBounds(e.Expr)
	case *parser.Call:
		if e.Func.Name == "absent" { // which finds something where nothing is
			return []parser.Expr{e.Args[0]}
		}
	case *parser.BinaryExpr:
		if e.Op.IsComparisonOperator() {
			return withoutBounds(e.LHS)
		}
		if e.Op.IsSetOperator() {
			return append(withoutBounds(e.LHS), withoutBounds(e.RHS)...)
		}
	}
	return []parser.Expr{expr}
}

// variableIn is one of Grafana's, the dashboard's own or built in.
var variableIn = regexp.MustCompile(`\$(\w+)`)

// expressions are those of the dashboard and the alerts, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{"__rate_interval": "1m", "__range": "10m"}
	all := map[string]string{}
	d := readDashboard(t)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		values[v.Name] = ".*"
		query := v.Query.(map[string]any)["query"].(string)
		m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query)
		if m == nil {
			t.Fatalf("variable %s asks %s", v.Name, query)
		}
		all["variable "+v.Name] = fmt.Sprintf("%s != 0 or %[1]s == 0", m[1])
		all["variable "+v.Name+", its label"] = fmt.Sprintf("count by (%s) (%s)", m[2], m[1])
	}
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %s, %d", p.Title, i+1)] = target.Expr
		}
	}
	for where, expr := range all {
		all[where] = variableIn.ReplaceAllStringFunc(expr, func(name string) string {
			value, ok := values[name[1:]]
			if !ok {
				t.Errorf("%s uses %s, which there is not", where, name)
			}
			return value
		})
	}
	for _, alert := range rules(t) {
		expr, err := parser.ParseExpr(alert.Expr)
		if err != nil {
			t.Fatalf("%s: %v", alert.Alert, err)
		}
		for i, part := range withoutBounds(expr) {
			all[fmt.Sprintf("alert %s, %d", alert.Alert, i+1)] = part.String()
		}
	}
	return all
}

// Every expression of the dashboard and of the alerts finds something in what a real
// Prometheus has scraped of a fleet at work, and every metric of that is on the page.
func TestExpressions(t *testing.T) {
	t.Parallel()
	all := expressions(t)
	whole, idle := adapterRule(t)
	all["prometheus-adapter's rule"], all["prometheus-adapter's rule where nothing is to do"] = whole, idle
	// That it was a fleet in which things happened.
	all["waits were made"] = "sum(evalfleet_rate_limit_waits_total) > 0"
	all["others were asked"] = "sum(evalfleet_rate_limit_fallbacks_total) > 0"
	all["the provider refused"] = `sum(evalfleet_rate_limited_total{source="http_429"}) > 0`
	all["calls were held back"] = `sum(evalfleet_rate_limited_total{source="local"}) > 0`
	all["a limit is cut"] = "evalfleet_limit_configured - evalfleet_limit_capacity > 0"
	all["both workers worked"] = "count(sum by (instance) (evalfleet_runs_total) > 0) == 2"
	all["tokens were reserved ahead"] = `sum(evalfleet_tokens_reserved_total) >= sum(evalfleet_tokens_total{token_type=~"input|output"}) > 0`
	if runtime.GOOS != "linux" {
		for where, expr := range all {
			if strings.Contains(expr, "process_") { // not told everywhere
				delete(all, where)
			}
		}
	}
	w := watch(t)
	count := len(all)
	for len(all) > 0 { // for half a minute
		for where, expr := range all {
			found, err := w.found(expr)
			if err != nil {
				t.Errorf("%s: %v: %s", where, err, expr)
			}
			if found || err != nil {
				delete(all, where)
			}
		}
		if time.Now().After(lastMoment(t)) {
			for where, expr := range all {
				t.Errorf("%s finds nothing: %s", where, expr)
			}
			break
		}
		time.Sleep(time.Second)
	}
	t.Logf("%d expressions found something within %s", count-len(all), time.Since(w.began).Round(time.Second))
	w.wantRulesWell()
	w.wantCharts()
	w.wantPage()
}

// wantCharts: asynqmon, in the controller's pages, finds what it draws.
func (w *watched) wantCharts() {
	w.t.Helper()
	text, ok := get(w.pages + "/asynqmon/api/metrics")
	var charts map[string]struct {
		Data struct {
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &charts); err != nil || !ok || len(charts) != 9 {
		w.t.Fatalf("asynqmon's charts: %v: %s", err, text)
	}
	for name, chart := range charts {
		if len(chart.Data.Result) == 0 {
			w.t.Errorf("asynqmon's chart %s is empty", name)
		}
	}
}

// wantRulesWell: Prometheus evaluates the alerts, and their texts, without an error.
func (w *watched) wantRulesWell() {
	w.t.Helper()
	text, _ := get(w.prometheus + "/api/v1/rules")
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name      string `json:"name"`
					Health    string `json:"health"`
					LastError string `json:"lastError"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		w.t.Fatalf("rules: %v: %s", err, text)
	}
	n := 0
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			n++
			if r.Health != "ok" {
				w.t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(rules(w.t)); n != want {
		w.t.Errorf("Prometheus has %d rules, the file %d", n, want)
	}
}

var (
	// Where a page has a metric in code, alone or with labels.
	metricNamed = regexp.MustCompile("`(evalfleet_[a-z0-9_]*[a-z0-9])[`{]")
	named       = regexp.MustCompile("(?:evalfleet|asynq)_[a-z0-9_]*[a-z0-9]")
)

// told are the names of the fleet's metrics that have been scraped; some come
// and go.
func (w *watched) told() map[string]bool {
	w.t.Helper()
	text, _ := get(w.prometheus + "/api/v1/label/__name__/values")
	var answer struct {
		Data []string `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		w.t.Fatalf("names: %v: %s", err, text)
	}
	told := map[string]bool{}
	for _, name := range answer.Data {
		if !named.MatchString(name) {
			continue
		}
		for _, part := range []string{"_bucket", "_count", "_sum"} { // of a histogram
			if base, ok := strings.CutSuffix(name, part); ok && slices.Contains(answer.Data, base+"_bucket") {
				name = base
			}
		}
		told[name] = true
	}
	return told
}

// wantPage: docs/monitoring.md lists what is scraped of a worker and the controller,
// and nothing else; what the other pages name is among it.
func (w *watched) wantPage() {
	w.t.Helper()
	told := w.told()
	page := read(w.t, "docs/monitoring.md")
	_, page, _ = strings.Cut(page, "\n## Metrics of a worker\n")
	listed := named.FindAllString(page, -1)
	for _, name := range listed {
		if !told[name] {
			w.t.Errorf("docs/monitoring.md describes %s, which no process exposes", name)
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		w.t.Fatal("no pages")
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range metricNamed.FindAllStringSubmatch(string(text), -1) {
			if !told[m[1]] {
				w.t.Errorf("%s names %s, which no process exposes", path, m[1])
			}
		}
	}
	for name := range told {
		if !slices.Contains(listed, name) {
			w.t.Errorf("docs/monitoring.md lacks %s", name)
		}
	}
}
