package plan_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// swiss has one judge, one order, and pairs in rounds.
func swiss(share float64, items ...int) *eval.Evaluation {
	e := evaluation(1, items...)
	e.Single, e.Pairwise.Order = nil, eval.OrderAsListed
	e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: share}
	return e
}

// pairsOf are the documents that a phase's runs compare, in the order of its runs.
func pairsOf(t testing.TB, e *eval.Evaluation, phase int, choice *plan.Choice) [][2]int {
	t.Helper()
	o := queuesOf(e, "q")
	o.Choice = choice
	p := mustPlan(t, e, phase, o)
	var pairs [][2]int
	for i := range p.Runs() {
		run := p.Run(i)
		pairs = append(pairs, [2]int{run.First, run.Second})
	}
	return pairs
}

// played chooses every phase of e in turn by abilities drawn again for each, and returns the
// pairs by phase. Earlier plans must not change.
func played(t testing.TB, e *eval.Evaluation, seed uint64) (pairs [][][2]int, choices []*plan.Choice) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	for phase := range plan.Phases(e) {
		open := mustPlan(t, e, phase, queuesOf(e, "q"))
		found := plan.Found{Scores: make([]float64, len(e.Documents)), Abilities: make([]float64, len(e.Documents))}
		for i := range e.Documents {
			found.Scores[i], found.Abilities[i] = float64(random.IntN(4)), float64(random.IntN(5))
		}
		var choice *plan.Choice
		if basis := plan.BasisOf(e, phase); open.Open() != (basis != plan.Fixed) {
			t.Fatalf("phase %d of basis %d: Open = %v", phase, basis, open.Open())
		}
		if open.Open() {
			var err error
			if choice, err = plan.Choose(e, phase, choices, found); err != nil {
				t.Fatal(err)
			}
		}
		choices = append(choices, choice)
		pairs = append(pairs, pairsOf(t, e, phase, choice))
		if got, want := len(pairs[phase]), open.Runs(); got != want {
			t.Errorf("phase %d has %d runs, was planned with %d", phase, got, want)
		}
	}
	return pairs, choices
}

func TestSwissComparesAShareOfEachItem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share  float64
		items  []int
		want   []int // pairs of each item
		rounds int
	}{
		{0.4, []int{50}, []int{490}, 4},
		{0.4, []int{5}, []int{4}, 1},             // 4 of 10 connect them
		{0.4, []int{6}, []int{6}, 2},             // of 15
		{0.5, []int{6}, []int{8}, 2},             // 7.5 of 15; 5 connect them
		{0.4, []int{2}, []int{1}, 1},             // all there is
		{0.1, []int{3, 1, 4}, []int{2, 0, 3}, 1}, // too few for a share: what connects them
		{1, []int{7, 2}, []int{21, 1}, 3},
		{0.4, []int{10, 2, 2, 2, 2, 2}, []int{15, 1, 1, 1, 1, 1}, 2}, // 20 of 50: the large one has less for it
		{0.4, []int{10, 20}, []int{18, 76}, 4},                       // 94 of 235
	} {
		t.Run(fmt.Sprint(test.share, test.items), func(t *testing.T) {
			t.Parallel()
			e := swiss(test.share, test.items...)
			phases, _ := played(t, e, 1)
			got := make([]int, len(test.items))
			for _, pairs := range phases {
				for _, pair := range pairs {
					got[e.Documents[pair[0]].Item]++
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pairs by item (-want +got):\n%s", diff)
			}
			if len(phases) != test.rounds {
				t.Errorf("%d rounds, want %d", len(phases), test.rounds)
			}
		})
	}
}

