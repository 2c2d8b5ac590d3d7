package report

import (
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// TestFlipsCountAgainstAgreement: two judges that prefer the text shown first on two of three pairs agree on half of
// these verdicts, which is chance. Counting flips as ties in the ranking does not make them agree.
func TestFlipsCountAgainstAgreement(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, names(4), "one", "other"))
	for _, item := range names(4) {
		for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
			for judge := range 2 {
				first, second := item+"/"+pair[0], item+"/"+pair[1]
				if pair[1] == "b" { // the only pair that they read
					m.verdict(judge, first, second, first, "r")
					m.verdict(judge, second, first, first, "r")
					continue
				}
				m.verdict(judge, first, second, first, "r")
				m.verdict(judge, second, first, second, "r")
			}
		}
	}
	r := built(t, m, Options{})
	for _, of := range []*Report{r, built(t, m, Options{FlipsTie: true})} {
		if a := of.Agreement; a == nil || a.Units != 12 || a.Complete != 12 || math.Abs(a.Pairs[0].Raw-2./3) > 1e-12 || math.Abs(a.Pairs[0].Cohen-1./3) > 1e-12 {
			t.Errorf("agreement %+v, want 2 of 3 verdicts on all 12 pairs, and 1/3 beyond chance", a)
		}
	}
	if s := r.Judges[0].Swaps; s.Consistent != 4 || s.AlwaysFirst != 8 {
		t.Errorf("both orders %+v", s)
	}
}

// TestWithoutPositionEffect: on request the ranking is plain Bradley–Terry's, as published
// rankings have it: of 59 candidates with 2,139 verdicts, each pair in one order, it has the
// order that the MM algorithm finds (Hunter 2004). With an order effect, Kendall's tau to
// that is less.
func TestWithoutPositionEffect(t *testing.T) {
	t.Parallel()
	const candidates, verdicts, order = 59, 2139, 1.8
	m := sourceOf(plan(names(candidates), []string{"q"}, "j"))
	random := rand.New(rand.NewPCG(1, 2))
	abilities := make([]float64, candidates)
	for i := range abilities {
		abilities[i] = 1.5 * random.NormFloat64()
	}
	var won [candidates]float64
	met := make([][]float64, candidates)
	for i := range met {
		met[i] = make([]float64, candidates)
	}
	for range verdicts {
		i, j := random.IntN(candidates), random.IntN(candidates-1)
		if j >= i {
			j++
		}
		first, second := "q/"+names(candidates)[i], "q/"+names(candidates)[j]
		winner := second
		if random.Float64() < 1/(1+math.Exp(abilities[j]-abilities[i]-order)) {
			winner = first
			won[i]++
		} else {
			won[j]++
		}
		met[i][j]++
		met[j][i]++
		m.verdict(0, first, second, winner, "r")
	}
	worths := slices.Repeat([]float64{1}, candidates)
	for range 2000 {
		next := make([]float64, candidates)
		for i := range worths {
			below := 0.0
			for j := range worths {
				below += met[i][j] / (worths[i] + worths[j])
			}
			next[i] = won[i] / below
		}
		worths = next
	}
	plain := map[string]float64{}
	for i, name := range names(candidates) {
		plain[name] = worths[i]
	}
	tau := func(options Options) float64 {
		ranked := built(t, m, options).Groups[0].Ranked
		agree := 0
		for k, worse := range ranked {
			for _, better := range ranked[:k] {
				if plain[better.Name] > plain[worse.Name] {
					agree++
				} else {
					agree--
				}
			}
		}
		return float64(agree) / float64(candidates*(candidates-1)/2)
	}
	if with, without := tau(Options{}), tau(Options{NoPosition: true}); without != 1 || math.Abs(with-0.896) > 0.01 {
		t.Errorf("Kendall's tau to plain Bradley–Terry is %.3f, and with an order effect %.3f; want 1 and .896", without, with)
	}
	r := built(t, m, Options{NoPosition: true})
	if r.Judges[0].Effect.HasOrder || !strings.Contains(strings.Join(r.method(), "\n"), "not removed") {
		t.Errorf("%+v; the page says %v", r.Judges[0].Effect, r.method())
	}
}

