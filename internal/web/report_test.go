package web

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/report"
)

// The report that the pages serve leads back to its evaluation, and from verdicts and failures
// to their runs; the file leads nowhere.
func TestServedReportLinks(t *testing.T) {
	t.Parallel()
	e, texts, entries := compared()
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	of := "/evaluations/" + string(s.done)
	_, page := s.ask(http.MethodGet, of+"/report")
	if !strings.Contains(page, `<a href="../`+string(s.done)+`">`) {
		t.Error("the report does not lead back")
	}
	links := regexp.MustCompile(`<a href="(runs/[^"]*)">([^<]*)</a>`).FindAllStringSubmatch(page, -1)
	if len(links) < 4 {
		t.Errorf("the report links %d runs, want at least 4", len(links))
	}
	for _, link := range links {
		if got, _ := s.ask(http.MethodGet, of+"/"+link[1]); got.code != http.StatusOK || link[1] != "runs/"+link[2] {
			t.Errorf("the link of run %s to %s answers %d", link[2], link[1], got.code)
		}
	}
	if _, file := s.ask(http.MethodGet, "/api"+of+"/files/report.html"); strings.Contains(file, `href="runs/`) || strings.Contains(file, `href="../`) {
		t.Error("the file has links that lead nowhere")
	}
}

// Reports and pages have the same colours, bar and tables, because both take them from one style.
func TestReportsAndPagesShareTheirStyle(t *testing.T) {
	t.Parallel()
	e, texts, entries := compared()
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	of := "/evaluations/" + string(s.done)
	_, built := s.ask(http.MethodGet, of+"/report")
	got, sheet := s.ask(http.MethodGet, "/assets/style.css")
	if !strings.Contains(built, "<style>"+report.BaseStyle()) || !strings.HasPrefix(sheet, report.BaseStyle()) {
		t.Error("the report or the style sheet does not begin with the shared style")
	}
	if kind := got.header.Get("Content-Type"); kind != "text/css; charset=utf-8" {
		t.Errorf("the style sheet is %q", kind)
	}
	own := regexp.MustCompile(`(?m)^\s*--[a-z]`)
	_, rest, _ := strings.Cut(sheet, report.BaseStyle())
	_, page := s.ask(http.MethodGet, of)
	if found := own.FindString(rest); found != "" {
		t.Errorf("the pages define a colour of their own: %s", found)
	}
	for _, bar := range []string{built, page} {
		if !regexp.MustCompile(`class="site">\s*<nav aria-label="Pages">\s*<a class="brand" href="/"`).MatchString(bar) {
			t.Error("a page lacks the bar")
		}
	}
}