// What must hold whatever the items and the results: every pair is of one item and
// compared once, every document that has another in its item is met, in the first
// round already connected with all of them, and the share is kept.
func TestSwissInvariants(t *testing.T) {
	t.Parallel()
	seeds := uint64(150)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		items := make([]int, 1+random.IntN(6))
		all, least := 0, 0
		for i := range items {
			items[i] = 1 + random.IntN(14)
			all += items[i] * (items[i] - 1) / 2
			least += items[i] - 1
		}
		if all == 0 {
			continue
		}
		share := float64(1+random.IntN(100)) / 100
		e := swiss(share, items...)
		if seed%3 == 0 { // among the best of each
			e.Single, e.Pairwise.TopN = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}, 2+int(seed%7)
			all, least = 0, 0
			for _, n := range items {
				n = min(n, e.Pairwise.TopN)
				all += n * (n - 1) / 2
				least += n - 1
			}
		}
		phases, choices := played(t, e, seed)
		seen := map[[2]int]bool{}
		group := make([]int, len(e.Documents)) // connected in the first round
		for i := range group {
			group[i] = i
		}
		first := slices.Index(plan.Phases(e), eval.KindPairwise)
		total := 0
		for phase, pairs := range phases[first:] {
			total += len(pairs)
			for _, pair := range pairs {
				a, b := pair[0], pair[1]
				if a >= b || e.Documents[a].Item != e.Documents[b].Item || seen[pair] {
					t.Fatalf("seed %d, round %d: pair %v twice, or of two items", seed, phase, pair)
				}
				seen[pair] = true
				if phase == 0 {
					from, to := group[a], group[b]
					for i := range group {
						if group[i] == from {
							group[i] = to
						}
					}
				}
			}
		}
		if want := max(int(math.Round(share*float64(all))), least); total != want {
			t.Fatalf("seed %d: %d pairs of %v with share %v, want %d", seed, total, items, share, want)
		}
		groups := map[int]int{} // by item
		for i, d := range e.Documents {
			if choice := choices[first]; choice != nil && !slices.Contains(choice.Documents, i) {
				continue
			}
			if of, ok := groups[d.Item]; ok && of != group[i] {
				t.Fatalf("seed %d: the documents of item %d are not connected in the first round", seed, d.Item)
			}
			groups[d.Item] = group[i]
		}
		again, _ := played(t, e, seed)
		if diff := cmp.Diff(phases, again); diff != "" {
			t.Fatalf("seed %d: chosen again (-first +again):\n%s", seed, diff)
		}
	}
}

// Neighbours in the ranking meet before others do.
func TestLaterRoundsCompareNeighbours(t *testing.T) {
	t.Parallel()
	e := swiss(0.4, 40)
	first := map[[2]int]bool{}
	for _, pair := range pairsOf(t, e, 0, nil) {
		first[pair] = true
	}
	found := plan.Found{Abilities: make([]float64, 40)}
	for i := range found.Abilities {
		found.Abilities[i] = float64(i / 2) // pairs of equals are sorted by their number
	}
	choice, err := plan.Choose(e, 1, []*plan.Choice{nil}, found)
	if err != nil {
		t.Fatal(err)
	}
	order := make([]int, 40) // place in the ranking
	for i := range order {
		order[i] = 39 - (i ^ 1)
	}
	met := map[[2]int]bool{}
	farthest := 0
	for _, pair := range pairsOf(t, e, 1, choice) {
		met[pair] = true
		farthest = max(farthest, max(order[pair[0]]-order[pair[1]], order[pair[1]]-order[pair[0]]))
	}
	for a := range 40 {
		for b := a + 1; b < 40; b++ {
			apart := max(order[a]-order[b], order[b]-order[a])
			if pair := [2]int{a, b}; apart < farthest && !met[pair] && !first[pair] {
				t.Errorf("%v are %d apart and have not met, others %d apart have", pair, apart, farthest)
			}
		}
	}
}

