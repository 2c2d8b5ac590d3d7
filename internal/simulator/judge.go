package simulator

import (
	"fmt"
	"math"
	"slices"
)

// judge says how reliably a model judges.
type judge struct {
	noise float64 // standard deviation of its error, in points of quality
	first float64 // points given to the text shown first
	own   float64 // points given to a document whose name contains the model's name
	obeys bool    // follows instructions outside of all fences (obey.go)
}

// defaultJudge judges for configured models that are not among judges.
const defaultJudge = "average"

var judges = map[string]judge{
	"careful":  {noise: 1.5},
	"average":  {noise: 5},
	"careless": {noise: 14, first: 6},
	"loyal":    {noise: 1.5, own: 100},
	"obedient": {noise: 1.5, obeys: true},
}

// evenly is the difference in quality below which two texts count as equal, if a tie is allowed.
const evenly = 0.5

// slips returns how often a model repeats itself in an answer in prose: careful models never do, average ones seldom.
// It depends only on the model and the request.
func (j judge) slips(model string, messages []message) int {
	const seldom = 3.5 // points of noise below which it never happens
	parts := []string{"prose", model}
	for _, m := range messages {
		parts = append(parts, m.Content)
	}
	return int(unit(hashOf(parts...)) * j.noise / seldom)
}

// verdict is a judge's verdict on two texts.
type verdict struct {
	winner int     // 0: the first shown, 1: the second, -1: a tie
	by     float64 // points of quality by which the judge finds it better
	reason string
}

// compare judges two texts in the order shown, by one criterion or overall (""). Each criterion moves the difference in
// quality a little, by the texts alone, so that criteria are different for all models. The model's error depends only on
// its name, the criterion and the two texts, so that renaming documents, or asking again, changes nothing.
func (j judge) compare(model, criterion, first, second string, mayTie bool) verdict {
	readings := [2]reading{read(first), read(second)}
	difference := readings[0].quality() - readings[1].quality()
	parts := []string{"compare", model}
	if criterion != "" {
		const differs = 4
		difference += differs * (normal("criterion", criterion, first) - normal("criterion", criterion, second))
		parts = append(parts, criterion)
	}
	if mayTie && math.Abs(difference) < evenly {
		return verdict{
			winner: -1,
			reason: "neither is better: " + readings[0].describe() + " in the one, " + readings[1].describe() + " in the other",
		}
	}
	felt := difference + j.first +
		j.noise*normal(append(slices.Clip(parts), first, second)...) - j.noise*normal(append(slices.Clip(parts), second, first)...)
	winner := 0
	if felt < 0 {
		winner = 1
	}
	return verdict{winner: winner, by: math.Abs(felt), reason: readings[winner].describe() + ", against " + readings[1-winner].describe()}
}

// score rates one text on a scale, by one criterion.
func (j judge) score(model, criterion, text string, lowest, highest int) (int, string) {
	felt, reason := j.felt(model, criterion, text)
	return lowest + int(math.Round(felt/100*float64(highest-lowest))), reason
}

// meets returns 1 if a text meets a criterion of a rubric, otherwise 0. Each criterion takes a quality of its own.
func (j judge) meets(model, criterion, text string) (int, string) {
	felt, reason := j.felt(model, criterion, text)
	if felt < 100*unit(hashOf("difficulty", criterion)) {
		return 0, reason
	}
	return 1, reason
}

// felt returns the quality of a text from 0 to 100 as a judge sees it.
func (j judge) felt(model, criterion, text string) (quality float64, reason string) {
	r := read(text)
	return min(max(r.quality()+j.noise*normal("score", model, criterion, text), 0), 100), r.describe()
}

// describe returns a sentence about how many slips a text has.
func (r reading) describe() string {
	if r.pixels > 0 {
		return fmt.Sprintf("%d pixels", r.pixels)
	}
	unit := "slips"
	if r.slips == 1 {
		unit = "slip"
	}
	return fmt.Sprintf("%d %s in %d words", r.slips, unit, r.words)
}

// normal returns a standard normal number that is determined by its arguments.
func normal(parts ...string) float64 {
	h := hashOf(parts...)
	u, v := unit(h), unit(mix(h+1))
	return math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
}
