package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// escalation is a simulated evaluation in which a strong judge sees some of the pairs, and cheap judges all.
type escalation struct {
	name  string
	of    evaluations // its first judge is the strong one
	cheap func(random *rand.Rand, o Observed) Observed
	share float64
	// voters are the first judges if people vote on a sample of the pairs: one of them on most, and all on those about which
	// the other judges disagree.
	voters int
}

func escalations() []escalation {
	as := func(_ *rand.Rand, o Observed) Observed { return o }
	useless := func(_ *rand.Rand, o Observed) Observed { // all choose the same text by its looks
		low, high := uint64(min(o.First, o.Second)), uint64(max(o.First, o.Second))
		looks := rand.New(rand.NewPCG(uint64(o.Cluster)<<32|low<<16|high, 5)).IntN(2) == 0
		o.FirstWins, o.SecondWins, o.Ties = 0, 1, 0
		if looks == (o.First < o.Second) {
			o.FirstWins, o.SecondWins = 1, 0
		}
		return o
	}
	reversed := func(_ *rand.Rand, o Observed) Observed {
		o.FirstWins, o.SecondWins = o.SecondWins, o.FirstWins
		return o
	}
	judges := []simulatedJudge{{scale: 1, order: 0.3}, {scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	tie := []simulatedJudge{{scale: 1, order: 0.3, nu: 0.5}, {scale: 1, order: 0.6}, {scale: 1, order: -0.2, nu: 0.3}}
	six := evaluations{candidates: 6, apart: 0.3, items: 50, judges: judges, luck: 0.8}
	few := six
	few.items = 12
	tied := six
	tied.judges = tie
	apart := six
	apart.apart, apart.items = 2.5, 20
	documents := evaluations{candidates: 16, drawn: true, items: 1, judges: judges, luck: 0.8}
	voted := six
	voted.items, voted.judges = 40, []simulatedJudge{{scale: 1}, {scale: 1}, {scale: 1}, {scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	tying := voted
	tying.judges = []simulatedJudge{{scale: 1, nu: 0.5}, {scale: 1, nu: 0.5}, {scale: 1, nu: 0.5}, {scale: 1, order: 0.6, nu: 0.3}, {scale: 1, nu: 1}}
	votedPairs := documents
	votedPairs.judges = voted.judges
	return []escalation{
		{name: "votes of 1 to 3 people on 60 pairs, good judges", of: voted, cheap: as, share: 0.1, voters: 3},
		{name: "votes of 1 to 3 people on 60 pairs, good judges, ties", of: tying, cheap: as, share: 0.1, voters: 3},
		{name: "votes of 1 to 3 people on 60 pairs, useless judges", of: voted, cheap: useless, share: 0.1, voters: 3},
		{name: "votes of 1 to 3 people on 60 pairs, reversed judges", of: voted, cheap: reversed, share: 0.1, voters: 3},
		{name: "votes of 1 to 3 people on 30 pairs, good judges", of: voted, cheap: as, share: 0.05, voters: 3},
		{name: "votes of 1 to 3 people on 30 pairs, useless judges", of: voted, cheap: useless, share: 0.05, voters: 3},
		{name: "votes of 1 to 3 people on 30 pairs, reversed judges", of: voted, cheap: reversed, share: 0.05, voters: 3},
		{name: "votes of 1 to 3 people on 48 of 120 pairs, good judges, 1 item, by pair", of: votedPairs, cheap: as, share: 0.4, voters: 3},
		{name: "votes of 1 to 3 people on 48 of 120 pairs, useless judges, 1 item, by pair", of: votedPairs, cheap: useless, share: 0.4, voters: 3},
		{name: "votes of 1 to 3 people on 48 of 120 pairs, reversed judges, 1 item, by pair", of: votedPairs, cheap: reversed, share: 0.4, voters: 3},
		{name: "good judges, 6 candidates, 50 items", of: six, cheap: as, share: 0.2},
		{name: "good judges, ties, 6 candidates, 50 items", of: tied, cheap: as, share: 0.2},
		{name: "useless judges, 6 candidates, 50 items", of: six, cheap: useless, share: 0.2},
		{name: "reversed judges, 6 candidates, 50 items", of: six, cheap: reversed, share: 0.2},
		{name: "good judges, 5 %, 6 candidates, 50 items", of: six, cheap: as, share: 0.05},
		{name: "reversed judges, 5 %, 6 candidates, 50 items", of: six, cheap: reversed, share: 0.05},
		{name: "good judges, 6 candidates 2.5 apart, 20 items", of: apart, cheap: as, share: 0.2},
		{name: "reversed judges, 6 candidates 2.5 apart, 20 items", of: apart, cheap: reversed, share: 0.2},
		{name: "good judges, 6 candidates, 12 items", of: few, cheap: as, share: 0.2},
		{name: "useless judges, 6 candidates, 12 items", of: few, cheap: useless, share: 0.2},
		{name: "reversed judges, 6 candidates, 12 items", of: few, cheap: reversed, share: 0.2},
		{name: "good judges, 40 %, 16 candidates, 1 item, by pair", of: documents, cheap: as, share: 0.4},
		{name: "useless judges, 40 %, 16 candidates, 1 item, by pair", of: documents, cheap: useless, share: 0.4},
		{name: "reversed judges, 40 %, 16 candidates, 1 item, by pair", of: documents, cheap: reversed, share: 0.4},
	}
}

// units escalates: the strong judge sees the pairs about which the others disagree or change their minds, and a sample.
func (e escalation) units(random *rand.Rand, observed []Observed) (units []Unit, all []Observed, seen int) {
	type key struct{ cluster, low, high int32 }
	at := map[key]int{}
	contested, votes := map[int]bool{}, map[int][]Counts{}
	for _, o := range observed {
		low, high := min(o.First, o.Second), max(o.First, o.Second)
		k := key{o.Cluster, low, high}
		i, known := at[k]
		if !known {
			i = len(units)
			at[k] = i
			units = append(units, Unit{Cluster: o.Cluster, First: low, Second: high, Each: [2]int{1, 1}})
		}
		u, order := &units[i], 0
		if o.First != low {
			order = 1
		}
		if int(o.Judge) < e.voters {
			if order == 0 {
				u.Once, u.Each = true, [2]int{1, 0}
				votes[i] = append(votes[i], o.counts())
				o.Judge = 0
				all = append(all, o)
			}
			continue
		}
		if o.Judge == 0 {
			u.True[order] = o.counts()
			all = append(all, o)
			continue
		}
		c := e.cheap(random, o).counts()
		if e.voters > 0 { // as the report takes them
			c = Counts{FirstWins: 2*c.FirstWins + c.Ties, SecondWins: 2*c.SecondWins + c.Ties}
		}
		if order == 1 {
			c.FirstWins, c.SecondWins = c.SecondWins, c.FirstWins
		}
		u.Predicted = u.Predicted.Plus(c)
	}
	var agreed []int
	for i, u := range units {
		contested[i] = max(u.Predicted.FirstWins, u.Predicted.SecondWins) < u.Predicted.Total()
		for k, vote := range votes[i] {
			if k == 0 || contested[i] {
				units[i].True[0] = units[i].True[0].Plus(vote)
			}
		}
		if contested[i] = contested[i] && e.voters == 0; !contested[i] {
			agreed = append(agreed, i)
		}
	}
	random.Shuffle(len(agreed), func(a, b int) { agreed[a], agreed[b] = agreed[b], agreed[a] })
	n := min(max(int(math.Ceil(e.share*float64(len(agreed)))), 10), len(agreed))
	for k, i := range agreed {
		if k < n {
			units[i].Weight = float64(len(agreed)) / float64(n)
		} else {
			units[i].True = [2]Counts{}
		}
	}
	for i := range units {
		if contested[i] {
			units[i].Weight = 1
		}
		if units[i].Weight > 0 {
			seen++
		}
	}
	return units, all, seen
}

// TestEscalationCovers: of many evaluations in which a strong judge sees only some of the pairs, 95 % intervals hold the
// abilities that it would find on all pairs about 95 times in 100, whether the other judges are good, useless or
// reversed; and they are not much wider than those of its weighted verdicts alone.
func TestEscalationCovers(t *testing.T) {
	t.Parallel()
	for _, e := range escalations() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			evaluations, draws := 4, 50
			if *full {
				evaluations, draws = *evaluationsFlag, 200
			}
			var abilities, together, alarms share
			var wide, alone, whole, lambda, seen, of float64
			for seed := range uint64(evaluations) {
				random := rand.New(rand.NewPCG(seed, 99))
				real := e.of.abilities(random)
				truth := e.of.truth(t, real)
				units, all, asked := e.units(random, e.of.observed(random, real))
				options := Options{OrderEffect: e.voters == 0}
				c, err := FromSample(e.of.candidates, 1, nil, units, options)
				if err != nil {
					t.Fatal(err)
				}
				if len(c.Fit.Components) > 1 {
					continue
				}
				u, err := c.Fit.Uncertainty(t.Context(), c.Observed, Drawing{Draws: draws, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				for i := range units {
					units[i].Predicted = Counts{}
				}
				sample, err := FromSample(e.of.candidates, 1, nil, units, options)
				if err != nil {
					t.Fatal(err)
				}
				su, err := sample.Fit.Uncertainty(t.Context(), sample.Observed, Drawing{Draws: draws, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				best, err := FromObserved(e.of.candidates, 1, all, options)
				if err != nil {
					t.Fatal(err)
				}
				bu, err := best.Uncertainty(t.Context(), all, Drawing{Draws: draws, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}

				lowest, highest := e.of.ranks(truth.abilities)
				right := true
				for i, ability := range truth.abilities {
					abilities.add(u.Abilities[i].Low <= ability && ability <= u.Abilities[i].High)
					right = right && u.RankLow[i] <= lowest[i] && highest[i] <= u.RankHigh[i]
					if len(sample.Fit.Components) == 1 {
						wide += u.Abilities[i].High - u.Abilities[i].Low
						alone += su.Abilities[i].High - su.Abilities[i].Low
						whole += bu.Abilities[i].High - bu.Abilities[i].Low
					}
					for j := range i {
						claim := u.ahead(i, j, ofPair)
						alarms.add(claim != 0 && float64(claim)*(ability-truth.abilities[j]) < 1e-3)
					}
				}
				together.add(right)
				lambda += c.Lambda
				seen += float64(asked)
				of += float64(len(units))
			}

			t.Logf("| %s | %.3f | %.3f | %.3f | %.0f %% | %.2f | %.2f | %.2f |", e.name, abilities.rate(), together.rate(), alarms.rate(),
				100*seen/of, lambda/float64(together.of), wide/alone, wide/whole)
			least, widest := 0.7, 1.5
			if *full {
				least, widest = 0.94-3*math.Sqrt(0.05*0.95/float64(together.of)), 1.1
			}
			if abilities.rate() < least || together.rate() < least {
				t.Errorf("%.3f of the limits and %.3f of the ranks hold the truth, want %.3f", abilities.rate(), together.rate(), least)
			}
			if falsely := 0.99 - least; alarms.rate() > falsely {
				t.Errorf("%.3f of the pairs are falsely called different, want at most %.3f", alarms.rate(), falsely)
			}
			if wide > widest*alone {
				t.Errorf("limits are %.2f times as wide as those of the sample alone, want at most %.2f", wide/alone, widest)
			}
		})
	}
}
