package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// TestAModelThatDoesNotReasonIsListedWithoutADemand: what is required by default alone is not
// required of a model that is known to lack it, nor does the file have to say so.
func TestAModelThatDoesNotReasonIsListedWithoutADemand(t *testing.T) {
	t.Parallel()
	fleet, err := LoadFleet("")
	if err != nil {
		t.Fatal(err)
	}
	fleet.Providers["local"] = catalog.Entry{Name: "local", Dialect: catalog.Chat, BaseURL: "http://h/v1", Models: []catalog.Rule{
		{Facts: catalog.Facts{Reasoning: "silent", Search: "web_search_options"}}}}
	file := "runs:\n" +
		"  - {provider: google, model: gemini-1.5-flash, file_a: a.md, file_b: b.md}\n" +
		"  - {provider: google, model: gemini-1.5-flash, file_a: b.md, file_b: a.md}\n" +
		"  - {provider: openai, model: gpt-5-mini, file_a: a.md, file_b: b.md}\n" +
		"  - {provider: local, model: unknown, file_a: a.md, file_b: b.md}\n"
	s := load(t, map[string]string{"a.md": "A.", "b.md": "B.", "eval.yaml": file}, Options{Fleet: fleet})
	if want := []string{"google:gemini-1.5-flash"}; !slices.Equal(s.Settings.Unreasoning, want) {
		t.Errorf("without a demand: got %q, want %q", s.Settings.Unreasoning, want)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), "google:gemini-1.5-flash does not reason") {
		t.Errorf("warnings: got %v, want one about gemini-1.5-flash", s.Warnings)
	}
}

// TestABoundAboveWhatAModelWritesIsWarnedOf: providers refuse it, at the first call.
func TestABoundAboveWhatAModelWritesIsWarnedOf(t *testing.T) {
	t.Parallel()
	for bound, want := range map[string]string{"8192": "", "8193": "google:gemini-1.5-flash writes at most 8192 tokens"} {
		file := "documents: [docs/*.md]\npairwise: {}\njudges: [{model: \"google:gemini-1.5-flash\", overrides: {max_completion_tokens: " + bound + "}}]\n"
		s := load(t, with(two, "eval.yaml", file), Options{})
		if got := Problems(s.Warnings).Error(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got the warning %q, want %q", bound, got, want)
		}
	}
}
