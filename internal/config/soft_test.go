package config

import (
	"strings"
	"testing"
)

// TestSoftThatIsRefused: each refusal names its place and a fix, before anything is paid.
func TestSoftThatIsRefused(t *testing.T) {
	t.Parallel()
	const documents = "documents: [docs/*.md]\n"
	for name, test := range map[string]struct{ file, want, fix string }{
		"criteria":       {"judges: [simulator:careful]\npairwise: {soft: true, criteria: [style]}\n", "pairwise has criteria", "remove soft or criteria"},
		"a scale":        {"judges: [simulator:careful]\npairwise: {soft: true, scale: 5}\n", "pairwise has a scale", "remove soft or scale"},
		"a batch":        {"judges: [simulator:careful]\nbatch: prefer\npairwise: {soft: true}\n", "requests in batches cannot ask", "remove it, or soft"},
		"a reasoner":     {"judges: [openai:gpt-5-mini]\npairwise: {soft: true}\n", "openai:gpt-5-mini gives no log probabilities", "ask a model that does"},
		"Anthropic":      {"judges: [anthropic:claude-sonnet-4-5]\npairwise: {soft: true}\n", "gives no log probabilities", "ask a model that does"},
		"an unknown one": {"judges: [p:m]\nproviders: {p: {base_url: \"http://127.0.0.1:1/v1\"}}\npairwise: {soft: true}\n", "it is not known whether p:m", "set logprobs: true for it under providers.p.models"},
		"a fallback": {"judges: [openai:gpt-4.1-mini]\nfallback: {models: [\"openai:o3\"]}\npairwise: {soft: true}\n",
			"openai:o3 gives no log probabilities", "ask a model that does"},
		"two calls": {"judges: [google:gemini-2.0-flash]\njson: auto\ngrounding: required\njsonify: openai:gpt-4.1-mini\npairwise: {soft: true}\n",
			"needs a second call", "remove soft"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, said := problemsOf(t, with(two, "eval.yaml", documents+test.file), Options{})
			if !strings.Contains(said, test.want) || !strings.Contains(said, test.fix) || !strings.Contains(said, "eval.yaml:") {
				t.Errorf("got %s\nwant %q and %q", said, test.want, test.fix)
			}
		})
	}

	asked := load(t, with(two, "eval.yaml", documents+"judges: [openai:gpt-4.1-mini]\npairwise: {soft: true}\n"), Options{})
	plain := load(t, with(two, "eval.yaml", documents+"judges: [openai:gpt-4.1-mini]\npairwise: {soft: false}\n"), Options{})
	without := load(t, with(two, "eval.yaml", documents+"judges: [openai:gpt-4.1-mini]\npairwise: {}\n"), Options{})
	if !asked.Evaluation.Pairwise.Soft || !asked.Evaluation.Extended() || plain.Evaluation.Extended() ||
		asked.Evaluation.ID() == plain.Evaluation.ID() || plain.Evaluation.ID() != without.Evaluation.ID() {
		t.Errorf("%+v; ids %s, %s, %s", asked.Evaluation.Pairwise, asked.Evaluation.ID(), plain.Evaluation.ID(), without.Evaluation.ID())
	}
}
