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

// TestTrialsAreNoEvidence: the same verdicts four times over leave limits as wide as
// once, by pair and by item; the fit's own errors halve.
func TestTrialsAreNoEvidence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		by       string
		items    int
		clusters int
	}{{ByPair, 1, 10}, {ByItem, 20, 20}} {
		once := tournament(names(5), names(tt.items), []string{"j"}, []float64{0.3}, 1)
		four := sourceOf(once.evaluation.Plan)
		for range 4 {
			four.pairwise = append(four.pairwise, once.pairwise...)
		}
		one, other := built(t, once, Options{Seed: 5}), built(t, four, Options{Seed: 5})
		if how := one.Intervals; how == nil || how.By != tt.by || how.Clusters != tt.clusters || how.Seed != 5 || how.Draws != 100 {
			t.Fatalf("drawn by %+v, want %s of %d", how, tt.by, tt.clusters)
		}
		for k, c := range one.Groups[0].Ranked {
			d := other.Groups[0].Ranked[k]
			if d.Name != c.Name || math.Abs((d.High-d.Low)/(c.High-c.Low)-1) > 0.02 {
				t.Errorf("by %s: %s from %.3f to %.3f, with every verdict four times %.3f to %.3f", tt.by, c.Name, c.Low, c.High, d.Low, d.High)
			}
			if w := c.WinLimits; !(w.Low < c.WinRate() && c.WinRate() < w.High) || math.Abs(d.WinLimits.Low-w.Low) > 1e-9 {
				t.Errorf("by %s: %s wins %.3f, limits %+v, with every verdict four times %+v", tt.by, c.Name, c.WinRate(), w, d.WinLimits)
			}
			if ratio := d.ModelSE / c.ModelSE; math.Abs(ratio-0.5) > 0.01 {
				t.Errorf("by %s: the fit's own error is %.3f of that before, want half", tt.by, ratio)
			}
		}
	}
}

// TestJudgesAlone: each has a ranking of its own, and agreement says that the two
// contradict each other on every pair.
func TestJudgesAlone(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q1", "q2", "q3", "q4"}, "for", "against"))
	for _, item := range []string{"q1", "q2", "q3", "q4"} {
		for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
			better, worse := item+"/"+pair[0], item+"/"+pair[1]
			m.verdict(0, better, worse, better, "r")
			m.verdict(0, worse, better, better, "r")
			m.verdict(1, better, worse, worse, "r")
			m.verdict(1, worse, better, worse, "r")
		}
	}
	r := built(t, m, Options{})
	for k, want := range []string{"[a b c]", "[c b a]"} {
		var order []string
		for _, c := range r.Judges[k].Groups[0].Ranked {
			order = append(order, c.Name)
		}
		if fmt.Sprint(order) != want {
			t.Errorf("judge %s ranks %v, want %s", r.Judges[k].Name, order, want)
		}
	}
	a := r.Agreement
	if a == nil || a.Units != 12 || a.Complete != 12 || a.Pairs[0].Raw != 0 || a.Pairs[0].Units != 12 {
		t.Fatalf("agreement %+v", a)
	}
	// One always prefers the earlier text and the other the later, so chance agrees as
	// little as they do.
	if a.Pairs[0].Cohen != 0 || a.Alpha >= 0 || a.Fleiss >= 0 {
		t.Errorf("kappa %.3f, alpha %.3f, Fleiss %.3f; want 0 and the others below", a.Pairs[0].Cohen, a.Alpha, a.Fleiss)
	}
	if s := r.Judges[0].Swaps; s.Consistent != 12 || s.Total() != 12 {
		t.Errorf("both orders: %+v, want 12 consistent", s)
	}
}

// TestCyclesAndLength: a rock-paper-scissors judge, who prefers the longer text.
func TestCyclesAndLength(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, names(8), "j"))
	documents := m.evaluation.Plan.Documents
	place := map[string]int{}
	for d := range documents {
		place[documents[d].ID] = d
	}
	for k, item := range names(8) {
		for i, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
			first, second := item+"/"+pair[0], item+"/"+pair[1]
			documents[place[first]].Bytes = 100 * (k + i + 1)
			m.verdict(0, first, second, first, "r")
		}
	}
	r := built(t, m, Options{})
	if want := (rank.Cycles{Circular: 1, Triples: 1}); r.Cycles != want {
		t.Errorf("cycles %+v, want %+v", r.Cycles, want)
	}
	if n := r.Length.LongerWins + r.Length.ShorterWins; n != 24 || r.Length != r.Judges[0].Length {
		t.Errorf("%d verdicts on texts that differ in length, want 24", n)
	}
	if r.Fit.HasLength {
		t.Error("length is taken out unasked")
	}
	if got := built(t, m, Options{Length: true}); !got.Fit.HasLength || !slices.ContainsFunc(got.Notes(), func(n string) bool { return n == got.lengthNote() }) {
		t.Errorf("asked to take length out: %+v, %q", got.Fit, got.Notes())
	}
}