// TestIdenticalTexts: that two identical texts tie is known without asking, so it moves no
// ability and no judge's parameter. It counts in win rates, and a note says so. As answers of
// the judge, the same ties would shrink its order effect from 1 to .70, and give a judge that
// never tied a tie parameter.
func TestIdenticalTexts(t *testing.T) {
	t.Parallel()
	four := names(4)
	asked := sourceOf(plan(four, names(200), "j"))
	random := rand.New(rand.NewPCG(3, 3))
	var identical [][2]string
	for _, item := range names(200) {
		for i, first := range four {
			for j, second := range four {
				if i == j {
					continue
				}
				one, other := item+"/"+first, item+"/"+second
				winner := other
				if random.Float64() < 1/(1+math.Exp(-2*float64(j-i)-1)) {
					winner = one
				}
				asked.verdict(0, one, other, winner, "r")
				if random.IntN(10) < 1 {
					identical = append(identical, [2]string{one, other})
				}
			}
		}
	}
	m, counted := sourceOf(asked.evaluation.Plan), sourceOf(asked.evaluation.Plan)
	m.pairwise, counted.pairwise = slices.Clone(asked.pairwise), slices.Clone(asked.pairwise)
	for _, pair := range identical {
		m.verdict(0, pair[0], pair[1], eval.Tie, "identical").AnsweredBy = ""
		counted.verdict(0, pair[0], pair[1], eval.Tie, "r")
	}
	without, with := built(t, asked, Options{}), built(t, m, Options{})
	one, other, wrong := without.Judges[0].Effect, with.Judges[0].Effect, built(t, counted, Options{}).Judges[0].Effect
	if math.Abs(one.Order-other.Order) > 1e-9 || math.Abs(one.Order-1) > 0.01 || other.HasNu {
		t.Errorf("order effect %+.3f, with identical texts %+.3f and a tie parameter: %t", one.Order, other.Order, other.HasNu)
	}
	if math.Abs(wrong.Order-0.7) > 0.01 || !wrong.HasNu {
		t.Errorf("as answers, identical texts leave an order effect of %+.3f, want +.70", wrong.Order)
	}
	for k, c := range with.Groups[0].Ranked {
		before := without.Groups[0].Ranked[k]
		if math.Abs(c.Ability-before.Ability) > 1e-9 || math.Abs(c.SE-before.SE) > 1e-9 || c.Ties == 0 || c.WinLimits == before.WinLimits {
			t.Errorf("%s: %+v, wins %+v, without identical texts %+v, wins %+v", c.Name, c.Limits, c.WinLimits, before.Limits, before.WinLimits)
		}
	}
	if notes := strings.Join(with.Notes(), "\n"); !strings.Contains(notes, fmt.Sprintf("%d verdicts are on identical texts", len(identical))) {
		t.Errorf("the notes do not say so: %s", notes)
	}
	// Candidates that are identical wherever they met cannot be ranked against each other.
	same := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	same.verdict(0, "q/a", "q/b", eval.Tie, "identical").AnsweredBy = ""
	if r := built(t, same, Options{}); len(r.Groups) != 0 || len(r.Unranked) != 2 || r.Unranked[0].Ties != 1 {
		t.Errorf("%d groups, %d unranked; want none and 2", len(r.Groups), len(r.Unranked))
	}
}

// TestChoicesAndLeads: what a ranking depends on is said in one sentence, and neighbours
// have the limits of their difference.
func TestChoicesAndLeads(t *testing.T) {
	t.Parallel()
	m := tournament(names(4), names(6), []string{"j"}, []float64{0.5}, 1)
	for _, tt := range []struct {
		options Options
		says    string
	}{
		{Options{}, "ties by Davidson's model, position effects removed, fallback answers excluded, length left in, intervals by 6 items, seed 0."},
		{Options{Ties: rank.HalfWins, NoPosition: true, Fallback: true, Seed: 7}, "ties as half wins, position effects not removed, fallback answers counted, length left in, intervals by 6 items, seed 7."},
	} {
		r := built(t, m, tt.options)
		rows := r.Rankings()
		if !strings.HasSuffix(rows.Choices.Sentence, tt.says) || rows.Choices.PositionEffect == tt.options.NoPosition || rows.Choices.Clusters != 6 || rows.Choices.Draws != 100 {
			t.Errorf("choices %+v, want a sentence that ends %q", rows.Choices, tt.says)
		}
		for what, text := range map[string]string{"terminal": textOf(t, r, TextOptions{Width: 400}), "page": html.UnescapeString(pageOf(t, r))} {
			if !strings.Contains(text, rows.Choices.Sentence) || !strings.Contains(text, r.Groups[0].leadWords(0)) {
				t.Errorf("the %s has no sentence of choices, or no lead %s", what, r.Groups[0].leadWords(0))
			}
		}
		ranking := rankingOf(t, r)
		for k, row := range ranking[:3] {
			lead := row.number("ability") - ranking[k+1].number("ability")
			if math.Abs(row.number("lead")-lead) > 1e-9 || !(row.number("lead_low") < lead && lead < row.number("lead_high")) {
				t.Errorf("%s leads by %v (%v to %v), want %v", row["candidate"], row["lead"], row["lead_low"], row["lead_high"], lead)
			}
		}
		if !math.IsNaN(ranking[3].number("lead")) {
			t.Errorf("the last leads by %v", ranking[3]["lead"])
		}
	}
}

