package report

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	planned "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
)

// escalated returns an evaluation of four candidates: two cheap judges like the last best, and the strong judge the
// first. seen is how many of the chosen pairs the strong judge has judged.
func escalated(t *testing.T, seen float64) *memory {
	t.Helper()
	e := plan([]string{"a", "b", "c", "d"}, names(40), "cheap", "cheaper", "strong")
	e.Escalate = &eval.Escalate{When: []eval.Doubt{eval.DoubtDisagree}, Share: 0.3}
	m := sourceOf(e)
	random := rand.New(rand.NewPCG(5, 6))
	quality := func(candidate string, sign float64) float64 { return sign * (float64('b') - float64(candidate[0])) }
	judge := func(k, phase, pair, runs int, documents [2]int, sign float64) {
		for order := range 2 {
			first, second := e.Documents[documents[order]], e.Documents[documents[1-order]]
			winner := second.ID
			if random.Float64() < 1/(1+math.Exp(quality(second.Candidate, sign)-quality(first.Candidate, sign))) {
				winner = first.ID
			}
			row := m.verdict(k, first.ID, second.ID, winner, "It is better.")
			row.Phase, row.Index = phase, pair*runs+order*runs/2+k%2
		}
	}

	const pairs = 240
	all := make([]int, pairs)
	for number := range all {
		all[number] = number
	}
	documents, err := planned.EscalatedPairs(e, all)
	if err != nil {
		t.Fatal(err)
	}
	var contested, agreed []int
	for number, of := range documents {
		before := len(m.pairwise)
		judge(0, 0, number, 4, of, -1)
		judge(1, 0, number, 4, of, -1)
		leads := map[string]int{}
		for _, row := range m.pairwise[before:] {
			if row.Winner == e.Documents[of[0]].ID {
				leads[row.Judge]++
			}
		}
		if leads["cheap"] != leads["cheaper"] {
			contested = append(contested, number)
		} else {
			agreed = append(agreed, number)
		}
	}
	slices.SortStableFunc(m.pairwise, func(a, b results.PairwiseRow) int { return a.Index - b.Index })

	phases := []record.Phase{{Kind: eval.KindPairwise, Runs: 4 * pairs}, {Kind: eval.KindPairwise, Runs: 2 * pairs, Open: true}}
	m.counts = []results.PhaseCounts{
		{Phase: 0, Kind: eval.KindPairwise, Runs: 4 * pairs, Succeeded: 4 * pairs},
		{Phase: 1, Kind: eval.KindPairwise, Runs: 2 * pairs},
	}
	if seen >= 0 {
		choice, err := planned.Choose(e, 1, make([]*planned.Choice, 1), planned.Found{Contested: contested, Agreed: agreed})
		if err != nil {
			t.Fatal(err)
		}
		chosen := slices.Sorted(slices.Values(slices.Concat(choice.Contested, choice.Sampled)))
		phases[1] = record.Phase{Kind: eval.KindPairwise, Runs: 2 * len(chosen), Chosen: true, Choice: choice}
		judged := int(seen * float64(len(chosen)))
		m.counts[1].Runs, m.counts[1].Succeeded = 2*len(chosen), 2*judged
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		for k, number := range chosen[:judged] {
			judge(2, 1, k, 2, documents[number], 1)
		}
	}
	m.evaluation.Phases = phases
	return m
}

