package results

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// The name of an evaluation in a received folder becomes part of files' names on any system,
// and hides nothing there.
func TestFilesAreNamedHarmlessly(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nul": "_nul", "COM1.x": "_COM1.x", "..": "__", "a\x1b[31m\u202eb": "a_[31m_b", "c:d": "c_d", "../../e": ".._.._e",
		strings.Repeat("é", 240): "",
	} {
		for _, format := range []eval.PromptFormat{eval.PromptsExperiment, eval.PromptsBatch} {
			e, texts := asked(name, `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}`)
			e.Plan.Prompts.Format = format
			e.ID = e.Plan.ID()
			db := putExperiment(t, newPath(t), e, texts, ended(e, 0, epoch, func(*record.Run) {}))
			place := Place{Dir: t.TempDir(), Data: t.TempDir(), CSV: true}
			if _, err := Export(t.Context(), place, db, e.ID, Rankings{}); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			found := false
			for _, dir := range []string{place.Dir, place.Data} {
				_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
					if base := entry.Name(); err != nil || path != dir && (!harmless.IsName(base) || eval.IsDevice(base) || strings.ContainsAny(base, `:\`)) {
						t.Errorf("%q: got %q, %v", name, base, err)
					}
					found = found || strings.Contains(path, want)
					return nil
				})
			}
			if !found {
				t.Errorf("%q in format %s: no file is named by %q", name, format, want)
			}
		}
	}
}
