package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// evidenceOf returns the evidence about something.
func evidenceOf(t *testing.T, r *Report, of string) Evidence {
	t.Helper()
	for _, one := range r.Reliance().Evidence {
		if one.Of == of {
			return one
		}
	}
	t.Fatalf("no evidence on %s in %s", of, r.Reliance().Line())
	return Evidence{}
}

// Judges whose scores share only how hard the items are do not agree about candidates, however high the alpha of all
// scores is.
func TestScoresAgreeWithinItems(t *testing.T) {
	t.Parallel()
	hard := func(item int) float64 { return []float64{2.5, 5.5, 8.5}[item%3] }
	for name, tt := range map[string]struct {
		likes [2]float64 // how much each judge likes the first candidates better
		level Level
	}{
		"both like the same": {[2]float64{1, 1}, Sound}, "they like the opposite": {[2]float64{.6, -.6}, Unsound},
		"one likes nothing": {[2]float64{.8, 0}, Caution},
	} {
		r := built(t, scoring(4, 48, 2, func(random *rand.Rand, candidate, item, judge int) float64 {
			return math.Round(hard(item) + tt.likes[judge]*(1.5-float64(candidate)) + .5*random.NormFloat64())
		}), Options{Draws: 50})
		a, got := r.ScoreAgreement[0], evidenceOf(t, r, "agreement")
		if a.Interval < tentative || a.WithinUnits < 180 {
			t.Errorf("%s: alpha of all scores %.2f, %d texts within items: it would have warned as well", name, a.Interval, a.WithinUnits)
		}
		if got.Level.place() > tt.level.place() || tt.level != Caution && got.Level != tt.level {
			t.Errorf("%s: %s, alpha within items %.2f, of all scores %.2f; want %s", name, got.Level, a.Within, a.Interval, tt.level)
		}
	}
}

// Where scores rank candidates, people who prefer the opposite are evidence against them, as where verdicts do.
func TestPeopleContradictScores(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agree bool
		level Level
	}{"agree": {true, Sound}, "contradict": {false, Unsound}} {
		m := scoring(3, 20, 2, func(random *rand.Rand, candidate, _, _ int) float64 { return nearScore(random, 8-2*float64(candidate)) })
		for _, item := range m.evaluation.Plan.Items {
			for _, pair := range [][2]string{{"candidate-0000", "candidate-0001"}, {"candidate-0001", "candidate-0002"}} {
				better, worse := item.ID+"/"+pair[0], item.ID+"/"+pair[1]
				if !tt.agree {
					better, worse = worse, better
				}
				m.vote("ann", better, worse, better)
			}
		}
		r := built(t, m, Options{Draws: 50})
		if got := evidenceOf(t, r, "people"); got.Level != tt.level || r.People.Judges[0].Pairs != 40 {
			t.Errorf("people %s: %s over %d pairs, want %s over 40", name, got.Level, r.People.Judges[0].Pairs, tt.level)
		}
		if line := r.Reliance().Line(); !strings.Contains(line, "match people on") || !strings.Contains(line, "of 40 pairs") {
			t.Errorf("people %s: %s", name, line)
		}
	}
}

// Verdicts that do not count because a fallback model gave them are as missing as those of failed runs.
func TestFallbackAnswersAreMissing(t *testing.T) {
	t.Parallel()
	m := tournament(names(3), names(40), []string{"j", "k"}, []float64{0.2, 0.2}, 0.6)
	n := 0
	for k, row := range m.pairwise {
		if row.Judge == "k" && (row.Candidate1 == "candidate-0000" || row.Candidate2 == "candidate-0000") && n%10 != 0 {
			m.pairwise[k].AnsweredBy = "other:model"
		}
		n++
	}
	r := built(t, m, Options{Draws: 50})
	if got := evidenceOf(t, r, "missing"); got.Level != Unsound || r.Missing.Candidates[0].Name != "candidate-0000" {
		t.Errorf("%s: %+v", got.Level, r.Missing)
	}
	counted := built(t, m, Options{Draws: 50, Fallback: true})
	if got := evidenceOf(t, counted, "missing"); got.Level != Sound || counted.Missing != nil {
		t.Errorf("with fallback answers counted: %s, %+v", got.Level, counted.Missing)
	}
}

