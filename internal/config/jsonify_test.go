package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

func TestJsonify(t *testing.T) {
	t.Parallel()
	const old = "anthropic:claude-3-5-haiku-latest" // without structured output
	byDefault := &eval.Jsonify{Provider: "openai", Model: "gpt-4.1-mini"}
	zero := 0.0
	for _, test := range []struct {
		name, judges, more string
		want               *eval.Jsonify
		warns              string
	}{
		{"one call", "openai:gpt-5-mini", "json: true\n", nil, ""},
		{"no JSON", old, "json: false\n", nil, ""},
		{"JSON where the model has it", old, "json: auto\n", nil, ""},
		{"JSON always", old, "json: true\n", byDefault, old + " cannot produce the requested JSON in one call: openai:gpt-4.1-mini writes it"},
		{"the second judge's", "openai:gpt-5-mini, " + old, "json: true\n", byDefault, old + " cannot"},
		{"grounded", "google:gemini-2.5-flash", "grounding: required\n", byDefault, "google:gemini-2.5-flash cannot"},
		{"grounded, in one call", "openai:gpt-5-mini", "grounding: required\njson: true\n", nil, ""},
		{"grounded, no JSON", "google:gemini-2.5-flash", "grounding: required\njson: false\n", nil, ""},
		{"not grounded", "google:gemini-2.5-flash", "json: true\n", nil, ""},
		{"deep research", "openaidp:o4-mini-deep-research", "", byDefault, "openaidp:o4-mini-deep-research cannot"},
		{"own", old, "json: true\njsonify: {provider: gemini, model: gemini-2.5-flash, temperature: 0, max_output_tokens: 2000}\n",
			&eval.Jsonify{Provider: "google", Model: "gemini-2.5-flash", Temperature: &zero, MaxOutputTokens: 2000}, ""},
		{"bounds alone", old, "json: true\njsonify: {max_output_tokens: 2000}\n", &eval.Jsonify{Provider: "openai", Model: "gpt-4.1-mini", MaxOutputTokens: 2000}, ""},
		{"for no judge", "openai:gpt-5-mini", "jsonify: {}\n", byDefault, "jsonify has no effect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := load(t, with(two, "eval.yaml", "documents: [docs/*.md]\njudges: ["+test.judges+"]\npairwise: {}\n"+test.more), Options{})
			if diff := cmp.Diff(test.want, s.Evaluation.Jsonify); diff != "" {
				t.Errorf("jsonify (-want +got):\n%s", diff)
			}
			warnings := Problems(s.Warnings).Error()
			if test.warns == "" && warnings != "" || !strings.Contains(warnings, test.warns) {
				t.Errorf("warnings %q, want %q", warnings, test.warns)
			}
			judges := s.Evaluation.Judges
			if got, want := s.TwoCalls(eval.KindPairwise, judges[len(judges)-1]), test.want != nil && test.name != "for no judge"; got != want {
				t.Errorf("two calls: got %v, want %v", got, want)
			}
		})
	}
}

// Who writes the JSON is asked like a judge: its price counts, and that
// it is asked at all.
func TestJsonifyIsAsked(t *testing.T) {
	t.Parallel()
	const text = "documents: [docs/*.md]\njudges: [anthropic:claude-3-5-haiku-latest]\npairwise: {}\njson: true\n" +
		"concurrency: {per_provider: {openai: {max_concurrency: 3}}}\nprices: {\"openai:gpt-4.1-mini\": {input: 1, output: 2}}\n"
	s := load(t, with(two, "eval.yaml", text), Options{})
	if p := s.Settings.Prices["openai:gpt-4.1-mini"]; p.Output != 2 {
		t.Errorf("prices: got %+v, want that of who writes the JSON", s.Settings.Prices)
	}
	for _, w := range s.Warnings {
		if strings.Contains(w.Message, "provider openai") {
			t.Errorf("warning %v about a limit that is met", w)
		}
	}
	s.Evaluation.Jsonify = nil
	if id := load(t, with(two, "eval.yaml", text), Options{}).Evaluation.ID(); id == s.Evaluation.ID() {
		t.Error("who writes the JSON is no part of the identity")
	}
}
