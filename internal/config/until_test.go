package config

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// TestUntilIsRefused: an evaluation whose first pairs say nothing about the rest, or in which
// the best cannot be known, is refused at until, with what to do.
func TestUntilIsRefused(t *testing.T) {
	t.Parallel()
	const docs, judge = "documents: [docs/*.md]\n", "judges: [simulator:careful]\n"
	const head = docs + judge
	for _, tt := range []struct {
		name, file, place, says string
	}{
		{"no pairs", head + "single: {criteria: [style]}\nuntil: {top: 1}\n", "eval.yaml:4:1: until: ", "add pairwise: {pairs: sample:1}"},
		{"pairs in the plan's order", head + "pairwise: {}\nuntil: {top: 1}\n", "eval.yaml:4:1: until: ", "pairs: sample:1"},
		{"swiss", head + "pairwise: {pairs: swiss}\nuntil: {}\n", "eval.yaml:4:1: until: ", "pairs: sample:1"},
		{"the best by score", head + "single: {criteria: [style]}\npairwise: {pairs: sample:1, top_n: 2}\nuntil: {}\n", "eval.yaml:5:1: until: ", "leave top_n out"},
		{"a panel", head + "pairwise: {pairs: sample:1}\npanel: {agents: [{model: \"simulator:careful\", prompt: p.md}], dimensions: [d]}\nuntil: {}\n", "eval.yaml:5:1: until: ", "a separate evaluation"},
		{"all are the best", head + "pairwise: {pairs: sample:1}\nuntil: {top: 2}\n", "eval.yaml:4:1: until: ", "top 2 of 2 candidates, want 1 to 1"},
		{"none is the best", head + "pairwise: {pairs: sample:1}\nuntil: {top: 0}\n", "eval.yaml:4:14: until.top: ", `got "0"`},
		{"certainty", head + "pairwise: {pairs: sample:1}\nuntil: {confidence: 1}\n", "eval.yaml:4:21: until.confidence: ", "between 0.5 and 1"},
		{"a coin", head + "pairwise: {pairs: sample:1}\nuntil: {confidence: 0.4}\n", "eval.yaml:4:21: until.confidence: ", "between 0.5 and 1"},
		{"no pair at most", head + "pairwise: {pairs: sample:1}\nuntil: {max_pairs: 0}\n", "eval.yaml:4:20: until.max_pairs: ", `got "0"`},
		{"an unknown key", head + "pairwise: {pairs: sample:1}\nuntil: {max_pair: 3}\n", "eval.yaml:4:9: until.max_pair: ", "did you mean max_pairs?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			problems, got := problemsOf(t, with(two, "eval.yaml", tt.file, "p.md", "Judge as [[agent]]: [[documents]]"), Options{})
			if len(problems) != 1 || !strings.HasPrefix(got, tt.place) || !strings.Contains(got, tt.says) {
				t.Errorf("got %d problems\n%s\nwant one at %s that says %s", len(problems), got, tt.place, tt.says)
			}
		})
	}
}

// TestUntilBoundsTheRuns: until has defaults, and max_pairs bounds the runs, with those of
// single scores before them, unless --limit allows fewer.
func TestUntilBoundsTheRuns(t *testing.T) {
	t.Parallel()
	const head = "documents: [docs/*.md]\njudges: [simulator:careful, simulator:careless]\n"
	for _, tt := range []struct {
		file  string
		limit int
		want  record.Until
		runs  int
	}{
		{"pairwise: {pairs: sample:1}\nuntil: {}\n", 0, record.Until{Top: 1}, 0},
		{"pairwise: {pairs: sample:1, order: both, trials: 3}\nuntil: {top: 1, confidence: 0.9, max_pairs: 2}\n", 0, record.Until{Top: 1, Confidence: 0.9, MaxPairs: 2}, 2 * 2 * 2 * 3},
		{"single: {criteria: [style], trials: 2}\npairwise: {pairs: sample:1, order: random}\nuntil: {max_pairs: 2}\n", 0, record.Until{Top: 1, MaxPairs: 2}, 2*2*2 + 2*2},
		{"pairwise: {pairs: sample:1}\nuntil: {max_pairs: 2}\n", 3, record.Until{Top: 1, MaxPairs: 2}, 3},
		{"pairwise: {pairs: sample:1}\nuntil: {max_pairs: 2}\n", 30, record.Until{Top: 1, MaxPairs: 2}, 2 * 2 * 2},
	} {
		s := load(t, with(two, "eval.yaml", head+tt.file), Options{Limit: tt.limit})
		if s.Settings.Until == nil || *s.Settings.Until != tt.want || s.Settings.Limit != tt.runs {
			t.Errorf("%s--limit %d: %+v, at most %d runs; want %+v, %d", tt.file, tt.limit, s.Settings.Until, s.Settings.Limit, tt.want, tt.runs)
		}
	}
}