// A ranking by a strong judge rests on that judge: on how it follows the order, and on whether it confirms what the first
// judges do not contest.
func TestTrustOfAStrongJudge(t *testing.T) {
	t.Parallel()
	contradicts := built(t, escalated(t, 1), Options{Draws: 50})
	if got := evidenceOf(t, contradicts, "agreement"); got.Level != Unsound || !strings.Contains(got.Why, "confirms") {
		t.Errorf("a strong judge that prefers the opposite: %s, %s", got.Level, got.Why)
	}

	follows := escalated(t, 1)
	for k, row := range follows.pairwise {
		if row.Judge == "strong" {
			follows.pairwise[k].Winner = row.Document1
		}
	}
	if got := evidenceOf(t, built(t, follows, Options{Draws: 50}), "order"); got.Level != Unsound || !strings.Contains(got.Why, "100 %") {
		t.Errorf("a strong judge that prefers the first place: %s, %s", got.Level, got.Why)
	}

	confirms := escalated(t, 1)
	best := func(a, b string) string { return max(a, b) } // of an item, as the first judges prefer
	for k, row := range confirms.pairwise {
		if row.Judge == "strong" {
			confirms.pairwise[k].Winner = best(row.Document1, row.Document2)
		}
	}
	if got := evidenceOf(t, built(t, confirms, Options{Draws: 50}), "agreement"); got.Level != Sound {
		t.Errorf("a strong judge that prefers the same: %s, %s", got.Level, got.Why)
	}
}

// Judges that flip coins are unsound, although their agreement is as often above that of chance as below.
func TestNoiseIsUnsound(t *testing.T) {
	t.Parallel()
	const evaluations = 60
	sound := 0
	for seed := range uint64(evaluations) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := sourceOf(plan(names(4), names(20), "j", "k"))
		documents := m.evaluation.Plan.Documents
		for one := range documents {
			for other := range documents[:one] {
				if documents[one].Item != documents[other].Item {
					continue
				}
				for judge := range 2 {
					first, second := documents[one].ID, documents[other].ID
					winner := []string{first, second}[random.IntN(2)] // the same in both orders with even seeds
					m.verdict(judge, first, second, winner, "")
					if seed%2 == 1 {
						winner = []string{first, second}[random.IntN(2)]
					}
					m.verdict(judge, second, first, winner, "")
				}
			}
		}
		if r := built(t, m, Options{Draws: 20}); r.Reliance().Level.place() > Unsound.place() {
			sound++
		}
	}
	if sound > evaluations/10 {
		t.Errorf("%d of %d evaluations by judges that flip coins are not unsound", sound, evaluations)
	}
}

// If each pair was shown in one order only, and always the same candidates first, that the first text always wins tells
// nothing.
func TestFirstTextAlwaysWins(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		winner  func(item, first, second int) bool // whether the text shown first wins
		options Options
		level   Level
	}{
		"always the first":                    {func(int, int, int) bool { return true }, Options{Draws: 20}, Unknown},
		"always the first, order not modeled": {func(int, int, int) bool { return true }, Options{Draws: 20, NoPosition: true}, Unknown},
		"always the second":                   {func(int, int, int) bool { return false }, Options{Draws: 20}, Unknown},
		"half and half":                       {func(item, first, second int) bool { return (item+first+second)%2 == 0 }, Options{Draws: 20}, Caution},
	} {
		e := plan(names(4), names(20), "j", "k")
		e.Pairwise.Order = "as_listed"
		m := sourceOf(e)
		for item := range e.Items {
			for first := range 4 {
				for second := first + 1; second < 4; second++ {
					a, b := e.Documents[4*item+first].ID, e.Documents[4*item+second].ID
					for judge := range 2 {
						winner := b
						if tt.winner(item, first, second) {
							winner = a
						}
						m.verdict(judge, a, b, winner, "")
					}
				}
			}
		}
		if got := evidenceOf(t, built(t, m, tt.options), "order"); got.Level != tt.level {
			t.Errorf("%s: %s, %s; want %s", name, got.Level, got.Why, tt.level)
		}
	}
}
