package report

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/results"
)

// itemTally counts the verdicts on the documents of one item, of all judges.
type itemTally struct {
	documents int
	tally     *rank.Tally // nil: none yet
}

func (t *itemTally) add(first, second int, outcome rank.Outcome) error {
	if t.tally == nil {
		t.tally = rank.NewTally(t.documents)
	}
	return t.tally.Add(rank.Comparison{First: first, Second: second, Outcome: outcome})
}

// rateDocuments gives every document that was compared an Elo rating among those
// of its item, best first within the items. Items share no comparison, so their
// ratings share no scale; each has the mean 1000.
func (b *builder) rateDocuments() error {
	type rated struct {
		item int
		results.EloRow
	}
	var all []rated
	fits := make([]*rank.Fit, len(b.items))
	for i, item := range b.items {
		if item.tally == nil || item.documents > rank.MaxCandidates {
			continue
		}
		fit, err := rank.BradleyTerry(item.documents, []*rank.Tally{item.tally}, rank.Options{Ties: rank.HalfWins})
		if err != nil {
			return err
		}
		fits[i] = fit
	}
	for d, document := range b.report.Evaluation.Plan.Documents {
		fit := fits[document.Item]
		if fit == nil || fit.Games(b.place[d]) == 0 {
			continue
		}
		all = append(all, rated{document.Item, results.EloRow{DocID: document.ID, Elo: rank.Elo(fit.Abilities[b.place[d]])}})
	}
	slices.SortStableFunc(all, func(x, y rated) int {
		return cmp.Or(cmp.Compare(x.item, y.item), cmp.Compare(y.Elo, x.Elo))
	})
	for _, one := range all {
		b.report.elo = append(b.report.elo, one.EloRow)
	}
	return nil
}
