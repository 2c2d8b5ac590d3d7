package report

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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
	shuffled          bool // pairs are asked about in random order
}

// qualities of the documents, item by item.
func (w world) qualities(random *rand.Rand) []float64 {
	quality := make([]float64, w.candidates*w.items)
	for d := range quality {
		quality[d] = -w.spread*float64(d%w.candidates)/float64(max(1, w.candidates-1)) + .7*random.NormFloat64()
	}
	return quality
}

// best is the best of the ranked candidates, or the first of equals. Of one item, the best text is that of the best
// candidate.
func (w world) best(seed uint64, ranked []Ranked) string {
	quality := w.qualities(rand.New(rand.NewPCG(seed, 11)))
	best, most := "", math.Inf(-1)
	for k, name := range names(w.candidates) {
		of := -w.spread * float64(k)
		if w.items == 1 {
			of = quality[k]
		}
		if of > most && slices.ContainsFunc(ranked, func(c Ranked) bool { return c.Name == name }) {
			best, most = name, of
		}
	}
	return best
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
	quality := w.qualities(random)

	pairs := w.items * w.candidates * (w.candidates - 1) / 2
	left, voted := pairs, 0
	asked := make([]bool, pairs)
	if w.done > 0 {
		left = int(math.Ceil(w.done * float64(pairs)))
	}
	places := make([]int, pairs)
	for k := range places {
		places[k] = k
	}
	if w.shuffled {
		places = random.Perm(pairs)
	}
	for _, k := range places[:left] {
		asked[k] = true
	}
	place := 0
	for item := range w.items {
		for i := range w.candidates {
			for k := i + 1; k < w.candidates; k++ {
				counts.Runs += 2 * len(judges)
				if place++; !asked[place-1] {
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
		{"one order only, which judges follow", world{candidates: 5, items: 20, spread: 3, judges: []simulated{follower, follower}, change: func(m *memory) {
			m.evaluation.Plan.Pairwise.Order = eval.OrderRandom
			m.pairwise = everySecond(m.pairwise)
		}}, Unsound, "order"},
		{"nearly all ties", world{candidates: 2, items: 40, judges: two, change: func(m *memory) {
			for k := range m.pairwise[:len(m.pairwise)-4] {
				m.pairwise[k].Winner = eval.Tie
			}
		}}, Unknown, "pairs"},
		{"three questions", world{candidates: 5, items: 3, spread: 3, judges: three}, Caution, "pairs"},
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

func everySecond(rows []results.PairwiseRow) (kept []results.PairwiseRow) {
	for k, row := range rows {
		if k%2 == k/2%2 {
			kept = append(kept, row)
		}
	}
	return kept
}

// trustRow counts what headlines and lines of trust say of evaluations whose truth is known.
type trustRow struct {
	candidates int
	done       float64
	most       int // evaluations with -full
	right      counted
	ahead      counted // one candidate is called better than all others
	falsely    counted // and the best is another one, or all are equal
	good       counted // sound, by two to five good judges
	blind      counted // sound, by judges that do not read
	unsound    counted // unsound, by several judges that do not read
	one        counted // sound, by one judge
}

type counted struct{ hits, of int }

func (c *counted) add(hit bool) { c.hits, c.of = c.hits+one(hit), c.of+1 }

func (c *counted) plus(other counted) { c.hits, c.of = c.hits+other.hits, c.of+other.of }

func (c counted) String() string {
	if c.of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", float64(c.hits)/float64(c.of))
}

// add simulates an evaluation by one to five judges: good ones, ones of different quality and preference for a place, or
// ones that do not read.
func (row *trustRow) add(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 6))
	w := world{candidates: row.candidates, done: row.done, spread: []float64{0, 2, 6}[random.IntN(3)], shuffled: true}
	w.items = max(1, []int{20, 100}[random.IntN(2)]/(w.candidates-1))
	kind := []string{"good", "mixed", "blind"}[random.IntN(3)]
	for range 1 + random.IntN(5) {
		judge := simulated{reads: 4 + 2*random.Float64(), follows: .5 * random.NormFloat64()}
		switch kind {
		case "mixed":
			judge = simulated{reads: .5 + 5*random.Float64(), follows: random.NormFloat64()}
		case "blind":
			judge = simulated{follows: []float64{0, 5, -5}[random.IntN(3)]}
		}
		w.judges = append(w.judges, judge)
	}

	r := built(t, w.build(seed), Options{Draws: 40})
	level := r.Reliance().Level
	if soFar := strings.HasPrefix(r.Headline(), "So far, "); soFar == (w.done == 1) {
		t.Errorf("%+v: headline %q", w, r.Headline())
	}
	if w.done < 1 && level == Sound {
		t.Errorf("%+v: sound, and not complete", w)
	}
	if len(w.judges) == 1 {
		row.one.add(level == Sound)
	}
	if kind == "blind" {
		row.blind.add(level == Sound)
	}
	if w.done == 1 && len(w.judges) > 1 && r.Pairs >= 20 && (w.items == 1 || w.items >= fewItems) {
		switch kind {
		case "good":
			row.good.add(level == Sound)
		case "blind":
			row.unsound.add(level == Unsound)
		}
	}
	if len(r.Groups) != 1 || kind == "blind" { // the truth of verdicts that follow no text is that all are equal
		return
	}

	best, named := w.best(seed, r.Groups[0].Ranked), false
	for k, c := range r.Groups[0].Ranked {
		could := c.RankLow == 1
		if r.Groups[0].tiered() {
			could = slices.Contains(r.Groups[0].Contenders.Positions, k)
		}
		named = named || c.Name == best && (could || c.Rank == 1)
	}
	row.right.add(named)
	row.ahead.add(r.ahead())
	row.falsely.add(r.ahead() && (r.Groups[0].Ranked[0].Name != best || w.spread == 0 && w.items > 1))
}

// TestTrustIsRight: over evaluations that are 5 to 100 % complete, of 2 to 300 candidates by 1 to 5 judges, the headline
// names the best, or says that it could be, in 95 %. Nothing incomplete is sound, judges that do not read are hardly ever
// sound, and two or more good ones nearly always are. With -full it logs the table of docs/report.md.
func TestTrustIsRight(t *testing.T) {
	t.Parallel()
	var rows []*trustRow
	for _, size := range []struct{ candidates, most int }{{2, 60}, {3, 60}, {5, 60}, {10, 60}, {30, 20}, {100, 6}, {300, 2}} {
		for _, done := range []float64{.05, .3, .8, 1} {
			rows = append(rows, &trustRow{candidates: size.candidates, done: done, most: size.most})
		}
	}
	var all trustRow
	for _, row := range rows {
		many := row.most
		if !*full {
			many = map[bool]int{true: 6, false: 15}[testing.Short()]
			if row.done == 1 {
				many *= 3
			}
			if row.candidates > 10 {
				many = one(!testing.Short() && row.done < .5 && row.candidates < 300)
			}
		}
		for k := range many {
			row.add(t, uint64(1000*row.candidates+10_000_000*int(100*row.done)+k))
		}
		if *full {
			t.Logf("| %d candidates, %.0f %% done | %d | %s | %s | %s | %s | %s | %s |", row.candidates, 100*row.done, many,
				row.right, row.ahead, row.falsely, row.good, row.blind, row.one)
		}
		for _, sum := range []struct {
			of  *counted
			one counted
		}{{&all.right, row.right}, {&all.falsely, row.falsely}, {&all.ahead, row.ahead}, {&all.good, row.good}, {&all.blind, row.blind}, {&all.unsound, row.unsound}, {&all.one, row.one}} {
			sum.of.plus(sum.one)
		}
	}

	t.Logf("all: right %s, ahead %s, falsely %s, good and sound %s, blind and sound %s, blind and unsound %s", all.right, all.ahead, all.falsely, all.good, all.blind, all.unsound)
	for what, bounds := range map[string]struct {
		got       counted
		low, high float64
	}{
		"the headline names the best": {all.right, .94, 1}, "one is falsely called ahead of all": {all.falsely, 0, .05},
		"one judge and sound": {all.one, 0, 0}, "judges that do not read, and sound": {all.blind, 0, .02},
		"good judges, complete, and sound": {all.good, .85, 1}, "judges that do not read, complete, and unsound": {all.unsound, .85, 1},
	} {
		if share := float64(bounds.got.hits) / float64(max(1, bounds.got.of)); bounds.got.of == 0 || share < bounds.low || share > bounds.high {
			t.Errorf("%s: %d of %d, want %v to %v", what, bounds.got.hits, bounds.got.of, bounds.low, bounds.high)
		}
	}
}