func TestBestByScore(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		pairs  eval.Pairs
		topN   int
		scores []float64 // of items of 5, 2 and 1 documents
		want   [][2]int
		most   int // as planned before
	}{
		{"all", eval.Pairs{Mode: eval.PairsAll}, 3, []float64{1, 5, 2, 5, 3, 1, 1, 4}, [][2]int{{1, 3}, {1, 4}, {3, 4}, {5, 6}}, 4},
		{"equals in order", eval.Pairs{Mode: eval.PairsAll}, 2, []float64{3, 3, 3, 3, 3, 1, 1, 4}, [][2]int{{0, 1}, {5, 6}}, 2},
		{"without a score last", eval.Pairs{Mode: eval.PairsAll}, 2, []float64{nan, nan, 1, nan, nan, nan, nan, nan}, [][2]int{{0, 2}, {5, 6}}, 2},
		{"more than there are", eval.Pairs{Mode: eval.PairsAll}, 9, []float64{1, 2, 3, 4, 5, 1, 2, 3},
			[][2]int{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}, {5, 6}}, 11},
		{"listed", eval.Pairs{Mode: eval.PairsListed, Listed: [][2]int{{4, 0}, {1, 2}, {3, 4}, {6, 5}}}, 2, []float64{0, 0, 0, 1, 1, 1, 1, 1}, [][2]int{{3, 4}, {6, 5}}, 3},
		{"none of the listed", eval.Pairs{Mode: eval.PairsListed, Listed: [][2]int{{0, 1}}}, 2, []float64{0, 0, 0, 1, 1, 1, 1, 1}, nil, 1},
		{"baseline", eval.Pairs{Mode: eval.PairsBaseline, Baseline: "own"}, 4, []float64{5, 5, 0, 5, 5, 1, 1, 1}, [][2]int{{0, 1}, {0, 3}, {0, 4}, {5, 6}}, 5},
		{"swiss", eval.Pairs{Mode: eval.PairsSwiss, Share: 0.4}, 2, []float64{1, 5, 2, 5, 3, 1, 1, 4}, [][2]int{{1, 3}, {5, 6}}, 2},
		{"sample", eval.Pairs{Mode: eval.PairsSample, Sample: 1}, 2, []float64{1, 5, 2, 5, 3, 1, 1, 4}, [][2]int{{1, 3}, {5, 6}}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := evaluation(1, 5, 2, 1)
			for _, i := range []int{0, 2, 5} { // two of the first item, one of the second
				e.Documents[i].Candidate = "own"
			}
			e.Pairwise.Order, e.Pairwise.Pairs, e.Pairwise.TopN = eval.OrderAsListed, test.pairs, test.topN
			if got := mustPlan(t, e, pairwise, queuesOf(e, "q")).Runs(); got != test.most {
				t.Errorf("planned with %d runs, want %d", got, test.most)
			}
			choice, err := plan.Choose(e, pairwise, []*plan.Choice{nil}, plan.Found{Scores: test.scores})
			if err != nil {
				t.Fatal(err)
			}
			got := pairsOf(t, e, pairwise, choice)
			if test.pairs.Mode != eval.PairsListed { // which have an order
				slices.SortFunc(got, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}

// A choice is read back from where it is stored.
func TestChoiceSurvivesStorage(t *testing.T) {
	t.Parallel()
	_, choices := played(t, swiss(0.4, 12, 9), 1)
	e := evaluation(1, 5, 3)
	e.Pairwise.TopN = 2
	_, best := played(t, e, 1)
	for _, choice := range append(choices[1:], best[1]) {
		raw, err := json.Marshal(choice)
		if err != nil {
			t.Fatal(err)
		}
		stored := new(plan.Choice)
		if err := json.Unmarshal(raw, stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(choice, stored); diff != "" {
			t.Errorf("stored as %s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestLaterPhaseRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(e *eval.Evaluation)
		choice *plan.Choice
		want   string
	}{
		{"best of one", func(e *eval.Evaluation) { e.Pairwise.TopN = 1 }, nil, "top_n is 1"},
		{"below", func(e *eval.Evaluation) { e.Pairwise.TopN = -3 }, nil, "top_n is -3"},
		{"no scores", func(e *eval.Evaluation) { e.Single, e.Pairwise.TopN = nil, 2 }, nil, "there is no single phase"},
		{"no share", func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss} }, nil, "swiss is 0"},
		{"more than all", func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 1.1} }, nil, "swiss is 1.1"},
		{"chosen although fixed", func(*eval.Evaluation) {}, &plan.Choice{Documents: []int{0, 1}}, "already determines"},
		{"pairs for documents", func(e *eval.Evaluation) { e.Pairwise.TopN = 2 }, &plan.Choice{Pairs: [][]int{{0, 1}}}, "belongs to another phase"},
		{"document out of range", func(e *eval.Evaluation) { e.Pairwise.TopN = 2 }, &plan.Choice{Documents: []int{0, 9}}, "out of turn"},
		{"document twice", func(e *eval.Evaluation) { e.Pairwise.TopN = 2 }, &plan.Choice{Documents: []int{1, 1}}, "out of turn"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := evaluation(1, 4)
			test.change(e)
			phase := slices.Index(plan.Phases(e), eval.KindPairwise)
			o := queuesOf(e, "q")
			o.Choice = test.choice
			if _, err := plan.New(e, phase, o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want it to say %q", err, test.want)
			}
		})
	}
	e := swiss(1, 6)
	for _, list := range [][]int{{0}, {1, 0}, {-1, 2}, {0, 6}} {
		o := queuesOf(e, "q")
		o.Choice = &plan.Choice{Pairs: [][]int{list}}
		if _, err := plan.New(e, 1, o); err == nil {
			t.Errorf("New takes the pairs %v", list)
		}
	}
}