// TestPositionAndCandidatesConfounded: a baseline that is always shown first cannot be
// told from a preference for the first position. A judge that always prefers the first
// text does not make it the best; the other candidates are compared all the same.
func TestPositionAndCandidatesConfounded(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"base", "b", "c"}, names(30), "j"))
	for k, item := range names(30) {
		m.verdict(0, item+"/base", item+"/b", item+"/base", "r")
		winner := item + "/base"
		if k%5 == 0 {
			winner = item + "/c"
		}
		m.verdict(0, item+"/base", item+"/c", winner, "r")
	}
	r := built(t, m, Options{})
	best := r.Groups[0].Ranked[0]
	if best.Name != "base" || best.RankHigh != 3 || best.MarginalHigh != 3 || !math.IsNaN(best.Best) || !math.IsNaN(r.Groups[0].Beats(0, 1)) {
		t.Errorf("the baseline is called better: %+v, %v", best, r.Groups[0].Beats(0, 1))
	}
	if !r.Judges[0].Effect.Confounded || strings.Contains(r.Headline(), "ahead of every other") {
		t.Errorf("%+v: %s", r.Judges[0].Effect, r.Headline())
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "shown in one order only") {
		t.Errorf("the notes do not say so: %s", notes)
	}
	for _, row := range r.Rankings().Ranking {
		if !math.IsNaN(row.Best) {
			t.Errorf("%s is the best with probability %v", row.Candidate, row.Best)
		}
	}
}

// TestFortyEqualsBehindABaseline: 40 candidates are equal. One is the baseline, always shown
// first to a judge that prefers what is shown first. No candidate is called better or worse
// than another, and the report says why.
func TestFortyEqualsBehindABaseline(t *testing.T) {
	t.Parallel()
	candidates := names(40)
	m := sourceOf(plan(candidates, names(30), "j"))
	random := rand.New(rand.NewPCG(1, 5))
	for _, item := range names(30) {
		for _, other := range candidates[1:] {
			first, second := item+"/"+candidates[0], item+"/"+other
			winner := first
			if random.Float64() < 0.27 { // an order effect of 1
				winner = second
			}
			m.verdict(0, first, second, winner, "r")
		}
	}
	r := built(t, m, Options{})
	for _, c := range r.Groups[0].Ranked {
		if c.RankLow != 1 || c.RankHigh != 40 {
			t.Errorf("%s has ranks %d to %d of 40 equals", c.Name, c.RankLow, c.RankHigh)
		}
	}
	if strings.Contains(r.Headline(), "ahead of every other") || !strings.Contains(strings.Join(r.Notes(), "\n"), "shown in one order only") {
		t.Errorf("%s\n%s", r.Headline(), strings.Join(r.Notes(), "\n"))
	}
}

// TestConsistentJudgeFavoursNoPosition: a judge that gives the same answer in both orders
// has no order effect but for rounding, which is not mentioned.
func TestConsistentJudgeFavoursNoPosition(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, names(12), "j"))
	for k, item := range names(12) {
		for i, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"a", "c"}} {
			winner := item + "/" + pair[0]
			if (k+i)%4 == 0 {
				winner = item + "/" + pair[1]
			}
			m.verdict(0, item+"/"+pair[0], item+"/"+pair[1], winner, "r")
			m.verdict(0, item+"/"+pair[1], item+"/"+pair[0], winner, "r")
		}
	}
	r := built(t, m, Options{})
	if limits := r.Judges[0].OrderLimits; !(limits.Low < -0.1 && limits.High > 0.1) {
		t.Errorf("limits of an order effect of 0: %+v", limits)
	}
	for _, note := range r.Notes() {
		if strings.Contains(note, "favours the text shown") {
			t.Error(note)
		}
	}
}

// TestOneCluster: verdicts on one pair of documents say nothing about others, so that
// the limits are the fit's own and no candidate is called ahead.
func TestOneCluster(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	for k := range 40 {
		winner := "q/a"
		if k%10 == 0 {
			winner = "q/b"
		}
		m.verdict(0, "q/a", "q/b", winner, "r")
		m.verdict(0, "q/b", "q/a", winner, "r")
	}
	r := built(t, m, Options{})
	best := r.Groups[0].Ranked[0]
	if best.SE != best.ModelSE || best.RankHigh != 2 || r.Intervals.Clusters != 1 {
		t.Errorf("%+v by %+v", best, r.Intervals)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "All verdicts are on one pair of documents") {
		t.Errorf("the notes do not say so: %s", notes)
	}
}

