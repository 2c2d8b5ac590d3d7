package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// A model that refuses what a judge's overrides ask for is asked without it, and the
// warning says so before anything is paid.
func TestOverridesThatAModelRefuses(t *testing.T) {
	t.Parallel()
	for overrides, want := range map[string][]string{
		"{temperature: 0}":                         {"openai:gpt-5-mini does not take a temperature here, so it is not sent"},
		"{reasoning_effort: none, temperature: 0}": {"does not take reasoning_effort: none, so it is not sent", "does not take a temperature"},
		"{reasoning_effort: low}":                  nil,
	} {
		dir := folder(t, map[string]string{
			"a.md": "a", "b.md": "b",
			"eval.yaml": "documents: [\"*.md\"]\njudges: [{model: openai:gpt-5-mini, overrides: " + overrides + "}]\npairwise: {pairs: all}\n",
		})
		s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Warnings) != len(want) {
			t.Errorf("%s: got warnings %v, want %d", overrides, s.Warnings, len(want))
			continue
		}
		for i, warning := range s.Warnings {
			if !strings.Contains(warning.String(), want[i]) {
				t.Errorf("%s: got %q, want %q in it", overrides, warning.String(), want[i])
			}
		}
	}
}
