package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// checked is a tournament of candidates that judges cannot tell apart. The texts of d fail a gate on three of four
// items, and nobody has asked a judge about them.
func checked() *memory {
	m := tournament([]string{"a", "b", "c", "d"}, names(4), []string{"j"}, []float64{0}, 0)
	e := m.evaluation.Plan
	e.Checks = []eval.Check{
		{Name: "json", Kind: eval.CheckJSONSchema, Value: "{}", Gate: true}, {Name: "short", Kind: eval.CheckMaxWords, Value: "3"},
	}
	for i := range e.Documents {
		if d := &e.Documents[i]; d.Candidate == "d" && d.Item > 0 {
			d.Failed = []eval.FailedCheck{{Check: 0, Why: "it is not JSON"}}
		}
	}
	of := map[string]eval.Document{}
	for _, d := range e.Documents {
		of[d.ID] = d
	}
	for i := range m.pairwise {
		row := &m.pairwise[i]
		if winner, reason, decided := e.Decided(of[row.Document1], of[row.Document2]); decided {
			row.Winner, row.Reason, row.AnsweredBy = winner, reason, ""
		}
	}
	return m
}

// TestGatesAreLosses: a text that fails a gate loses, which the ranking counts, and nothing that is said about judges.
func TestGatesAreLosses(t *testing.T) {
	t.Parallel()
	r := built(t, checked(), Options{Draws: 50})
	last := r.Groups[0].Ranked[3]
	if last.Name != "d" || last.Losses < 18 || last.Rank != 4 {
		t.Errorf("the last is %s with %d losses, want d with at least 18", last.Name, last.Losses)
	}
	j := r.Judges[0]
	if j.Gated != 18 || j.Positions.Total()+j.Identical+j.Gated != r.Verdicts || j.Swaps.Total() > 15 {
		t.Errorf("%d of %d verdicts by gates, %d by the judge, %d identical, %d pairs in both orders", j.Gated, r.Verdicts, j.Positions.Total(), j.Identical, j.Swaps.Total())
	}
	asked := checked()
	asked.pairwise = slices.DeleteFunc(asked.pairwise, func(row results.PairwiseRow) bool { return strings.HasPrefix(row.Reason, "gate") })
	if without := built(t, asked, Options{Draws: 50}); math.Abs(j.Effect.Order) < math.Abs(without.Judges[0].Effect.Order)-.1 {
		t.Errorf("gates dilute the judge's order effect: %v, without them %v", j.Effect.Order, without.Judges[0].Effect.Order)
	}
	text := textOf(t, r, TextOptions{})
	for _, want := range []string{
		"3 of 16 texts failed a gate. Without a judge, such a text loses to each that passes", "18 verdicts.", "json (gate)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
	}
	if page := pageOf(t, r); !strings.Contains(page, `id="checks"`) {
		t.Error("the page has no checks")
	}
}

// TestSharesThatPass: a candidate's share has an interval over items; with one item it has none.
func TestSharesThatPass(t *testing.T) {
	t.Parallel()
	r := built(t, checked(), Options{Draws: 50})
	of := r.Checks[0].Candidates[3]
	if of.Of != 4 || of.Met != 1 || of.Share != .25 || !(of.Low < .25 && of.High > .25) {
		t.Errorf("d: %+v, want 1 of 4 with an interval", of)
	}
	if all := r.Checks[0].Candidates[0]; all.Share != 1 || all.High != 1 || !(all.Low > 0 && all.Low < 1) {
		t.Errorf("a: %+v, want all, and not certainly", all)
	}

	one := tournament([]string{"a", "b"}, names(1), []string{"j"}, []float64{0}, 0)
	one.evaluation.Plan.Checks = []eval.Check{{Name: "short", Kind: eval.CheckMaxWords, Value: "3"}}
	r = built(t, one, Options{Draws: 50})
	if got := r.Checks[0].Candidates[0]; got.Share != 1 || !math.IsNaN(got.Low) {
		t.Errorf("one text: %+v, want a share without an interval", got)
	}
	if notes := strings.Join(r.Notes(), " "); strings.Contains(notes, "gate") {
		t.Errorf("nothing fails a gate, and the notes say %s", notes)
	}
}
