package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// simulated is a judge whose verdicts depend on the texts and on their order, each in log-odds.
type simulated struct {
	reads, follows float64
	model          string // empty: one of its own
}

// world is an evaluation with a known truth. Candidate k is better than k+1 by the same difference, over all about
// spread; items change a text's quality at random.
type world struct {
	candidates, items int
	spread            float64
	judges            []simulated
	done              float64                               // share of the pairs that have verdicts; 0: all
	wins              func(first, second, item int) float64 // log-odds that replace the qualities
	votes             int                                   // pairs that a person voted on
	reads             float64                               // of the person; negative: prefers the worse text
	fails             func(first, second, run int) bool     // by candidate
	change            func(*memory)
}

func (w world) build(seed uint64) *memory {
	random := rand.New(rand.NewPCG(seed, 11))
	items := make([]string, w.items)
	for k := range items {
		items[k] = fmt.Sprintf("q%03d", k)
	}
	judges := make([]string, len(w.judges))
	for k := range judges {
		judges[k] = fmt.Sprintf("judge-%d", k)
	}
	e := plan(names(w.candidates), items, judges...)
	for k, j := range w.judges {
		if j.model != "" {
			e.Judges[k].Model = j.model
		}
	}
	m := sourceOf(e)
	counts := results.PhaseCounts{Kind: eval.KindPairwise, Classes: map[string]int{}}
	quality := make([]float64, len(e.Documents))
	for d := range quality {
		quality[d] = -w.spread*float64(d%w.candidates)/float64(max(1, w.candidates-1)) + .7*random.NormFloat64()
	}

	pairs := w.items * w.candidates * (w.candidates - 1) / 2
	left, voted := pairs, 0
	if w.done > 0 {
		left = int(math.Ceil(w.done * float64(pairs)))
	}
	for item := range w.items {
		for i := range w.candidates {
			for k := i + 1; k < w.candidates; k++ {
				counts.Runs += 2 * len(judges)
				if left--; left < 0 {
					continue
				}
				one, other := item*w.candidates+i, item*w.candidates+k
				better := quality[one] - quality[other]
				if w.wins != nil {
					better = w.wins(i, k, item)
				}
				for j, judge := range w.judges {
					for order := range 2 {
						first, second := e.Documents[one], e.Documents[other]
						if order == 1 {
							first, second = second, first
						}
						winner := e.Documents[other].ID
						if random.Float64() < logistic(judge.reads*better+judge.follows*float64(1-2*order)) {
							winner = e.Documents[one].ID
						}
						if w.fails != nil && w.fails(i, k, counts.Succeeded+counts.Failed) {
							m.failed = append(m.failed, results.RunRow{Run: record.Run{
								Index: counts.Succeeded + counts.Failed, Kind: eval.KindPairwise, State: "failed", Judge: judges[j], Model: e.Judges[j].Target(),
								Documents: []string{first.ID, second.ID}, Class: providers.Timeout, Trial: 1,
							}})
							counts.Failed++
							continue
						}
						m.verdict(j, first.ID, second.ID, winner, "r")
						counts.Succeeded++
					}
				}
				if voted < w.votes {
					voted++
					winner := e.Documents[other].ID
					if random.Float64() < logistic(w.reads*better) {
						winner = e.Documents[one].ID
					}
					m.vote("ann", e.Documents[one].ID, e.Documents[other].ID, winner)
				}
			}
		}
	}

	m.counts = []results.PhaseCounts{counts}
	if counts.Runs > counts.Succeeded+counts.Failed {
		m.evaluation.Finished = time.Time{}
	}
	if w.change != nil {
		w.change(m)
	}
	return m
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// TestTrustOfEvaluations: the level of constructed evaluations is what a careful statistician would say, and the
// weakest evidence is named.
func TestTrustOfEvaluations(t *testing.T) {
	t.Parallel()
	good := simulated{reads: 3}
	two, three := []simulated{good, good}, []simulated{good, good, good}
	follower, coin := simulated{follows: 6}, simulated{}
	circle := func(i, k, _ int) float64 {
		if (k-i+9)%9 <= 4 {
			return 3
		}
		return -3
	}
	for _, tt := range []struct {
		name string
		world
		want    Level
		weakest string // Evidence.Of of some evidence of this level; empty: none is weak
	}{
		{"three good judges", world{candidates: 5, items: 20, spread: 3, judges: three}, Sound, ""},
		{"two good judges", world{candidates: 5, items: 20, spread: 3, judges: two}, Sound, ""},
		{"five good judges on two candidates", world{candidates: 2, items: 40, spread: 1, judges: append(three, two...)}, Sound, ""},
		{"equal candidates, good judges", world{candidates: 6, items: 20, judges: []simulated{{reads: 5}, {reads: 5}}}, Sound, ""},
		{"the better one is always listed first", world{candidates: 2, items: 40, judges: two, wins: func(int, int, int) float64 { return .9 }}, Sound, ""},
		{"20 candidates, one item", world{candidates: 20, items: 1, spread: 8, judges: two}, Sound, ""},
		{"one judge", world{candidates: 5, items: 20, spread: 3, judges: three[:1]}, Caution, "judges"},
		{"one judge that people confirm", world{candidates: 5, items: 20, spread: 3, judges: three[:1], votes: 100, reads: 3}, Sound, ""},
		{"one judge, three votes", world{candidates: 5, items: 20, spread: 3, judges: three[:1], votes: 3, reads: 3}, Caution, "judges"},
		{"one judge that people contradict", world{candidates: 5, items: 20, spread: 3, judges: three[:1], votes: 100, reads: -3}, Unsound, "people"},
		{"three judges that people contradict", world{candidates: 5, items: 20, spread: 3, judges: three, votes: 100, reads: -3}, Unsound, "people"},
		{"three judges that people half confirm", world{candidates: 5, items: 20, spread: 3, judges: three, votes: 200, reads: .4}, Caution, "people"},
		{"three judges of one model", world{candidates: 5, items: 20, spread: 3, judges: []simulated{{3, 0, "m"}, {3, 0, "m"}, {3, 0, "m"}}}, Caution, "judges"},
		{"three judges that follow the order", world{candidates: 5, items: 6, spread: 3, judges: []simulated{follower, follower, follower}}, Unsound, "order"},
		{"one judge that follows the order", world{candidates: 5, items: 20, spread: 3, judges: []simulated{follower}}, Unsound, "order"},
		{"two judges at random", world{candidates: 6, items: 40, spread: 3, judges: []simulated{coin, coin}}, Unsound, "agreement"},
		{"judges that often follow the order", world{candidates: 5, items: 20, spread: 3, judges: []simulated{{3, 2.5, ""}, {3, 2.5, ""}}}, Caution, "order"},
		{"judges that agree fairly", world{candidates: 5, items: 40, spread: 2, judges: []simulated{{1.2, 0, ""}, {1.2, 0, ""}}}, Caution, "agreement"},
		{"a judge at random among four good ones", world{candidates: 5, items: 20, spread: 3, judges: append(three, good, simulated{reads: -.3})}, Caution, "judges"},
		{"the first pair", world{candidates: 2, items: 1, spread: 1, judges: []simulated{follower}}, Unknown, "pairs"},
		{"four pairs, all alike", world{candidates: 2, items: 4, spread: 90, judges: two}, Unknown, "pairs"},
		{"six pairs, all alike", world{candidates: 2, items: 6, spread: 90, judges: two}, Sound, ""},
		{"eight pairs", world{candidates: 2, items: 8, spread: 0, judges: []simulated{{1.5, 0, ""}, {1.5, 0, ""}}}, Caution, "agreement"},
		{"hardly begun", world{candidates: 40, items: 1, spread: 20, judges: three, done: .007}, Unknown, "coverage"},
		{"a tenth done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .1}, Unknown, "coverage"},
		{"half done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .5}, Caution, "coverage"},
		{"nearly done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .99}, Caution, "coverage"},
		{"half done, three without verdicts", world{candidates: 20, items: 1, spread: 9, judges: three, done: .5, change: func(m *memory) {
			lack := []string{"/candidate-0017", "/candidate-0018", "/candidate-0019"}
			kept := m.pairwise[:0]
			for _, row := range m.pairwise {
				with := false
				for _, name := range lack {
					with = with || strings.HasSuffix(row.Document1, name) || strings.HasSuffix(row.Document2, name)
				}
				if !with {
					kept = append(kept, row)
				}
			}
			m.pairwise = kept
		}}, Unknown, "coverage"},
		{"half done by judges that follow the order", world{candidates: 4, items: 60, spread: 3, judges: []simulated{follower, follower}, done: .5}, Unsound, "order"},
		{"a tenth done by judges that follow the order", world{candidates: 4, items: 60, spread: 3, judges: []simulated{follower, follower}, done: .1}, Unknown, "coverage"},
		{"cancelled at 80 %", world{candidates: 4, items: 60, spread: 3, judges: three, done: .8, change: func(m *memory) { m.evaluation.Cancelled = time.Now() }}, Caution, "coverage"},
		{"ended, but a tenth is asked again", world{candidates: 4, items: 60, spread: 3, judges: three, done: .9, change: func(m *memory) {
			m.evaluation.Finished = m.evaluation.Created.Add(time.Hour)
		}}, Caution, "coverage"},
		{"all of --limit done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .5, change: func(m *memory) {
			m.counts[0].Runs = m.counts[0].Succeeded
			m.evaluation.Finished, m.evaluation.Settings.Limit = m.evaluation.Created.Add(time.Hour), m.counts[0].Runs
		}}, Caution, "coverage"},
		{"all of max_pairs done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .5, change: func(m *memory) {
			m.counts[0].Runs = m.counts[0].Succeeded
			m.evaluation.Finished, m.evaluation.Settings.Limit = m.evaluation.Created.Add(time.Hour), m.counts[0].Runs
			m.evaluation.Settings.Until = &record.Until{Top: 1, Confidence: .95, MaxPairs: 180}
		}}, Sound, ""},
		{"ended early, the best being known", world{candidates: 4, items: 60, spread: 3, judges: three, done: .8, change: func(m *memory) {
			m.evaluation.Stopped = &results.Stop{Known: &results.Known{}}
		}}, Sound, ""},
		{"candidates in a circle", world{candidates: 9, items: 8, judges: three, wins: circle}, Unsound, "cycles"},
		{"some in a circle", world{candidates: 12, items: 8, judges: two, wins: func(i, k, _ int) float64 {
			if i < 3 && k >= 9 {
				return -2
			}
			return 2
		}}, Caution, "cycles"},
		{"good at different questions", world{candidates: 4, items: 60, judges: two, wins: func(i, k, item int) float64 {
			if (item+i)%2 == 0 {
				return 2.5
			}
			return -2.5
		}}, Sound, ""},
		{"a last candidate that beats the first", world{candidates: 4, items: 30, judges: two, wins: func(i, k, _ int) float64 {
			if i == 0 && k == 3 {
				return -2
			}
			return 1
		}}, Unsound, "cycles"},
		{"a lead that is smaller over weaker candidates", world{candidates: 4, items: 40, judges: []simulated{{reads: 1}, {reads: 1}}, wins: func(i, k, _ int) float64 {
			if k == i+1 {
				return 3.5
			}
			return 1.3
		}}, Caution, "fit"},
		{"a candidate without a third of its verdicts", world{candidates: 5, items: 20, spread: 3, judges: two, fails: func(i, _, run int) bool { return i == 0 && run%3 == 0 }}, Unsound, "missing"},
		{"a candidate without a tenth of its verdicts", world{candidates: 5, items: 20, spread: 3, judges: two, fails: func(i, _, run int) bool { return i == 0 && run%10 == 0 }}, Caution, "missing"},
		{"one verdict in 60 failed", world{candidates: 5, items: 20, spread: 3, judges: two, fails: func(_, _, run int) bool { return run%61 == 0 }}, Sound, ""},
		{"one order only", world{candidates: 5, items: 20, spread: 3, judges: two, change: func(m *memory) {
			m.evaluation.Plan.Pairwise.Order = eval.OrderRandom
			m.pairwise = everySecond(m.pairwise)
		}}, Caution, "order"},
		{"two judges with no pair in common", world{candidates: 5, items: 20, spread: 3, judges: two, change: func(m *memory) {
			kept := m.pairwise[:0]
			for _, row := range m.pairwise {
				if (row.Judge == "judge-0") == (row.Item < "q010") {
					kept = append(kept, row)
				}
			}
			m.pairwise = kept
		}}, Caution, "agreement"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := built(t, tt.build(1), Options{Draws: 50})
			trust := r.Reliance()
			if trust.Level != tt.want {
				t.Errorf("%s, want %s: %s", trust.Level, tt.want, trust)
			}
			named := tt.weakest == ""
			for _, one := range trust.Evidence {
				t.Logf("%s %s %.3g %s", one.Of, one.Level, one.Value, one.Why)
				if one.Level.place() < trust.Level.place() {
					t.Errorf("%s is better than its evidence on %s, which is %s", trust.Level, one.Of, one.Level)
				}
				named = named || one.Of == tt.weakest && one.Level == tt.want && strings.Contains(trust.String(), one.Why)
			}
			if !named {
				t.Errorf("%s: the weakest evidence, on %s, is not named", trust, tt.weakest)
			}
			for level, place := range map[string]Level{"sound": Sound, "caution": Caution, "unsound": Unsound, "unknown": Unknown} {
				gate, err := ParseRequirement("trust >= " + level)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := gate.Check(r); err != nil || got.Met != (tt.want.place() >= place.place()) || !strings.Contains(got.Got, trust.String()) {
					t.Errorf("trust >= %s: %+v, %v", level, got, err)
				}
			}
			if got := strings.HasPrefix(r.Headline(), "So far, "); got != !r.complete() || got && trust.Level == Sound {
				t.Errorf("headline %q, complete: %t, level %s", r.Headline(), r.complete(), trust.Level)
			}
		})
	}
}

