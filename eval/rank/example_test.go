package rank_test

import (
	"fmt"
	"log"

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
