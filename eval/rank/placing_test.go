package rank

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

var boardsFlag = flag.Int("boards", 4, "boards of TestGrownBoard, with -full")

// growing are rankings that grow one by one: `from` candidates are all compared with each other, and each later one meets
// the opponents that the plan chooses.
type growing struct {
	evaluations
	from, opponents int
	few             int // simulated without -full; 0: none
}

// grownBoard is one of them, with the verdict on every pair that could be asked about.
type grownBoard struct {
	growing
	truth []float64
	said  map[[3]int32]Observed // by item, first and second
	asked []Observed
	asks  []eval.Item
}

func (g growing) board(seed uint64) *grownBoard {
	random := rand.New(rand.NewPCG(seed, 81))
	b := &grownBoard{growing: g, truth: g.abilities(random), said: map[[3]int32]Observed{}}
	random.Shuffle(len(b.truth), func(i, j int) { b.truth[i], b.truth[j] = b.truth[j], b.truth[i] })
	for _, o := range g.observed(random, b.truth) {
		b.said[[3]int32{o.Cluster, o.First, o.Second}] = o
		if int(max(o.First, o.Second)) < g.from {
			b.asked = append(b.asked, o)
		}
	}
	for i := range g.items {
		b.asks = append(b.asks, eval.Item{ID: fmt.Sprintf("%04d", i)})
	}
	return b
}

// among returns the evaluation that adds a candidate to the first ones.
func (b *grownBoard) among(size int) *eval.Evaluation {
	name := func(i int) string { return fmt.Sprintf("%04d", i) }
	e := &eval.Evaluation{Items: b.asks, Judges: []eval.Judge{{Name: "judge"}}}
	for item := range e.Items {
		for i := range size + 1 {
			e.Documents = append(e.Documents, eval.Document{ID: e.Items[item].ID + "/" + name(i), Item: item, Candidate: name(i)})
		}
	}
	e.Pairwise = &eval.Pairwise{Order: eval.OrderBoth, Trials: 1, Pairs: eval.Pairs{
		Mode: eval.PairsGrown, Newcomers: []string{name(size)}, Opponents: b.opponents,
	}}
	return e
}

// verdicts returns what is said of the newcomer and another candidate on an item. The newcomer gets the number size.
func (b *grownBoard) verdicts(item, other, newcomer, size int) (both []Observed) {
	for _, shown := range [][2]int{{other, newcomer}, {newcomer, other}} {
		o := b.said[[3]int32{int32(item), int32(shown[0]), int32(shown[1])}]
		if int(o.First) == newcomer {
			o.First = int32(size)
		} else {
			o.Second = int32(size)
		}
		both = append(both, o)
	}
	return both
}

// place adds a newcomer to the first candidates, whose verdicts are asked, as a grown evaluation does. It returns all
// verdicts, how many pairs of the newcomer there are, and whether its rank was known before the last round.
func (b *grownBoard) place(t *testing.T, asked []Observed, size, newcomer int) (all []Observed, pairs int, early *Uncertainty) {
	t.Helper()
	e := b.among(size)
	rounds := plan.Placing(b.opponents)
	all = slices.Clone(asked)
	choices := []*plan.Choice{nil}
	for phase := 1; phase <= rounds; phase++ {
		fit, u := b.ranked(t, all, size+1, PlacingLevel(rounds-1), phase > 1)
		found := plan.Found{}
		for k := range e.Documents {
			found.Abilities = append(found.Abilities, fit.Abilities[k%(size+1)])
		}
		if phase > 1 && u.Placed(size) {
			found.Placed, early = e.Pairwise.Pairs.Newcomers, u
		}
		choice, err := plan.Choose(e, phase, choices, found)
		if err != nil {
			t.Fatal(err)
		}
		choices = append(choices, choice)
		for _, list := range choice.Pairs {
			if len(list) != 2 || list[1]%(size+1) != size { // the newcomer's document is the item's last
				t.Fatalf("pairs %v are not of the newcomer", list)
			}
			all = append(all, b.verdicts(list[0]/(size+1), list[0]%(size+1), newcomer, size)...)
			pairs++
		}
	}
	return all, pairs, early
}

