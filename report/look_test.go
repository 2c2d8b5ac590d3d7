//go:build look

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/results"
)

var (
	lookInto = flag.String("look", "", "folder that TestLook fills with pages, and with what Chromium shows and prints of them")
	axe      = flag.String("axe", "", "axe.min.js of axe-core, which TestLook has judge the pages")
)

// whole is an evaluation that has everything to show.
func whole(candidates, items []string) *memory {
	m := tournament(candidates, items, []string{"careful", "average", "careless"}, []float64{0, .3, 1.2}, 3).
		withScores("factuality", "style").
		withFailures(7, providers.Malformed, "the answer has no winner_doc_id after 2 repairs").
		withCalls(100, "", "provider/simulator/concurrency", "provider/openai/model/gpt-5/requests/1m0s", "provider/openai/cooldown", "redis/memory")
	how := record.DefaultFallback
	how.Models = []string{"google:gemini-2.5-flash-lite"}
	m.evaluation.Settings.Fallback = &how
	m.statistics = results.Statistics{Total: 1000, Primary: 850, Fallback: 150, Waited: 320, RateLimitWaits: 400, RateLimitFallbacks: 140, ContextFallbacks: 10}
	return m
}

// looked is what a browser says of a page.
type looked struct {
	LoadedMS      float64 `json:"loaded_ms"`
	Wide          bool    `json:"wide"` // the page itself scrolls sideways
	Errors        []string
	Violations    []violation
	Dark          bool
	Width, Height float64
}

type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// TestLook has Chromium show the pages at two widths in both themes, and print them:
// nothing but tables and figures scrolls sideways, and axe-core finds nothing serious.
func TestLook(t *testing.T) {
	if *lookInto == "" {
		t.Fatal("-look names no folder: `make look` does")
	}
	dir, err := filepath.Abs(*lookInto)
	if err != nil {
		t.Fatal(err)
	}
	five := func() *Report {
		names := []string{"llama-7b", "mistral-7b-instruct", "pythia-6.9b", "bloom-7b", "日本語モデル"}
		return built(t, whole(names, []string{"q1", "q2", "q3", "q4"}), Options{Resamples: 200})
	}
	for name, write := range map[string]func() string{
		"whole": func() string { return pageOf(t, five()) },
		"200": func() string {
			return pageOf(t, built(t, whole(names(200), []string{""}), Options{Resamples: 20}))
		},
		"1000":    func() string { return pageOf(t, built(t, thousand(), Options{Resamples: 20})) },
		"hostile": func() string { return pageOf(t, hostileReport(t)) },
		"nothing": func() string {
			return pageOf(t, built(t, sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")), Options{}))
		},
		"comparison": func() string { return comparisonPage(t, five(), built(t, typical(), Options{})) },
	} {
		t.Run(name, func(t *testing.T) {
			page := write()
			file := filepath.Join(dir, name+".html")
			if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			chromium(t, false, "--print-to-pdf="+filepath.Join(dir, name+".pdf"), "--no-pdf-header-footer", "file://"+file)
			for _, width := range []int{1400, 400} {
				for _, dark := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d, dark %t", width, dark), func(t *testing.T) { judge(t, dir, name, page, width, dark) })
				}
			}
		})
	}
}

// judge has axe-core look at a copy of the page that may run scripts, in a frame of
// the width, since no window is as narrow as a telephone.
func judge(t *testing.T, dir, name, page string, width int, dark bool) {
	script, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`
	if !strings.Contains(page, policy) {
		t.Fatal("the page has another policy")
	}
	probe := fmt.Sprintf(`<script>%s</script><script>
addEventListener("load", async () => {
  const loaded = performance.now(), d = document.documentElement, errors = [];
  const found = await axe.run(document, {resultTypes: ["violations"]}).catch(e => (errors.push(String(e)), {violations: []}));
  parent.postMessage(JSON.stringify({loaded_ms: loaded, wide: d.scrollWidth > d.clientWidth, errors: errors, width: innerWidth, height: d.scrollHeight,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    violations: found.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => ({html: n.html}))}))}), "*");
});</script></body>`, script)
	judged := strings.Replace(strings.Replace(page, policy, "", 1), "</body>", probe, 1)
	frame := func(of string, height int, more string) string {
		return fmt.Sprintf(`<!doctype html><body style="margin:0"><iframe style="border:0;width:%dpx;height:%dpx" srcdoc="%s"></iframe>%s`,
			width, height, html.EscapeString(of), more)
	}
	at := filepath.Join(t.TempDir(), "frame.html")
	write := func(text string) {
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(frame(judged, 900, `<pre id="said"></pre><script>addEventListener("message", e => { said.textContent = e.data })</script>`))
	dom := chromium(t, dark, "--window-size=1500,1000", "--virtual-time-budget=100000", "--dump-dom", "file://"+at)
	_, after, _ := strings.Cut(dom, `<pre id="said">`)
	said, _, ok := strings.Cut(after, "</pre>")
	var got looked
	if err := json.Unmarshal([]byte(html.UnescapeString(said)), &got); err != nil || !ok {
		t.Fatalf("the browser says %q: %v", said, err)
	}
	if got.Width != float64(width) || got.Dark != dark {
		t.Errorf("shown at %g, dark %t", got.Width, got.Dark)
	}
	if got.Wide {
		t.Errorf("the page scrolls sideways")
	}
	for _, err := range got.Errors {
		t.Error(err)
	}
	for _, v := range got.Violations {
		text := fmt.Sprintf("%s (%s): %s, %d times, such as %.300s", v.ID, v.Impact, v.Help, len(v.Nodes), v.Nodes[0].HTML)
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Error(text)
		} else {
			t.Log(text)
		}
	}
	theme := map[bool]string{false: "light", true: "dark"}[dark]
	height := min(int(got.Height), 16000)
	write(frame(page, height, ""))
	began := time.Now()
	chromium(t, dark, fmt.Sprintf("--window-size=%d,%d", max(width, 500), height), "--hide-scrollbars",
		"--screenshot="+filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), "file://"+at)
	t.Logf("%d bytes, loaded in %.0f ms with axe-core, shown in %v with the browser's start", len(page), got.LoadedMS, time.Since(began).Round(time.Millisecond))
}

func chromium(t *testing.T, dark bool, args ...string) string {
	t.Helper()
	scheme := "--blink-settings=preferredColorScheme=1"
	if dark {
		scheme = "--blink-settings=preferredColorScheme=0"
	}
	command := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("CHROMIUM"), "chromium"),
		append([]string{"--headless", "--no-sandbox", "--disable-gpu", scheme}, args...)...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, problems.String())
	}
	return out.String()
}