// TestEscalationRanksAsTheStrongJudge: the ranking is the strong judge's, although the others, who saw all pairs, prefer the
// opposite; the report says so, in every form, with what it saw.
func TestEscalationRanksAsTheStrongJudge(t *testing.T) {
	t.Parallel()
	r := built(t, escalated(t, 1), Options{})
	if got := strings.Join(ranking(r)[0], " "); got != "a 1 b 2 c 3 d 4" {
		t.Fatalf("ranking %s, want the strong judge's", got)
	}
	e := r.Escalation
	if !e.Corrected || e.Pairs != 240 || e.SeenContested != e.Contested || e.SeenSampled != e.Sampled || e.Asked != 2*(e.Contested+e.Sampled) ||
		e.Whole != 480 || e.Confirmed >= e.Sampled || e.Sampled < 30 || e.Contested < 30 {
		t.Errorf("%+v", *e)
	}
	first := r.Groups[0].Ranked[0]
	if !(first.Low < first.Ability && first.Ability < first.High) || first.Games() > 2*(e.SeenContested+e.SeenSampled) || !math.IsNaN(first.WinLimits.SE) {
		t.Errorf("the first: %+v, limits %+v", first.Standing, first.Limits)
	}
	for k, j := range r.Judges[:2] {
		if best := j.Groups[0].Ranked[0].Name; best != "d" || !j.Effect.HasOrder {
			t.Errorf("judge %d ranks %s first, order effect %v; want d, and one", k, best, j.Effect.HasOrder)
		}
	}
	if r.Judges[2].Groups != nil || !r.Judges[2].Effect.HasOrder {
		t.Error("the strong judge has a ranking by its verdicts on chosen pairs alone, or no order effect")
	}
	if len(r.Agreement.Raters) != 2 {
		t.Errorf("the agreement is that of %v, want of the first judges", r.Agreement.Raters)
	}
	if r.Pairs != 240 {
		t.Errorf("%d pairs, want 240", r.Pairs)
	}

	const says = "The ranking is that of “strong” on all 240 pairs."
	var markdown, card bytes.Buffer
	if err := r.WriteMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteCard(&card, CardOptions{TextOptions: TextOptions{Width: 400}}); err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{
		"text": textOf(t, r, TextOptions{Width: 400}), "page": pageOf(t, r), "markdown": markdown.String(), "card": card.String(),
	} {
		if !strings.Contains(text, says) {
			t.Errorf("the %s does not say: %s", form, says)
		}
	}
	var written bytes.Buffer
	if err := r.WriteJSON(&written); err != nil {
		t.Fatal(err)
	}
	var form struct {
		Escalation map[string]any `json:"escalation"`
	}
	if err := json.Unmarshal(written.Bytes(), &form); err != nil || form.Escalation["judge"] != "strong" || form.Escalation["corrected"] != true ||
		form.Escalation["sampled"] != float64(e.Sampled) || form.Escalation["runs_of_all"] != 480.0 {
		t.Errorf("%v, JSON %v", err, form.Escalation)
	}
}

// TestTiesOfFirstJudgesPredict: the verdicts of judges that often tie still say which candidate a strong judge prefers that
// never does.
func TestTiesOfFirstJudgesPredict(t *testing.T) {
	t.Parallel()
	m := escalated(t, 1)
	for k := range m.pairwise {
		switch row := &m.pairwise[k]; { // the first judges now prefer what the strong one does
		case row.Phase > 0:
		case row.Index/4%3 == 0:
			row.Winner = eval.Tie
		case row.Winner == row.Document1:
			row.Winner = row.Document2
		default:
			row.Winner = row.Document1
		}
	}
	r := built(t, m, Options{})
	if e := r.Escalation; !e.Corrected || !(e.Lambda > 0.05) {
		t.Errorf("corrected %t, predictions count %g, want more than 0.05", e.Corrected, e.Lambda)
	}
}

// TestEscalationBeforeItsEnd: until the strong judge has judged pairs of both kinds, the ranking is that of the others, and
// the report says so. From then on it is the strong judge's, with wider intervals.
func TestEscalationBeforeItsEnd(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]float64{"not chosen": -1, "nothing judged": 0} {
		r := built(t, escalated(t, seen), Options{})
		if got := ranking(r)[0]; got[0] != "d 1" {
			t.Errorf("%s: ranking %v, want that of the first judges", name, got)
		}
		notes := strings.Join(r.Notes(), "\n")
		if r.Escalation.Corrected || !strings.Contains(notes, "The ranking is still that of the first judges. “strong”") {
			t.Errorf("%s: corrected %v, notes\n%s", name, r.Escalation.Corrected, notes)
		}
	}

	whole, half := built(t, escalated(t, 1), Options{}), built(t, escalated(t, 0.5), Options{})
	if got := half.Groups[0].Ranked[0].Name; got != "a" || !half.Escalation.Corrected {
		t.Errorf("after half of the pairs, %s is first, want a", got)
	}
	width := func(r *Report) (sum float64) {
		for _, c := range r.Groups[0].Ranked {
			sum += c.High - c.Low
		}
		return sum
	}
	if width(half) <= width(whole) {
		t.Errorf("intervals after half of the pairs have the width %.2f, after all %.2f", width(half), width(whole))
	}
	if notes := strings.Join(half.Notes(), "\n"); !strings.Contains(notes, "the others are taken to be like these") {
		t.Errorf("notes\n%s", notes)
	}
}