func everySecond(rows []results.PairwiseRow) (kept []results.PairwiseRow) {
	for k, row := range rows {
		if k%2 == k/2%2 {
			kept = append(kept, row)
		}
	}
	return kept
}

// TestTrustIsRight: over evaluations of 2 to 300 candidates by 1 to 5 judges, of which 5 to 100 % is done, nothing
// incomplete is sound, judges that do not read are hardly ever sound, and two or more good ones nearly always are. A
// headline that calls a candidate ahead is right in 95 %.
func TestTrustIsRight(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	rates := map[string]*[2]int{} // how many of how many
	count := func(what string, yes bool) {
		if rates[what] == nil {
			rates[what] = &[2]int{}
		}
		rates[what][0] += one(yes)
		rates[what][1]++
	}

	many := 160
	if testing.Short() {
		many = 60
	}
	for k := range many {
		w := world{candidates: []int{2, 3, 5, 10}[random.IntN(4)], spread: []float64{0, 2, 6}[random.IntN(3)], done: []float64{.05, .3, .8, 1, 1, 1}[random.IntN(6)]}
		w.items = max(1, []int{20, 100}[random.IntN(2)]/(w.candidates-1))
		if k == 0 && !testing.Short() {
			w = world{candidates: 300, items: 1, spread: 20, done: .05}
		} else if k == 1 && !testing.Short() {
			w = world{candidates: 60, items: 1, spread: 12, done: 1}
		}
		reads := random.IntN(3) > 0
		for range 1 + random.IntN(5) {
			judge := simulated{reads: 4 + 2*random.Float64(), follows: .5 * random.NormFloat64()}
			if !reads {
				judge = simulated{follows: []float64{0, 5, -5}[random.IntN(3)]}
			}
			w.judges = append(w.judges, judge)
		}

		r := built(t, w.build(uint64(k)), Options{Draws: 40})
		trust := r.Reliance()
		complete, several := w.done == 1, len(w.judges) > 1
		if soFar := strings.HasPrefix(r.Headline(), "So far, "); soFar == complete {
			t.Errorf("%+v: headline %q", w, r.Headline())
		}
		if !complete {
			count("incomplete and sound", trust.Level == Sound)
		}
		if !several {
			count("one judge and sound", trust.Level == Sound)
		}
		if !reads {
			count("judges that do not read, and sound", trust.Level == Sound)
		}
		if complete && r.Pairs >= 20 && several {
			if reads {
				count("good judges, complete, and sound", trust.Level == Sound)
			} else {
				count("judges that do not read, complete, and unsound", trust.Level == Unsound)
			}
		}
		if reads && w.spread > 0 && r.ahead() {
			count("ahead, but not the best", r.Groups[0].Ranked[0].Name != "candidate-0000")
		}
	}

	for what, bounds := range map[string][2]float64{
		"incomplete and sound": {0, 0}, "one judge and sound": {0, 0}, "judges that do not read, and sound": {0, 0.02},
		"good judges, complete, and sound": {.85, 1}, "judges that do not read, complete, and unsound": {.85, 1},
		"ahead, but not the best": {0, .05},
	} {
		of := rates[what]
		got := float64(of[0]) / float64(of[1])
		t.Logf("%s: %d of %d", what, of[0], of[1])
		if got < bounds[0] || got > bounds[1] {
			t.Errorf("%s: %d of %d, want %v to %v", what, of[0], of[1], bounds[0], bounds[1])
		}
	}
}
