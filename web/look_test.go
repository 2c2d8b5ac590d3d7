//go:build look

package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/looktest"
)

// TestLook has Chromium show the pages of results at two widths in both themes:
// nothing but tables scrolls sideways, and axe-core finds nothing serious.
func TestLook(t *testing.T) {
	dir := looktest.Folder(t)
	e, texts, entries := compared()
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`<link rel="(icon|stylesheet)"[^>]*>`)
	for name, path := range map[string]string{
		"results": "/results", "results-filtered": "/results?state=failed", "pairs": "/pairs", "run": "/runs/0.0", "run-failed": "/runs/0.8",
	} {
		got, page := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+path)
		if got.code != http.StatusOK {
			t.Fatalf("%s answers %d", path, got.code)
		}
		// In a frame there is no server to link to.
		page = linked.ReplaceAllString(page, "")
		page = strings.Replace(page, "</head>", "<style>"+string(style)+"</style></head>", 1)
		for _, width := range []int{1400, 400} {
			for _, dark := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d, dark %t", name, width, dark), func(t *testing.T) { looktest.Judge(t, dir, name, page, width, dark) })
			}
		}
	}
}
