package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// RubricPart holds the verdicts on some criteria of the rubrics.
type RubricPart struct {
	Name       string
	Criteria   int     // those of different items are different
	Candidates []Share // verdicts that say that a criterion is met, in the order of Report.candidates
	// Agreement says how far judges agree on whether a document meets a criterion; nil: no two judged the same.
	Agreement *Agreement
}

// partKey names a part of the rubrics, and says which comes first.
type partKey struct {
	order int
	name  string
}

// The parts that every rubric has.
var (
	earning = partKey{0, "criteria that earn points"}
	costing = partKey{1, "criteria that cost points"}
)

// rubricVerdicts holds the verdicts on criteria of rubrics, by document, judge and position in the rubric.
type rubricVerdicts struct {
	*ratings
	tagged bool // the parts are tags rather than texts of criteria
}

// newRubricVerdicts returns nil if documents are not scored by rubrics.
func newRubricVerdicts(plan *eval.Evaluation) *rubricVerdicts {
	if plan.Single == nil || !plan.Single.Rubric {
		return nil
	}
	v := &rubricVerdicts{}
	most := 0
	for _, item := range plan.Items {
		most = max(most, len(item.Rubric))
		v.tagged = v.tagged || slices.ContainsFunc(item.Rubric, func(c eval.RubricCriterion) bool { return len(c.Tags) > 0 })
	}
	v.ratings = newRatings(len(plan.Documents), len(plan.Judges), most)
	return v
}

// parts returns the parts to which a criterion belongs.
func (v *rubricVerdicts) parts(c eval.RubricCriterion) []partKey {
	all := []partKey{earning}
	if c.Points < 0 {
		all[0] = costing
	}
	if !v.tagged {
		return append(all, partKey{2, c.Text})
	}
	for _, tag := range c.Tags {
		all = append(all, partKey{2, tag})
	}
	return all
}

// addMet adds a judge's verdict on a criterion of a rubric. It ignores all other scores.
func (b *builder) addMet(row results.SingleRow) error {
	if b.rubric == nil || row.AnsweredBy != row.Model && !b.report.Options.Fallback {
		return nil
	}
	judge, err := lookUp(b.judge, "judge", row.Judge, row.Phase, row.Index)
	if err != nil {
		return err
	}
	document, err := lookUp(b.document, "document", row.Document, row.Phase, row.Index)
	if err != nil {
		return err
	}
	plan := b.report.Evaluation.Plan
	if at := plan.Items[plan.Documents[document].Item].RubricPosition(row.Criterion); at >= 0 { // others are refused: see results.Scores
		b.rubric.add(document, judge, at, row.Score)
	}
	return nil
}

// countedPart is a part of the rubrics while its verdicts are counted.
type countedPart struct {
	criteria   map[[2]int]bool // by item and position
	candidates []sharing
	agreed     *rank.ClusteredAgreement
	values     []float64 // of each judge on the last criterion
}

// finishRubric counts the verdicts on each part of the rubrics.
func (b *builder) finishRubric() {
	if b.rubric == nil {
		return
	}
	plan := b.report.Evaluation.Plan
	parts := map[partKey]*countedPart{}
	for candidate, documents := range b.documents {
		for _, d := range documents {
			item := plan.Documents[d].Item
			for k, criterion := range plan.Items[item].Rubric {
				for _, key := range b.rubric.parts(criterion) {
					if parts[key] == nil {
						parts[key] = b.newPart()
					}
					parts[key].criteria[[2]int{item, k}] = true
					parts[key].add(candidate, b.itemOf(d), b.rubric.of(d, k))
				}
			}
		}
	}

	keys := slices.SortedFunc(maps.Keys(parts), func(a, b partKey) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(len(parts[b].criteria), len(parts[a].criteria)), cmp.Compare(a.name, b.name))
	})
	judges := make([]string, len(b.report.Judges))
	for k, judge := range b.report.Judges {
		judges[k] = judge.Name
	}
	for _, key := range keys {
		of := parts[key]
		part := RubricPart{Name: key.name, Criteria: len(of.criteria), Agreement: agreed(key.name, judges, of.agreed)}
		for _, candidate := range of.candidates {
			part.Candidates = append(part.Candidates, candidate.share())
		}
		b.report.Rubric = append(b.report.Rubric, part)
	}
}

func (b *builder) newPart() *countedPart {
	p := &countedPart{criteria: map[[2]int]bool{}, agreed: rank.NewClusteredAgreement(len(b.report.Judges))}
	p.values = make([]float64, len(b.report.Judges))
	for range b.report.candidates {
		p.candidates = append(p.candidates, newSharing())
	}
	return p
}

// add adds the verdicts of all judges on a document by a criterion; nil: there are none.
func (p *countedPart) add(candidate, cluster int, of []Score) {
	if of == nil {
		return
	}
	for _, s := range of {
		p.candidates[candidate].add(cluster, s.sum, float64(s.N))
	}
	setMeans(p.values, of)
	p.agreed.Add(cluster, p.values)
}
