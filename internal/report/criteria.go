package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// ByCriteria are the verdicts on pairs by criterion. They are those that judges gave; a strong judge's do not count, because
// it sees the contested pairs. Overall verdicts are compared with them only where both exist.
type ByCriteria struct {
	Criteria []CriterionResults // in the order of the plan
	Verdicts int                // overall, by judges that were asked
	// pairs are the correlations of all that is said, overall last: that of i with a later j at [i][j-i-1]. Each value is a
	// judge's mean on one pair of documents, so that a preference for the place cancels out where both orders were shown.
	pairs [][]rank.Correlation
}

// CriterionResults are the verdicts by one criterion.
type CriterionResults struct {
	Name     string
	Verdicts int
	// Ranked has each candidate's results, by its position; nil: there are no verdicts.
	Ranked []Ranked
	fitted bool // they have abilities
}

// Missing returns how many verdicts by the criterion the judges left out.
func (c *ByCriteria) Missing(k int) int { return c.Verdicts - c.Criteria[k].Verdicts }

// Between returns the correlation of two criteria by their positions. The overall verdict is behind the last criterion.
func (c *ByCriteria) Between(i, j int) *rank.Correlation {
	return &c.pairs[min(i, j)][max(i, j)-min(i, j)-1]
}

// comparing collects verdicts by criterion.
type comparing struct {
	verdicts []verdicts     // by criterion
	at       map[string]int // positions of criteria
	said     map[saidOf][]Score
}

// saidOf names a judge and two documents, the one with the lower number first. What the judge said of them is a mean by
// criterion, overall last: above 0 for the first and below 0 for the second.
type saidOf struct{ judge, low, high int }

// newByCriteria returns nil if no pairs are compared by criterion.
func (b *builder) newByCriteria(p *eval.Pairwise) *ByCriteria {
	if p == nil || len(p.Criteria) == 0 {
		return nil
	}
	c := &ByCriteria{}
	n := len(p.Criteria)
	b.comparing = comparing{verdicts: make([]verdicts, n), at: map[string]int{}, said: map[saidOf][]Score{}}
	for k, criterion := range p.Criteria {
		b.comparing.at[criterion.Name] = k
		c.Criteria = append(c.Criteria, CriterionResults{Name: criterion.Name})
		c.pairs = append(c.pairs, make([]rank.Correlation, n-k))
	}
	return c
}

// compareBy adds what a judge said of two documents by criterion.
func (b *builder) compareBy(judge int, documents [2]int, row results.PairwiseRow) error {
	c := b.report.ByCriteria
	if c == nil || b.report.Evaluation.Plan.Strong() == judge {
		return nil
	}
	c.Verdicts++
	last := len(c.Criteria)
	at, direction := saidOf{judge, documents[0], documents[1]}, 1.0
	if at.low > at.high {
		at.low, at.high, direction = at.high, at.low, -1
	}
	said := b.comparing.said[at]
	if said == nil {
		said = make([]Score, last+1)
		b.comparing.said[at] = said
	}

	for _, p := range append([]record.Preference{{Winner: row.Winner, Degree: row.Degree}}, row.Criteria...) {
		outcome, ok := winnerOf(p.Winner, row.Document1, row.Document2)
		k, err := last, error(nil)
		if p.Criterion != "" {
			k, err = lookUp(b.comparing.at, "criterion", p.Criterion, row.Phase, row.Index)
		}
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("result %d.%d: winner %q by %q is none of its documents", row.Phase, row.Index, p.Winner, p.Criterion)
		}
		size := direction * float64(max(p.Degree, 1))
		said[k].add(map[rank.Outcome]float64{rank.FirstWins: size, rank.SecondWins: -size}[outcome])
		if k < last {
			c.Criteria[k].Verdicts++
			b.comparing.verdicts[k].add(judge, documents[0], documents[1], outcome, eval.DegreesAbove(p.Degree), true)
		}
	}
	return nil
}

// correlateCriteria compares what is said by criterion and overall.
func (b *builder) correlateCriteria() {
	c := b.report.ByCriteria
	order := func(x, y saidOf) int {
		return cmp.Or(cmp.Compare(x.low, y.low), cmp.Compare(x.high, y.high), cmp.Compare(x.judge, y.judge))
	}
	for _, at := range slices.SortedFunc(maps.Keys(b.comparing.said), order) {
		cluster := b.itemOf(at.low)
		if len(b.report.Evaluation.Plan.Items) == 1 {
			cluster = at.low*len(b.document) + at.high
		}
		said := b.comparing.said[at]
		for i, x := range said {
			for j := i + 1; j < len(said); j++ {
				if y := said[j]; x.N > 0 && y.N > 0 {
					c.Between(i, j).Add(cluster, x.Mean(), y.Mean())
				}
			}
		}
	}
}

// rankByCriteria ranks the candidates by each criterion, as they are ranked overall.
func (b *builder) rankByCriteria(ctx context.Context) error {
	c := b.report.ByCriteria
	if c == nil {
		return nil
	}
	b.correlateCriteria()
	raters := make([]int, len(b.report.Evaluation.Plan.FirstJudges()))
	for k := range raters {
		raters[k] = k
	}
	for k := range c.Criteria {
		if len(b.comparing.verdicts[k].cells) == 0 {
			continue
		}
		if err := b.rankByCriterion(ctx, &c.Criteria[k], &b.comparing.verdicts[k], raters); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) rankByCriterion(ctx context.Context, of *CriterionResults, said *verdicts, raters []int) error {
	places, count := b.places(raters)
	observed := b.observedIn(said, places)
	n := len(b.report.candidates)
	tallies, err := tallied(n, count, observed)
	if err != nil {
		return err
	}
	of.Ranked = make([]Ranked, n)
	limits := rank.WinRates(n, observed)
	for i, record := range rank.Records(n, tallies) {
		of.Ranked[i] = Ranked{Name: b.report.candidates[i], Standing: rank.Standing{Candidate: i, Record: record}, WinLimits: limits[i]}
	}

	rated, err := b.rateBy(ctx, raters, observed)
	if errors.Is(err, rank.ErrTooManyCandidates) {
		return nil // win rates are all that there is, as in the ranking
	}
	if err != nil {
		return err
	}
	of.fitted = true
	groups, unranked := b.groups(rated, func(s rank.Standing) Ranked {
		return Ranked{Name: b.report.candidates[s.Candidate], Standing: s, WinLimits: limits[s.Candidate]}
	})
	for _, group := range append(slices.Clone(groups), Group{Ranked: unranked}) {
		for _, one := range group.Ranked {
			of.Ranked[one.Candidate] = one
		}
	}
	return nil
}
