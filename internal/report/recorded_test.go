package report

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// recorded returns an evaluation by judges whose verdicts were published, on pairs of which it is known which text is
// better: that is the vote of a person.
func recorded(t *testing.T, benchmark string) *memory {
	t.Helper()
	f, err := os.Open("../../eval/rank/testdata/judges.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	var right string
	var judges []string
	verdicts := map[string]string{}
	for _, line := range lines {
		switch {
		case line[0] != benchmark:
		case line[1] == "right":
			right = line[3]
		default:
			if line[2] == "1" {
				judges = append(judges, line[1])
			}
			verdicts[line[1]+line[2]] = line[3]
		}
	}

	items := make([]string, len(right))
	for k := range items {
		items[k] = fmt.Sprintf("q%03d", k)
	}
	m := sourceOf(plan([]string{"1", "2"}, items, judges...))
	for k, item := range items {
		m.vote("key", item+"/1", item+"/2", item+"/"+right[k:k+1])
		for j, judge := range judges {
			for order, shown := range [2][2]string{{item + "/1", item + "/2"}, {item + "/2", item + "/1"}} {
				switch said := verdicts[judge+fmt.Sprint(order+1)][k : k+1]; said {
				case "-": // no verdict
				case "=":
					m.verdict(j, shown[0], shown[1], eval.Tie, "r")
				default:
					m.verdict(j, shown[0], shown[1], item+"/"+said, "r")
				}
			}
		}
	}
	return m
}

// TestPublishedJudges: figures published with the verdicts of LLMBar (Zeng et al. 2024) and JudgeBench (Tan et al.
// 2025) come out. Both count a pair without a verdict as wrong, so shares are of all pairs.
func TestPublishedJudges(t *testing.T) {
	t.Parallel()
	type figures struct{ average, mostly, consistent float64 } // in percent; 0: not published
	for benchmark, want := range map[string]map[string]figures{
		// PaLM2 did not answer twice; the 80 % published as consistent count these pairs.
		"llmbar": {
			"GPT-4": {95.5, 93, 95}, "ChatGPT": {81.5, 67, 71}, "LLaMA2": {80.5, 70, 79}, "PaLM2": {83, 73, 78}, "Falcon": {74, 50, 52},
		},
		"judgebench-claude": {"claude-3-haiku": {0, 32.22, 0}},
		"judgebench-gpt":    {"o1-mini": {0, 65.71, 0}, "skywork-gemma-27b": {0, 64.29, 0}},
	} {
		m := recorded(t, benchmark)
		r := built(t, m, Options{Draws: 20})
		for k, j := range r.People.Judges {
			of := want[j.Judge]
			counted := float64(j.Pairs) / float64(len(m.votes))
			got := figures{100 * j.Accuracy * counted, 100 * j.Mostly * counted, 100 * r.Judges[k].Swaps.Consistency() * counted}
			t.Logf("%s, %s: %.2f of verdicts right, %.2f of pairs mostly right, %.2f consistent, kappa with the key %.3f, with judges %.3f",
				benchmark, j.Judge, got.average, got.mostly, got.consistent, j.Cohen, r.Judges[k].Card.OthersKappa)
			for what, pair := range map[string][2]float64{
				"right": {got.average, of.average}, "mostly right": {got.mostly, of.mostly}, "consistent": {got.consistent, of.consistent},
			} {
				if pair[1] != 0 && math.Abs(pair[0]-pair[1]) > .005 {
					t.Errorf("%s, %s: %.2f %% %s, published %.2f", benchmark, j.Judge, pair[0], what, pair[1])
				}
			}
		}
	}
}

// TestWorstJudgeRanksLast: of LLMBar's five judges, the one that contradicts itself on half of the pairs agrees least
// with the key and with the others, and no flip is left out.
func TestWorstJudgeRanksLast(t *testing.T) {
	t.Parallel()
	r := built(t, recorded(t, "llmbar"), Options{Draws: 20})
	worst := r.Judges[4]
	for _, j := range r.Judges[:4] {
		if j.Card.PeopleKappa <= worst.Card.PeopleKappa || j.Card.OthersKappa <= worst.Card.OthersKappa {
			t.Errorf("%s: kappa %.2f with the key and %.2f with judges, %s has %.2f and %.2f", j.Name,
				j.Card.PeopleKappa, j.Card.OthersKappa, worst.Name, worst.Card.PeopleKappa, worst.Card.OthersKappa)
		}
	}
	trust := r.Reliance()
	if a := r.Agreement; worst.Name != "Falcon" || a.Complete != 98 || math.Abs(trust.Agree-.766) > .001 || math.Abs(trust.Kappa-.532) > .001 {
		t.Errorf("%s; agreement %.3f, kappa %.3f on %d pairs; want .766 and .532 on the 98 with all verdicts", worst.Name, trust.Agree, trust.Kappa, a.Complete)
	}
}
