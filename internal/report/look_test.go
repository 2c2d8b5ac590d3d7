//go:build look

package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/looktest"
	"github.com/evalfleet/evalfleet/providers"
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

// TestLook has Chromium show the pages at two widths in both themes, and print them:
// nothing but tables and figures scrolls sideways, and axe-core finds nothing serious.
func TestLook(t *testing.T) {
	dir, b := looktest.Folder(t), looktest.NewBrowser(t)
	five := func() *Report {
		names := []string{"llama-7b", "mistral-7b-instruct", "pythia-6.9b", "bloom-7b", "日本語モデル"}
		return built(t, whole(names, []string{"q1", "q2", "q3", "q4"}), Options{Draws: 200})
	}
	for name, write := range map[string]func() string{
		"whole": func() string { return pageOf(t, five()) },
		"200": func() string {
			return pageOf(t, built(t, whole(names(200), []string{""}), Options{Draws: 20}))
		},
		"1000":    func() string { return pageOf(t, built(t, many(1000), Options{Draws: 20})) },
		"hostile": func() string { return pageOf(t, hostileReport(t)) },
		"nothing": func() string {
			return pageOf(t, built(t, sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")), Options{}))
		},
		"gates-and-until": func() string {
			m := checked()
			m.evaluation.Settings.Until = &record.Until{Top: 1, Confidence: .95, MaxPairs: 180}
			m.evaluation.Stopped = &results.Stop{Known: &results.Known{}}
			return pageOf(t, built(t, m, Options{Draws: 50}))
		},
		"comparison": func() string { return comparisonPage(t, five(), built(t, typical(), Options{})) },
	} {
		t.Run(name, func(t *testing.T) {
			page := write()
			if !strings.Contains(html.UnescapeString(page), `<meta http-equiv="Content-Security-Policy" content="`+Policy()+`">`) {
				t.Fatal("the page has another policy")
			}
			file := filepath.Join(dir, name+".html")
			if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			looktest.Print(t, "file://"+file, filepath.Join(dir, name+".pdf"))
			b.Show(t, dir, name, "file://"+file, "")
		})
	}
	t.Run("tables", func(t *testing.T) {
		b.For(t)
		defer b.For(t)
		sortAndSearch(t, b, filepath.Join(dir, "1000.html"))
	})
}

// sortAndSearch clicks on heads of the ranking in file and searches it. All of its rows take part, also those that are
// folded away.
func sortAndSearch(t *testing.T, b *looktest.Browser, file string) {
	t.Helper()
	const table = "document.querySelector('table.main')"
	click := func(column int) (first string) {
		b.Run(fmt.Sprintf("%s.tHead.rows[0].cells[%d].querySelector('button').click()", table, column), nil)
		b.Run(table+".tBodies[0].rows[0].textContent", &first)
		return first
	}
	b.Open("file://"+file, 1400, false)

	worst, alone := "", 0
	b.Run("[...document.querySelectorAll('details[data-rest] tbody tr')].at(-1).cells[0].textContent", &worst)
	best := click(0)
	if last := click(0); !strings.HasPrefix(best, "1") || !strings.HasPrefix(last, worst) {
		t.Errorf("by rank: first %q and, clicked again, %q, want rank 1 and %q", best, last, worst)
	}
	if first := click(1); !strings.Contains(first, "candidate-0000") {
		t.Errorf("by name: %q is first, want candidate-0000", first)
	}
	if first := click(2); first != best {
		t.Errorf("by score: %q is first, want %q", first, best)
	}
	b.Run(`(() => { const search = document.querySelector("#ranking ~ section input"); search.value = "CANDIDATE-0042";
		search.dispatchEvent(new Event("input")); return [...`+table+`.tBodies[0].rows].filter(r => !r.hidden).length; })()`, &alone)
	if alone != 1 {
		t.Errorf("a search for one candidate leaves %d rows, want 1", alone)
	}
	b.Quiet("")
}
