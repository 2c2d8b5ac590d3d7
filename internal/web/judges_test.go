package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
)

// The page of judges is linked from all pages and shows those that were asked about anchors, with links to the reports.
// Hostile names are shown harmlessly.
func TestPageOfJudges(t *testing.T) {
	t.Parallel()
	const hostile = "<script>alert(1)</script>"
	e, texts, entries := compared()
	without := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	if got, page := without.ask(http.MethodGet, "/judges"); got.code != http.StatusOK || !strings.Contains(page, "No judge was asked about anchors yet.") {
		t.Errorf("without anchors, the page answers %d:\n%s", got.code, page)
	}
	if _, list := without.ask(http.MethodGet, "/"); !strings.Contains(list, `<a href="/judges"`) {
		t.Error("the list of evaluations has no link to the page of judges")
	}

	e.Plan.Name, e.Plan.Anchors = hostile+eval.AnchorsSuffix, &eval.Anchors{Of: "ev-aaaaaaaaaaaa"}
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	got, page := s.ask(http.MethodGet, "/judges")
	if got.code != http.StatusOK || got.header.Get("Content-Security-Policy") != report.Policy()+reportPolicy {
		t.Fatalf("the page answers %d with the policy %q", got.code, got.header.Get("Content-Security-Policy"))
	}
	for _, want := range []string{"Judges over time", fmt.Sprintf(`<a href="evaluations/%s/report">`, e.ID), "alert(1)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, hostile) {
		t.Error("the page has the name as it is")
	}
}