// TestEloCorrectsForOrder: four documents that are equal but for a judge who prefers what
// is shown first in four of five verdicts, each pair in one order, have about one rating.
// Without the order effect they are far apart.
func TestEloCorrectsForOrder(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c", "d"}, []string{"q"}, "j"))
	const trials = 200
	for pair, won := range map[string]int{"ab": 162, "ac": 162, "ad": 163, "bc": 167, "bd": 168, "cd": 162} {
		first, second := "q/"+pair[:1], "q/"+pair[1:]
		for k := range trials {
			winner := first
			if k >= won {
				winner = second
			}
			m.verdict(0, first, second, winner, "r")
		}
	}
	for _, tt := range []struct {
		options Options
		want    []float64
		within  float64
	}{
		{Options{NoPosition: true}, []float64{1209, 1077, 929, 784}, 1},
		{Options{}, []float64{1000, 1000, 1000, 1000}, 15},
	} {
		elo := map[string]float64{}
		for _, one := range built(t, m, tt.options).Rankings().Elo {
			elo[one.DocID] = one.Elo
		}
		for k, document := range []string{"q/a", "q/b", "q/c", "q/d"} {
			if got := elo[document]; !(math.Abs(got-tt.want[k]) <= tt.within) {
				t.Errorf("position effect left in %t: %s is rated %.2f, want %v", tt.options.NoPosition, document, got, tt.want[k])
			}
		}
	}
}

// TestDevianceOfSparseVerdicts: with one verdict of a judge on each pair and order, deviance says
// nothing about the fit, and is left out; with five it is shown.
func TestDevianceOfSparseVerdicts(t *testing.T) {
	t.Parallel()
	for trials, shown := range map[int]bool{1: false, 4: false, 5: true} {
		m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j"))
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}, {"b", "c"}, {"c", "b"}} {
			for k := range trials {
				m.verdict(0, "q/"+pair[0], "q/"+pair[1], "q/"+pair[k%2], "r")
			}
		}
		r := built(t, m, Options{})
		if got := strings.Contains(r.fitWords(), "deviance"); got != shown {
			t.Errorf("%d verdicts in a cell: deviance is shown %t, want %t: %q", trials, got, shown, r.fitWords())
		}
	}
}

// TestFlipsAreNoVerdicts: two judges that always prefer the text shown first agree about
// nothing.
func TestFlipsAreNoVerdicts(t *testing.T) {
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
	if a := r.Agreement; a == nil || a.Units != 4 || a.Pairs[0].Units != 4 || a.Pairs[0].Raw != 1 {
		t.Errorf("agreement %+v, want on the 4 pairs that both read", r.Agreement)
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
	if r.Judges[0].Effect.HasOrder || !strings.Contains(strings.Join(r.method(), "\n"), "not taken out") {
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
		{Options{}, "ties by Davidson's model, position effects taken out, fallback answers left out, length left in, intervals by 6 items, seed 0."},
		{Options{Ties: rank.HalfWins, NoPosition: true, Fallback: true, Seed: 7}, "ties as half wins, position effects left in, fallback answers counted, length left in, intervals by 6 items, seed 7."},
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
		for k, row := range rows.Ranking[:3] {
			lead := row.Ability - rows.Ranking[k+1].Ability
			if math.Abs(row.Lead-lead) > 1e-9 || !(row.LeadLow < lead && lead < row.LeadHigh) {
				t.Errorf("%s leads by %v (%v to %v), want %v", row.Candidate, row.Lead, row.LeadLow, row.LeadHigh, lead)
			}
		}
		if !math.IsNaN(rows.Ranking[3].Lead) {
			t.Errorf("the last leads by %v", rows.Ranking[3].Lead)
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
	for _, want := range []string{"judges weighed by their scale", "With equal weights, 0 candidates would have another rank, and the same would be first", weighed.Judges[1].scale(), "may be 0"} {
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
		if notes := strings.Join(tt.r.Notes(), "\n"); !strings.Contains(notes, "flipped to the other text in 40.0 %") {
			t.Errorf("the notes do not say how often it flipped: %s", notes)
		}
	}
	if !strings.Contains(ties.choiceSentence(), "flips as ties") || ties.Agreement != nil {
		t.Errorf("choices: %s", ties.choiceSentence())
	}
}
