package report

import (
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// choices returns the settings of the analysis that the ranking depends on. Without tests its Sentence is empty.
func (r *Report) choices() results.Choices {
	out := results.Choices{
		Sentence: r.choiceSentence(), Ties: "davidson",
		Fallbacks: r.Options.Fallback, Length: r.Options.Length, PositionEffect: !r.Options.NoPosition && r.ordered(),
		JudgeScale: r.Options.Scales, FlipsTie: r.Options.FlipsTie, Seed: r.Options.Seed,
	}
	if r.Options.Ties == rank.HalfWins {
		out.Ties = "half"
	}
	if how := r.Intervals; how != nil {
		out.By, out.Clusters, out.Draws = how.By, how.Clusters, how.Draws
	}
	return out
}

// choiceSentence names all choices of the analysis in one sentence. It is empty without tests.
func (r *Report) choiceSentence() string {
	switch {
	case !r.tested():
		return ""
	case r.ByScore():
		return fmt.Sprintf("Ranked by mean scores; two candidates are compared by the scores of the same judge for the same item and "+
			"criterion, tests by %s, seed %d.", r.Intervals.units(), r.Options.Seed)
	}
	parts := []string{"Ranked by Bradley–Terry strengths", "ties by Davidson's model"}
	if r.Options.Ties == rank.HalfWins {
		parts[1] = "ties as half wins"
	}
	choose := func(yes bool, one, other string) {
		if yes {
			parts = append(parts, one)
		} else {
			parts = append(parts, other)
		}
	}
	if len(r.Judges) > 0 {
		choose(r.Options.NoPosition || !r.ordered(), "position effects not removed", "position effects removed")
	}
	if len(r.Judges) > 0 && !r.given() {
		choose(r.Options.Fallback, "fallback answers counted", "fallback answers excluded")
	}

	if r.Options.FlipsTie {
		parts = append(parts, "flips as ties")
	}
	if r.Unweighed != nil {
		parts = append(parts, "judges weighted by their scale")
	}
	if r.ByWinners != nil {
		parts = append(parts, "wins by their degree")
	}
	choose(r.Options.Length, "length taken out", "length left in")
	choose(r.Intervals.Clusters > 1, "intervals by "+r.Intervals.units(), "no intervals")
	return strings.Join(parts, ", ") + fmt.Sprintf(", seed %d.", r.Options.Seed)
}
