//go:build look

package web

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/looktest"
)

// TestLook has Chromium show the pages of results, and of an evaluation that has ended early, at
// two widths in both themes: nothing but tables scrolls sideways, and axe-core finds nothing
// serious.
func TestLook(t *testing.T) {
	dir, b := looktest.Folder(t), looktest.NewBrowser(t)
	store := func() string { return filepath.Join(t.TempDir(), "results.db") }
	e, texts, entries := compared()
	results := explored(t, store(), e, texts, entries)
	e, texts, entries = disputed()
	pairs := explored(t, store(), e, texts, entries)
	stopped := stoppedSite(t)
	for _, page := range []struct {
		name string
		of   *site
		path string
	}{
		{"results", results, "/results"}, {"results-filtered", results, "/results?state=failed"}, {"run", results, "/runs/0.0"}, {"run-failed", results, "/runs/0.8"},
		{"pairs", pairs, "/pairs"}, {"pair", pairs, "/pairs/0.1"}, {"files", pairs, "/files"}, {"served-report", pairs, "/report"}, {"results-long", pairs, "/results"}, {"run-long", pairs, "/runs/0.4"},
		{"folder", pairs, ""},
		{"stopped", stopped, ""},
	} {
		id := page.of.done
		if page.of == stopped {
			id = stopped.idle
		}
		b.Show(t, dir, page.name, page.of.server.URL+"/evaluations/"+string(id)+page.path, "")
	}
	// However long the texts are, what judges said is not far below them.
	for _, width := range []int{1400, 400} {
		b.Open(pairs.server.URL+"/evaluations/"+string(pairs.done)+"/pairs/0.1", width, false)
		var screens float64
		b.Run(`document.getElementById("said").getBoundingClientRect().top / innerHeight`, &screens)
		if screens > 3 {
			t.Errorf("at %d what judges said begins after %.1f screens", width, screens)
		}
	}
	b.Show(t, dir, "stopped-dashboard", stopped.server.URL+"/", "")
	two := twoRanked(t)
	b.Show(t, dir, "two-evaluations", two.server.URL+"/", "")
	b.Show(t, dir, "comparison", two.server.URL+two.comparison(), "")
	// asynqmon is not ours to judge, but the link back is.
	for _, width := range []int{1400, 400} {
		b.Open(stopped.server.URL+"/asynqmon/", width, false)
		b.Run(`new Promise(r => { const i = setInterval(() => { if (document.querySelector("#root table")) { clearInterval(i); r(1); } }, 50); })`, nil)
		b.Shoot(filepath.Join(dir, fmt.Sprintf("asynqmon-%d.png", width)))
		var above bool
		b.Run(`(l => { const r = l.getBoundingClientRect(); return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) === l; })(document.querySelector('a[href="/queues"]'))`, &above)
		if !above {
			t.Errorf("at %d something covers the link back", width)
		}
	}
}