// ranked fits verdicts and, if they are tested, their uncertainty.
func (b *grownBoard) ranked(t *testing.T, asked []Observed, candidates int, joint float64, tested bool) (*Fit, *Uncertainty) {
	t.Helper()
	fit, err := FromObserved(candidates, len(b.judges), slices.Clone(asked), b.options())
	if err != nil {
		t.Fatal(err)
	}
	if !tested {
		return fit, nil
	}
	u, err := fit.Uncertainty(t.Context(), asked, Drawing{Draws: 1, Joint: joint})
	if err != nil {
		t.Fatal(err)
	}
	return fit, u
}

// rankOf returns the rank of a candidate of a fit.
func rankOf(fit *Fit, i int) int {
	for _, s := range fit.Standings() {
		if s.Candidate == i {
			return s.Rank
		}
	}
	return 0
}

// TestPlacing: intervals of rankings that have grown hold the truth as often as those of others, although pairs are chosen
// by the verdicts before them, and newcomers need no more once their rank is known. With -full these are 1,000 of each row.
func TestPlacing(t *testing.T) {
	t.Parallel()
	one := []simulatedJudge{{scale: 1, order: 0.6}}
	for _, g := range []growing{
		{evaluations{name: "6 equals and 1 more, 40 items", candidates: 7, items: 40, judges: one, luck: 0.5}, 6, 4, 10},
		{evaluations{name: "12 candidates .3 apart and 1 more, 40 items", candidates: 13, apart: 0.3, items: 40, judges: one, luck: 0.5}, 12, 8, 0},
		{evaluations{name: "12 candidates .3 apart and 1 more, 4 opponents, 40 items", candidates: 13, apart: 0.3, items: 40, judges: one, luck: 0.5}, 12, 4, 0},
		{evaluations{name: "6 candidates 1.5 apart and 1 more, 60 items", candidates: 7, apart: 1.5, items: 60, judges: one, luck: 0.5}, 6, 6, 10},
		{evaluations{name: "4 candidates, normal, and 8 more, 40 items", candidates: 12, drawn: true, items: 40, judges: one, luck: 0.5, most: 200}, 4, 4, 0},
		{evaluations{name: "4 equals and 8 more, 40 items", candidates: 12, items: 40, judges: one, luck: 0.5, most: 200}, 4, 4, 0},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			if g.few == 0 && !*full {
				t.Skip("takes long: -full")
			}
			evaluations, least := g.few, 0.6 // of so few evaluations: that nothing is wrong by far
			if *full {
				if evaluations = *evaluationsFlag; g.most > 0 {
					evaluations = min(evaluations, g.most)
				}
				least = 0.95 - 3*math.Sqrt(0.95*0.05/float64(evaluations)) - 0.01
			}
			var ability, differences, bounds, together, early, falsely share
			used := 0.0
			for seed := range uint64(evaluations) {
				b := g.board(seed)
				asked, pairs, last := b.asked, 0, g.candidates-1
				var known *Uncertainty
				for size := g.from; size < g.candidates; size++ {
					asked, pairs, known = b.place(t, asked, size, size)
				}
				used += float64(pairs) / float64(g.items*last) / float64(evaluations)

				_, u := b.ranked(t, asked, g.candidates, PlacedLevel, true)
				truth := g.truth(t, b.truth)
				lowest, highest := g.ranks(truth.abilities)
				ability.add(u.Abilities[last].Low <= truth.abilities[last] && truth.abilities[last] <= u.Abilities[last].High)
				all := true
				for i := range g.candidates {
					in := u.RankLow[i] <= lowest[i] && highest[i] <= u.RankHigh[i]
					all = all && in
					if i == last {
						bounds.add(in)
						continue
					}
					_, limits, _ := u.Contrast(last, i)
					real := truth.abilities[last] - truth.abilities[i]
					differences.add(limits.Low <= real && real <= limits.High)
				}
				together.add(all)
				early.add(known != nil)
				falsely.add(known != nil && (known.RankLow[last] > lowest[last] || known.RankHigh[last] < highest[last]))
			}

			t.Logf("| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |", g.name, ability.rate(), differences.rate(), bounds.rate(),
				together.rate(), early.rate(), falsely.rate(), used)
			if min(ability.rate(), bounds.rate(), together.rate()) < least {
				t.Errorf("of %d evaluations, the newcomer's interval holds in %.3f, its bounds in %.3f, all bounds in %.3f; want %.3f",
					evaluations, ability.rate(), bounds.rate(), together.rate(), least)
			}
			if falsely.rate() > 0.05 {
				t.Errorf("%.3f of the ranks that were known are wrong", falsely.rate())
			}
		})
	}
}

