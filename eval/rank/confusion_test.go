package rank

import (
	"math"
	"testing"
)

// TestConfusionOfPandaLM: PandaLM-7B's verdicts on 999 pairs against the majority of
// three people (Wang et al. 2023, "PandaLM", the figures of its test set's own script).
func TestConfusionOfPandaLM(t *testing.T) {
	t.Parallel()
	var c Confusion
	for right, row := range map[Outcome][3]int{
		Tied:       {FirstWins: 35, SecondWins: 38, Tied: 32},
		FirstWins:  {FirstWins: 298, SecondWins: 84, Tied: 40},
		SecondWins: {FirstWins: 100, SecondWins: 337, Tied: 35},
	} {
		for said, n := range row {
			for range n {
				c.Add(right, Outcome(said).Only())
			}
		}
	}
	precision, recall, f1 := c.Macro()
	for what, pair := range map[string][2]float64{
		"accuracy": {c.Accuracy(), .667668}, "precision": {precision, .573831}, "recall": {recall, .574969}, "F1": {f1, .574305},
	} {
		if !near(pair[0], pair[1], 5e-7) {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	if c.Total() != 999 {
		t.Errorf("got %d pairs, want 999", c.Total())
	}
}

func TestConfusionOfFewOutcomes(t *testing.T) {
	t.Parallel()
	var none, c Confusion
	precision, recall, f1 := none.Macro()
	for _, got := range []float64{none.Accuracy(), precision, recall, f1} {
		if !math.IsNaN(got) {
			t.Errorf("without pairs: got %v, want none", got)
		}
	}
	for range 3 {
		c.Add(FirstWins, FirstWins.Only())
	}
	c.Add(FirstWins, SecondWins.Only()) // which is never right; ties are neither right nor said
	if precision, recall, f1 := c.Macro(); c.Accuracy() != .75 || precision != .5 || recall != .375 || !near(f1, 3./7, 1e-15) {
		t.Errorf("got %v, %v, %v, %v; want .75, .5, .375, 3/7", c.Accuracy(), precision, recall, f1)
	}
}