// TestWeighedJudges: on request, a judge that answers by chance counts for little, and the
// report says what that changes.
func TestWeighedJudges(t *testing.T) {
	t.Parallel()
	m := tournament(names(4), names(30), []string{"good", "coin"}, []float64{0.2, 0}, 3)
	random := rand.New(rand.NewPCG(6, 6))
	for k, row := range m.pairwise {
		if row.Judge == "coin" {
			m.pairwise[k].Winner = []string{row.Document1, row.Document2}[random.IntN(2)]
		}
	}
	plain, weighed := built(t, m, Options{}), built(t, m, Options{Scales: true})
	good, coin := weighed.Judges[0].Effect.Scale, weighed.Judges[1].Effect.Scale
	if plain.Unweighed != nil || plain.Judges[0].Effect.HasScale || math.Abs(good+coin-2) > 1e-9 || coin > 0.5 || weighed.Unweighed.First != "candidate-0000" {
		t.Fatalf("scales %.2f and %.2f, %+v", good, coin, weighed.Unweighed)
	}
	text := textOf(t, weighed, TextOptions{Width: 200})
	for _, want := range []string{"judges weighted by their scale", "With equal weights, 0 candidates would have another rank, and the first would stay first", weighed.Judges[1].scale(), "may be 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not say %q:\n%s", want, text)
		}
	}
	if page := pageOf(t, weighed); !strings.Contains(page, "<td>"+weighed.Judges[1].scale()+"</td>") {
		t.Error("the page has no scales")
	}
	lead := func(r *Report) float64 {
		difference, limits := r.Groups[0].lead(0)
		return difference / limits.SE
	}
	if lead(weighed) < lead(plain) {
		t.Errorf("the first leads by %.2f errors, with equal weights by %.2f", lead(weighed), lead(plain))
	}
}

// TestFlipsAsTies: on request, both verdicts of a pair on which a judge changed its mind
// with the order are ties; how often it did is said anyway.
func TestFlipsAsTies(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, names(10), "j"))
	for k, item := range names(10) {
		first, second := item+"/a", item+"/b"
		one, other := first, first
		switch {
		case k < 4: // flips, two to each position
			one, other = []string{first, second}[k%2], []string{second, first}[k%2]
		case k == 4:
			other = eval.Tie
		case k == 5:
			one, other = second, second
		}
		m.verdict(0, first, second, one, "r")
		m.verdict(0, second, first, other, "r")
	}
	plain, ties := built(t, m, Options{}), built(t, m, Options{FlipsTie: true})
	for _, tt := range []struct {
		r    *Report
		want rank.Record
	}{{plain, rank.Record{Wins: 13, Losses: 6, Ties: 1}}, {ties, rank.Record{Wins: 9, Losses: 2, Ties: 9}}} {
		if got := tt.r.Groups[0].Ranked[0]; got.Name != "a" || got.Record != tt.want {
			t.Errorf("%s has %+v, want %+v", got.Name, got.Record, tt.want)
		}
		if s := tt.r.Judges[0].Swaps; s.Flipped() != 0.4 || s.Consistent != 5 || tt.r.Verdicts != 20 {
			t.Errorf("both orders %+v, %d verdicts", s, tt.r.Verdicts)
		}
		if notes := strings.Join(tt.r.Notes(), "\n"); !strings.Contains(notes, "preferred the other text in 40.0 %") {
			t.Errorf("the notes do not say how often it flipped: %s", notes)
		}
	}
	if !strings.Contains(ties.choiceSentence(), "flips as ties") || ties.Agreement != nil {
		t.Errorf("choices: %s", ties.choiceSentence())
	}
}
