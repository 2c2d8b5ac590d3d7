package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// TestEscalateIsRefused: what escalate cannot do is refused, with its place and what to do.
func TestEscalateIsRefused(t *testing.T) {
	t.Parallel()
	const docs, pairs = "documents: [docs/*.md]\n", "pairwise: {}\n"
	const head = docs + "judges: [simulator:average, simulator:careless]\n"
	const one = docs + "judges: [simulator:average]\n"
	for _, tt := range []struct{ name, file, place, says string }{
		{"no pairs", head + "single: {criteria: [style]}\nescalate: {to: simulator:careful}\n", "eval.yaml:4:1: escalate: ", "add pairwise"},
		{"nobody", head + pairs + "escalate: {share: 0.2}\n", "eval.yaml:4:1: escalate: ", "add to: provider:model"},
		{"no provider", head + pairs + "escalate: {to: careful}\n", "eval.yaml:4:16: escalate.to: ", "does not name a provider"},
		{"an unknown provider", head + pairs + "escalate: {to: \"nowhere:x\"}\n", "eval.yaml:4:16: escalate.to: ", "nowhere"},
		{"one of the judges", head + pairs + "escalate: {to: simulator:average}\n", "eval.yaml:4:16: escalate.to: ", "a second judge called simulator:average"},
		{"no sample", head + pairs + "escalate: {to: simulator:careful, share: 0}\n", "eval.yaml:4:42: escalate.share: ", "nothing would show how the strong judge differs"},
		{"a sample of 0 %", head + pairs + "escalate: {to: simulator:careful, share: 0 %}\n", "eval.yaml:4:42: escalate.share: ", "want for example 20 %"},
		{"a large sample", head + pairs + "escalate: {to: simulator:careful, share: 20}\n", "eval.yaml:4:42: escalate.share: ", "above 0 % and at most 100 %"},
		{"no number", head + pairs + "escalate: {to: simulator:careful, share: few}\n", "eval.yaml:4:42: escalate.share: ", "for example 20 %"},
		{"another doubt", head + pairs + "escalate: {to: simulator:careful, when: disagre}\n", "eval.yaml:4:41: escalate.when: ", "did you mean disagree?"},
		{"no doubt", head + pairs + "escalate: {to: simulator:careful, when: []}\n", "eval.yaml:4:41: escalate.when: ", "no pair would be contested"},
		{"one judge cannot disagree", one + pairs + "escalate: {to: simulator:careful, when: [disagree, close]}\n", "eval.yaml:4:1: escalate: ", "needs two judges"},
		{"one order has no flips", head + "pairwise: {order: random}\nescalate: {to: simulator:careful, when: flip}\n", "eval.yaml:4:1: escalate: ", "order: both"},
		{"rounds", head + "pairwise: {pairs: swiss}\nescalate: {to: simulator:careful}\n", "eval.yaml:4:1: escalate: ", "pairs: swiss"},
		{"the best by score", head + "single: {criteria: [style]}\npairwise: {top_n: 2}\nescalate: {to: simulator:careful}\n", "eval.yaml:5:1: escalate: ", "leave top_n out"},
		{"an early end", head + "pairwise: {pairs: sample:1}\nuntil: {}\nescalate: {to: simulator:careful}\n", "eval.yaml:5:1: escalate: ", "leave until out"},
		{"an unknown key", head + pairs + "escalate: {too: simulator:careful}\n", "eval.yaml:4:12: escalate.too: ", "did you mean to?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			problems, got := problemsOf(t, with(two, "eval.yaml", tt.file), Options{})
			if len(problems) == 0 || !strings.Contains(got, tt.place) || !strings.Contains(got, tt.says) {
				t.Errorf("got\n%s\nwant one at %s that says %s", got, tt.place, tt.says)
			}
		})
	}
}

// TestEscalateIsRead: the strong judge is the last one, with its settings. What can make no pair contested is left out by
// default.
func TestEscalateIsRead(t *testing.T) {
	t.Parallel()
	const head, one = "documents: [docs/*.md]\njudges: [simulator:average, simulator:careless]\n", "documents: [docs/*.md]\njudges: [simulator:average]\n"
	all := eval.Doubts()
	for _, tt := range []struct {
		file string
		want eval.Escalate
	}{
		{head + "pairwise: {}\nescalate: {to: simulator:careful}\n", eval.Escalate{When: all, Share: 0.2}},
		{head + "pairwise: {}\nescalate: {to: simulator:careful, when: flip, share: 35 %}\n", eval.Escalate{When: all[1:2], Share: 0.35}},
		{head + "pairwise: {}\nescalate: {to: simulator:careful, when: [close, disagree], share: 0.5}\n", eval.Escalate{When: []eval.Doubt{all[0], all[2]}, Share: 0.5}},
		{head + "pairwise: {}\nescalate: {to: simulator:careful, share: 100%}\n", eval.Escalate{When: all, Share: 1}},
		{one + "pairwise: {}\nescalate: {to: simulator:careful}\n", eval.Escalate{When: all[1:], Share: 0.2}},
		{one + "pairwise: {order: random}\nescalate: {to: simulator:careful}\n", eval.Escalate{When: all[2:], Share: 0.2}},
		{head + "single: {criteria: [style]}\npairwise: {}\nescalate: {to: {name: strong, model: \"simulator:careful\", overrides: {temperature: 0}}}\n", eval.Escalate{When: all, Share: 0.2}},
	} {
		e := load(t, with(two, "eval.yaml", tt.file), Options{}).Evaluation
		if diff := cmp.Diff(&tt.want, e.Escalate); diff != "" {
			t.Errorf("%s(-want +got):\n%s", tt.file, diff)
		}
		if strong := e.Judges[e.Strong()]; strong.Model != "careful" || len(e.FirstJudges()) != len(e.Judges)-1 {
			t.Errorf("%sjudges %+v", tt.file, e.Judges)
		}
	}

	e := load(t, with(two, "eval.yaml", head+
		"single: {criteria: [style]}\npairwise: {}\nescalate: {to: {name: strong, model: \"simulator:careful\", overrides: {temperature: 0}}}\n"), Options{}).Evaluation
	want := eval.Judge{Name: "strong", Provider: "simulator", Model: "careful", Overrides: map[string]any{"temperature": 0.0}}
	if diff := cmp.Diff(want, e.Judges[2]); diff != "" {
		t.Errorf("strong judge (-want +got):\n%s", diff)
	}
	if got := e.JudgesOf(eval.KindSingle); len(got) != 2 {
		t.Errorf("%d judges score, want the first two", len(got))
	}
}