// TestGrownBoard measures a ranking of 50 that grew one by one from 10, and many candidates as its 51st: how many pairs
// they need beside a full round, in which each of them meets all others on every item, and how far their ranks differ.
func TestGrownBoard(t *testing.T) {
	if !*full {
		t.Skip("takes long: -full")
	}
	t.Parallel()
	const last, newcomers = 50, 20
	judges := []simulatedJudge{{scale: 1, order: 0.6}}
	for _, items := range []int{50, 100} {
		for _, opponents := range []int{8, 4} {
			name := fmt.Sprintf("%d opponents, %d items", opponents, items)
			t.Run(name, func(t *testing.T) {
				g := growing{evaluations{candidates: last + newcomers, drawn: true, items: items, judges: judges, luck: 0.5}, 10, opponents, 0}
				var pairs, fullPairs, steps, truly, trulyFull, width, widthFull float64
				var same, near, inside, early share
				most, n := 0, float64(*boardsFlag*newcomers)
				for seed := range uint64(*boardsFlag) {
					b := g.board(seed)
					asked := b.asked
					for size := g.from; size < last; size++ {
						asked, _, _ = b.place(t, asked, size, size)
					}
					for newcomer := last; newcomer < last+newcomers; newcomer++ {
						all, used, known := b.place(t, asked, last, newcomer)
						fit, u := b.ranked(t, all, last+1, PlacedLevel, true)
						round := slices.Clone(asked)
						for item := range items {
							for other := range last {
								round = append(round, b.verdicts(item, other, newcomer, last)...)
							}
						}
						fitFull, uFull := b.ranked(t, round, last+1, 0, true)
						real := 1
						for i := range last {
							if b.truth[i] > b.truth[newcomer] {
								real++
							}
						}

						got, want := rankOf(fit, last), rankOf(fitFull, last)
						off := max(got-want, want-got)
						same.add(off == 0)
						near.add(off <= 2)
						inside.add(u.RankLow[last] <= want && want <= u.RankHigh[last])
						early.add(known != nil)
						most = max(most, off)
						pairs += float64(used) / n
						fullPairs += float64(items*last) / n
						steps += float64(off) / n
						truly += math.Abs(float64(got-real)) / n
						trulyFull += math.Abs(float64(want-real)) / n
						width += float64(u.RankHigh[last]-u.RankLow[last]+1) / n
						widthFull += float64(uFull.RankHigh[last]-uFull.RankLow[last]+1) / n
					}
				}
				t.Logf("| %s | %.0f | %.0f | %.2f | %.2f | %.2f | %d | %.2f | %.2f | %.2f | %.1f | %.1f | %.2f |", name, 2*pairs, 2*fullPairs,
					same.rate(), near.rate(), steps, most, inside.rate(), truly, trulyFull, width, widthFull, early.rate())
			})
		}
	}
}
