package report

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// documentElo is a document's rating among the documents of its item.
type documentElo struct {
	item int // by position in the plan
	id   string
	elo  float64
}

// rateDocuments gives every compared document an Elo rating among the documents of its item, and sorts these best
// first within each item. Items share no comparison, so their ratings share no scale; each item has the mean 1000. It
// removes the position effect where pairs were not shown equally often in both orders and the verdicts on the item
// allow to estimate it.
func (b *builder) rateDocuments() error {
	documents := b.report.Evaluation.Plan.Documents
	place, size := make([]int, len(documents)), map[int]int{} // of each document in its item
	for d, document := range documents {
		place[d] = size[document.Item]
		size[document.Item]++
	}

	tallies := map[int]*rank.Tally{} // by item
	b.verdicts.merge()
	for _, c := range b.verdicts.cells {
		item := documents[c.first].Item
		person := int(c.rater) >= len(b.report.Judges)
		if person && len(b.report.Judges) > 0 || size[item] > rank.MaxCandidates {
			continue
		}
		if tallies[item] == nil {
			tallies[item] = rank.NewTally(size[item])
		}
		if err := tallies[item].AddCounts(place[c.first], place[c.second], c.counts()); err != nil {
			return err
		}
	}

	fits := map[int]*rank.Fit{}
	for item, tally := range tallies {
		fit, err := rank.BradleyTerry(
			size[item], []*rank.Tally{tally},
			rank.Options{
				Ties:        rank.HalfWins,
				OrderEffect: len(b.report.Judges) > 0 && !b.report.Options.NoPosition && b.report.ordered() && !tally.Balanced(),
			},
		)
		if err != nil {
			return err
		}
		fits[item] = fit
	}

	for d, document := range documents {
		fit := fits[document.Item]
		if fit == nil || fit.Games(place[d]) == 0 {
			continue
		}
		b.report.elo = append(b.report.elo, documentElo{document.Item, document.ID, rank.Elo(fit.Abilities[place[d]])})
	}

	slices.SortStableFunc(b.report.elo, func(x, y documentElo) int {
		return cmp.Or(cmp.Compare(x.item, y.item), cmp.Compare(y.elo, x.elo))
	})
	return nil
}
