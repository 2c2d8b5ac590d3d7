package web

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/report"
)

// TestServedAnswers: the evaluation and its report lead to the answers; parameters are checked; the policy permits the
// page's own script alone; and the downloaded report has its answers beside it.
func TestServedAnswers(t *testing.T) {
	t.Parallel()
	e, texts, entries := compared()
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	of := "/evaluations/" + string(s.done)
	for path, link := range map[string]string{of: `href="` + of + `/answers"`, of + "/report": `href="answers"`} {
		if _, page := s.ask(http.MethodGet, path); !strings.Contains(page, link) {
			t.Errorf("%s does not lead to the answers", path)
		}
	}

	got, page := s.ask(http.MethodGet, of+"/answers")
	if got.code != http.StatusOK || !strings.Contains(page, `<article class="item" id="item-1"`) || !strings.Contains(page, `<a href="../`+string(s.done)+`">`) {
		t.Errorf("the answers answer %d: %.300s", got.code, page)
	}
	if policy := got.header.Get("Content-Security-Policy"); policy != report.AnswersPolicy()+"; frame-ancestors 'none'" {
		t.Errorf("the policy is %q", policy)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) && !regexp.MustCompile(`[<>&"'\x00-\x1f]`).MatchString(text) {
			t.Errorf("the answers lack the text %.80q", text)
		}
	}

	for _, query := range []string{"?row=-1", "?row=x", "?candidate=a", "?column=99999999999999999999"} {
		if got, _ := s.ask(http.MethodGet, of+"/answers"+query); got.code != http.StatusBadRequest {
			t.Errorf("%s answers %d, want 400", query, got.code)
		}
	}
	if got, page := s.ask(http.MethodGet, of+"/answers?row=1000"); got.code != http.StatusOK || !strings.Contains(page, "There are no answers here.") {
		t.Errorf("after the last row: %d", got.code)
	}
	if got, file := s.ask(http.MethodGet, "/api"+of+"/files/answers.html"); got.code != http.StatusOK || strings.Contains(file, `href="../`) || !strings.Contains(file, `href="report.html"`) {
		t.Errorf("the file of answers answers %d, or has links that lead nowhere", got.code)
	}
}
