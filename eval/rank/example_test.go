package rank_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// A judge has compared three candidates in both orders. It tends to choose the one that it
// is shown first, which a fit with OrderEffect takes into account.
func Example() {
	names := []string{"ada", "bob", "cyd"}
	verdicts := rank.NewTally(len(names))
	for _, pair := range []struct {
		first, second int
		counts        rank.Counts
	}{
		{0, 1, rank.Counts{FirstWins: 9, SecondWins: 1}}, {1, 0, rank.Counts{FirstWins: 5, SecondWins: 5}},
		{1, 2, rank.Counts{FirstWins: 9, SecondWins: 1}}, {2, 1, rank.Counts{FirstWins: 4, SecondWins: 6}},
		{0, 2, rank.Counts{FirstWins: 9, SecondWins: 1}}, {2, 0, rank.Counts{FirstWins: 2, SecondWins: 8}},
	} {
		if err := verdicts.AddCounts(pair.first, pair.second, pair.counts); err != nil {
			log.Fatal(err)
		}
	}
	fit, err := rank.BradleyTerry(len(names), []*rank.Tally{verdicts}, rank.Options{OrderEffect: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range fit.Standings() {
		fmt.Printf("%d. %s: strength %+.1f, %d wins of %d\n", s.Rank, names[s.Candidate], s.Ability, s.Wins, s.Games())
	}
	fmt.Printf("shown first: log-odds %+.1f\n", fit.Judges[0].Order)
	// Output:
	// 1. ada: strength +1.0, 31 wins of 40
	// 2. bob: strength +0.1, 21 wins of 40
	// 3. cyd: strength -1.1, 8 wins of 40
	// shown first: log-odds +0.8
}

// Each of 30 questions was judged once for each pair of candidates. Verdicts on one question may depend on each
// other, so a question is a cluster: the limits say how much the ranking would change with other questions.
func ExampleFit_Uncertainty() {
	names := []string{"ada", "bob", "cyd"}
	tally := rank.NewTally(len(names))
	var observed []rank.Observed
	for question := range int32(30) {
		for _, pair := range [][2]int32{{0, 1}, {1, 2}, {0, 2}} {
			o := rank.Observed{Cluster: question, First: pair[0], Second: pair[1], FirstWins: 1}
			if (3*question+2*pair[0]+pair[1])%7 == 0 { // in every seventh, the weaker one was better
				o.FirstWins, o.SecondWins = 0, 1
			}
			observed = append(observed, o)
			counts := rank.Counts{FirstWins: int(o.FirstWins), SecondWins: int(o.SecondWins)}
			if err := tally.AddCounts(int(o.First), int(o.Second), counts); err != nil {
				log.Fatal(err)
			}
		}
	}

	fit, err := rank.BradleyTerry(len(names), []*rank.Tally{tally}, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	uncertain, err := fit.Uncertainty(context.Background(), observed, rank.Drawing{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range fit.Standings() {
		i := s.Candidate
		fmt.Printf("%s: ranks %d to %d, strength %+.1f (%+.1f to %+.1f)\n", names[i], uncertain.RankLow[i], uncertain.RankHigh[i],
			s.Ability, uncertain.Abilities[i].Low, uncertain.Abilities[i].High)
	}
	// Output:
	// ada: ranks 1 to 1, strength +1.3 (+0.8 to +1.8)
	// bob: ranks 2 to 2, strength -0.1 (-0.5 to +0.3)
	// cyd: ranks 3 to 3, strength -1.3 (-1.8 to -0.8)
}

// A rule that ends an evaluation once its best candidate is known looks at the results after fixed numbers of pairs, and
// the claims of all looks together are right with its confidence.
func ExampleUntil() {
	rule := rank.Until{Candidates: 20, Top: 1}
	for look := 1; look <= 4; look++ {
		fmt.Printf("after %d pairs: a claim needs %.2f %%\n", rule.Pairs(look), 100*rule.Level(look))
	}
	// Output:
	// after 60 pairs: a claim needs 2.50 %
	// after 90 pairs: a claim needs 0.83 %
	// after 135 pairs: a claim needs 0.42 %
	// after 203 pairs: a claim needs 0.25 %
}

// Three judges gave grades to four texts; one of them did not grade the last. Alpha allows for missing grades and for how
// far grades are apart.
func ExampleAgreement() {
	grades := rank.NewAgreement(3)
	grades.Add([]float64{5, 4, 5})
	grades.Add([]float64{2, 2, 1})
	grades.Add([]float64{4, 4, 4})
	grades.Add([]float64{1, 2, math.NaN()})
	same, both := grades.Raw(0, 1)
	fmt.Printf("Krippendorff's alpha %.2f\n", grades.Alpha(rank.Interval))
	fmt.Printf("the first two gave the same grade to %.0f %% of %d texts\n", 100*same, both)
	// Output:
	// Krippendorff's alpha 0.88
	// the first two gave the same grade to 50 % of 4 texts
}

// A judge saw each pair of texts in both orders. Where it prefers the text that is shown first both times, it says nothing
// about the texts.
func ExampleSwaps() {
	var judge rank.Swaps
	judge.Add(rank.FirstWins, rank.SecondWins)
	judge.Add(rank.SecondWins, rank.FirstWins)
	judge.Add(rank.FirstWins, rank.FirstWins)
	judge.Add(rank.Tied, rank.FirstWins)
	fmt.Printf("consistent in %d of %d pairs, always the first in %d\n", judge.Consistent, judge.Total(), judge.AlwaysFirst)
	// Output:
	// consistent in 2 of 4 pairs, always the first in 1
}

// Three candidates beat each other in a circle, which no ranking can express.
func ExampleCyclesOf() {
	verdicts := rank.NewTally(4)
	for _, won := range [][2]int{{0, 1}, {1, 2}, {2, 0}, {0, 3}, {1, 3}, {2, 3}} {
		if err := verdicts.Add(rank.Comparison{First: won[0], Second: won[1], Outcome: rank.FirstWins}); err != nil {
			log.Fatal(err)
		}
	}
	cycles := rank.CyclesOf(4, []*rank.Tally{verdicts})
	fmt.Printf("%d of %d triples are circular\n", cycles.Circular, cycles.Triples)
	// Output:
	// 1 of 4 triples are circular
}

// Two candidates were graded from 1 to 10 on eight questions by the same judge. They are compared by question.
func ExampleMeansOf() {
	var scores []rank.Scores
	for question, grades := range [][2]float64{{8, 6}, {7, 7}, {9, 6}, {8, 7}, {6, 5}, {9, 8}, {7, 4}, {8, 6}} {
		for candidate, grade := range grades {
			scores = append(scores, rank.Scores{Candidate: candidate, Cluster: question, Sum: grade, Count: 1})
		}
	}
	means, err := rank.MeansOf(context.Background(), 2, scores, 1, 10, rank.Drawing{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	difference, limits, _ := means.Contrast(0, 1)
	fmt.Printf("means %.2f and %.2f, difference %.2f (%.2f to %.2f)\n", means.At[0], means.At[1], difference, limits.Low, limits.High)
	// Output:
	// means 7.75 and 6.12, difference 1.62 (0.74 to 2.51)
}

// Strengths are log-odds. On Elo's scale, the usual one for chess players and models, 400 points are odds of 10 to 1.
func ExampleElo() {
	fmt.Printf("odds of 10 to 1 are %.0f points\n", rank.Elo(math.Log(10))-rank.Elo(0))
	// Output:
	// odds of 10 to 1 are 400 points
}
