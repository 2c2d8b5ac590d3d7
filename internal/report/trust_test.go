package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

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
	aroundFour := func(lead float64) func(int, int, int) float64 { // each beats the next but the last, which beats the first
		return func(i, k, _ int) float64 {
			if i == 0 && k == 3 {
				return -lead
			}
			return lead
		}
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
		{"three judges that people half confirm", world{candidates: 5, items: 20, spread: 3, judges: three, votes: 200, reads: .3}, Caution, "people"},
		{"three judges of one model", world{candidates: 5, items: 20, spread: 3, judges: []simulated{{3, 0, "m"}, {3, 0, "m"}, {3, 0, "m"}}}, Caution, "judges"},
		{"three judges that follow the order", world{candidates: 5, items: 6, spread: 3, judges: []simulated{follower, follower, follower}}, Unsound, "order"},
		{"one judge that follows the order", world{candidates: 5, items: 20, spread: 3, judges: []simulated{follower}}, Unsound, "order"},
		{"two judges at random", world{candidates: 6, items: 40, spread: 3, judges: []simulated{coin, coin}}, Unsound, "agreement"},
		{"a judge under two names", world{candidates: 5, items: 20, spread: 3, judges: []simulated{{2, .6, ""}, {2, .6, ""}}, change: func(m *memory) {
			said := map[string]results.PairwiseRow{}
			for k, row := range m.pairwise {
				key := fmt.Sprint(row.Document1, row.Document2, row.Trial)
				if first, ok := said[key]; ok {
					m.pairwise[k].Winner = first.Winner
				} else {
					said[key] = row
				}
			}
		}}, Caution, "judges"},
		{"judges that often follow the order", world{candidates: 5, items: 20, spread: 3, judges: []simulated{{3, 2.5, ""}, {3, 2.5, ""}}}, Caution, "order"},
		{"judges that agree fairly", world{candidates: 5, items: 40, spread: 2, judges: []simulated{{1.2, 0, ""}, {1.2, 0, ""}}}, Caution, "agreement"},
		{"a judge at random among four good ones", world{candidates: 5, items: 20, spread: 3, judges: append(three, good, simulated{reads: -.3})}, Caution, "judges"},
		{"the first pair", world{candidates: 2, items: 1, spread: 1, judges: []simulated{follower}}, Unknown, "pairs"},
		{"four pairs, all alike", world{candidates: 2, items: 4, spread: 90, judges: two}, Unknown, "pairs"},
		{"five pairs, all alike", world{candidates: 2, items: 5, spread: 90, judges: two}, Caution, "agreement"},
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
		{"all of a --limit to a tenth done", world{candidates: 4, items: 60, spread: 3, judges: three, done: .1, change: func(m *memory) {
			m.counts[0].Runs = m.counts[0].Succeeded
			m.evaluation.Finished, m.evaluation.Settings.Limit = m.evaluation.Created.Add(time.Hour), m.counts[0].Runs
		}}, Unknown, "coverage"},
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
		{"four texts, two of four triples circular", world{candidates: 4, items: 1, judges: two, wins: aroundFour(4)}, Caution, "cycles"},
		{"four candidates, two of four triples circular", world{candidates: 4, items: 6, judges: two, wins: aroundFour(4)}, Caution, "cycles"},
		{"five texts, half of the triples circular", world{candidates: 5, items: 1, judges: two, wins: func(i, k, _ int) float64 {
			return 4 * float64(1-2*((k-i)/3))
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
		{"one order only", world{candidates: 5, items: 20, spread: 3, judges: two, change: inOneOrder}, Caution, "order"},
		{"one order only, which judges follow", world{
			candidates: 5, items: 20, spread: 3, judges: []simulated{follower, follower}, change: inOneOrder,
		}, Unsound, "order"},
		{"nearly all ties", world{candidates: 2, items: 40, judges: two, change: func(m *memory) {
			for k := range m.pairwise[:len(m.pairwise)-4] {
				m.pairwise[k].Winner = eval.Tie
			}
		}}, Unknown, "pairs"},
		{"three questions", world{candidates: 5, items: 3, spread: 3, judges: three}, Caution, "pairs"},
		{"12 pairs of two questions, all alike", world{candidates: 4, items: 2, spread: 90, judges: two}, Caution, "agreement"},
		{"three candidates in a circle", world{candidates: 3, items: 6, judges: three, wins: func(i, k, _ int) float64 {
			return map[int]float64{1: 3, 2: -3}[k-i]
		}}, Unsound, "cycles"},
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
			if got := strings.Contains(r.Headline(), " to say how certain that is."); got != (trust.Level.place() < Caution.place()) {
				t.Errorf("level %s, headline %q", trust.Level, r.Headline())
			}
			if got := strings.HasPrefix(r.Headline(), "So far, "); got != !r.complete() || got && trust.Level == Sound {
				t.Errorf("headline %q, complete: %t, level %s", r.Headline(), r.complete(), trust.Level)
			}
		})
	}
}

// Equal candidates beat each other in circles by chance. Verdicts that one strength for each candidate explains are no
// reason to doubt good judges.
func TestTrustOfEqualCandidatesInACircle(t *testing.T) {
	t.Parallel()
	w, circles := world{candidates: 4, items: 20, judges: []simulated{{reads: 5}, {reads: 5}}}, 0
	for _, seed := range []uint64{19, 35, 57} {
		r := built(t, w.build(seed), Options{Draws: 40})
		if r.Cycles.Share() >= chanceCycles {
			circles++
		}
		if trust := r.Reliance(); trust.Level != Sound {
			t.Errorf("seed %d, %+v: %s, want sound: %s", seed, r.Cycles, trust.Level, trust)
		}
	}
	if circles < 2 {
		t.Errorf("%d evaluations have circles, want 2 at least", circles)
	}
}

// An evaluation that was interrupted says what its beginning has compared.
func TestTrustSaysHowManyVerdictsCandidatesHave(t *testing.T) {
	t.Parallel()
	good := simulated{reads: 3}
	m := world{candidates: 4, items: 60, spread: 3, judges: []simulated{good, good}, done: .51, shuffled: true}.build(1)
	verdicts := map[string]int{}
	for _, row := range m.pairwise {
		for _, document := range []string{row.Document1, row.Document2} {
			verdicts[document[strings.Index(document, "/"):]]++
		}
	}
	values := slices.Sorted(maps.Values(verdicts))
	want := fmt.Sprintf(", %d to %d verdicts on each candidate", values[0], values[len(values)-1])
	if len(values) != 4 || values[0] == values[3] {
		t.Fatalf("candidates have %v verdicts, want the four to differ", values)
	}
	if trust := built(t, m, Options{Draws: 50}).Reliance().String(); !strings.Contains(trust, want) {
		t.Errorf("trust = %s, want it to contain %q", trust, want)
	}
}

// inOneOrder leaves the verdicts on each pair in one order.
func inOneOrder(m *memory) {
	m.evaluation.Plan.Pairwise.Order = eval.OrderRandom
	kept := m.pairwise[:0]
	for k, row := range m.pairwise {
		if k%2 == k/2%2 {
			kept = append(kept, row)
		}
	}
	m.pairwise = kept
}
