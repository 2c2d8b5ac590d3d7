package results

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Known holds the best candidates of an evaluation that ended because they are known.
type Known struct {
	Best       []string `json:"best"` // in their order, which may be due to chance
	Candidates int      `json:"candidates"`
	Confidence float64  `json:"confidence"`
	Pairs      int      `json:"pairs"` // that had been compared
}

// String describes the result in one sentence.
func (k Known) String() string {
	what := fmt.Sprintf("the best %d of %d candidates are known", len(k.Best), k.Candidates)
	if len(k.Best) == 1 {
		what = fmt.Sprintf("the best of %d candidates is known", k.Candidates)
	}
	return fmt.Sprintf(
		"%s at %g %% confidence after %s: %s", what, 100*k.Confidence, wording.Counted(k.Pairs, "pair"),
		strings.Join(k.Best, ", "),
	)
}

func (k *Known) same(other *Known) bool {
	return k == nil && other == nil || k != nil && other != nil && k.Pairs == other.Pairs && slices.Equal(k.Best, other.Best)
}

// Look tests whether the first pairs of an evaluation's phase show which candidates are the best,
// at a look of a rule. runs is how many runs of the phase these pairs are. It returns nil if that
// is not certain yet. It counts the verdicts that the ranking of a report counts by default.
func Look(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, phase, runs int, rule rank.Until, look int) (*Known, error) {
	within := func(row PairwiseRow) bool { return row.Phase == phase && row.Index < runs }
	names, u, err := certainty(ctx, r, id, e, within, rule.Level(look))
	if err != nil {
		return nil, err
	}

	best, known := u.Top(rule.Top)
	if !known {
		return nil, nil
	}
	k := &Known{Candidates: len(names), Confidence: rule.Sure(), Pairs: rule.Pairs(look)}
	for _, i := range best {
		k.Best = append(k.Best, names[i])
	}
	return k, nil
}

// certainty ranks candidates, which it returns in the order of their names, by the verdicts on which counted reports true
// and that the ranking of a report counts by default. joint is the chance that any bound of a rank may be wrong.
func certainty(
	ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, counted func(PairwiseRow) bool, joint float64,
) (names []string, u *rank.Uncertainty, err error) {
	of, judges := map[string]eval.Document{}, map[string]int32{}
	place := map[string]int32{}
	for _, d := range e.Documents {
		of[d.ID], place[d.Candidate] = d, 0
	}
	names = slices.Sorted(maps.Keys(place))
	for i, name := range names {
		place[name] = int32(i)
	}
	for k, judge := range e.Judges {
		judges[judge.Name] = int32(k)
	}

	var observed []rank.Observed
	pairs, items, byItem := map[[2]string]int32{}, map[string]int{}, false
	for row, err := range r.PairwiseRows(ctx, id) {
		if err != nil {
			return nil, nil, err
		}
		if !counted(row) || row.AnsweredBy != "" && row.AnsweredBy != row.Model {
			continue
		}
		first, known1 := of[row.Document1]
		second, known2 := of[row.Document2]
		judge, known3 := judges[row.Judge]
		if !known1 || !known2 || !known3 {
			return nil, nil, fmt.Errorf(
				"a verdict of %q on %q and %q, which are not part of the evaluation", row.Judge, row.Document1, row.Document2,
			)
		}
		if first.Candidate == second.Candidate {
			continue
		}
		for _, d := range []eval.Document{first, second} {
			item, seen := items[d.Candidate]
			byItem = byItem || seen && item != d.Item
			items[d.Candidate] = d.Item
		}
		pair := [2]string{min(first.ID, second.ID), max(first.ID, second.ID)}
		if _, seen := pairs[pair]; !seen {
			pairs[pair] = int32(len(pairs))
		}
		o := rank.Observed{Cluster: pairs[pair], Judge: judge, First: place[first.Candidate], Second: place[second.Candidate]}
		if row.AnsweredBy == "" { // such a verdict depends on no order
			o.Judge = int32(len(e.Judges))
		}
		more := int32(eval.DegreesAbove(row.Degree))
		switch {
		case row.AnsweredBy == "" && row.Winner == eval.Tie:
			o.Identical = 1
		case row.Winner == row.Document1:
			o.FirstWins, o.FirstMore = 1, more
		case row.Winner == row.Document2:
			o.SecondWins, o.SecondMore = 1, more
		default:
			o.Ties = 1
		}
		observed = append(observed, o)
	}

	if byItem {
		cluster := make([]int32, len(pairs))
		for pair, k := range pairs {
			cluster[k] = int32(of[pair[0]].Item)
		}
		for k := range observed {
			observed[k].Cluster = cluster[observed[k].Cluster]
		}
	}

	fit, err := rank.FromObserved(len(names), len(e.Judges)+1, observed, rank.Options{OrderEffect: true})
	if err != nil {
		return nil, nil, err
	}
	u, err = fit.Uncertainty(ctx, observed, rank.Drawing{Draws: 1, Joint: joint})
	return names, u, err
}
