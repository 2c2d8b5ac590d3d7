package record

import (
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// Fit knows what an evaluation asks, and finds results that cannot belong to it.
type Fit struct {
	kinds      []eval.Kind
	shown      map[eval.Kind]map[string]bool // ids of documents
	asked      map[eval.Kind]map[string]bool // names of judges
	scores     map[eval.Kind]map[string]bool // names of criteria, ids of dimensions
	rubric     map[string]eval.Item          // by document; nil: documents are not scored by rubrics
	soft, ties bool                          // what verdicts on pairs may say
}

// NewFit returns the Fit of an evaluation.
func NewFit(e *eval.Evaluation) *Fit {
	f := &Fit{
		kinds: plan.Phases(e),
		shown: map[eval.Kind]map[string]bool{}, asked: map[eval.Kind]map[string]bool{}, scores: map[eval.Kind]map[string]bool{},
	}
	for _, kind := range slices.Compact(slices.Clone(f.kinds)) {
		f.shown[kind] = set(e.Shown(kind), func(d eval.Document) string { return d.ID })
		f.asked[kind] = set(e.JudgesOf(kind), func(j eval.Judge) string { return j.Name })
	}

	f.rubric = e.Rubrics()
	if e.Single != nil && f.rubric == nil {
		f.scores[eval.KindSingle] = set(e.Single.Criteria, func(c eval.Criterion) string { return c.Name })
	}
	if e.Pairwise != nil {
		f.soft, f.ties = e.Pairwise.Soft, e.Pairwise.Ties
		f.scores[eval.KindPairwise] = set(e.Pairwise.Criteria, func(c eval.Criterion) string { return c.Name })
	}
	if e.Panel != nil {
		f.scores[eval.KindPanel] = set(e.Panel.Dimensions, func(d eval.Dimension) string { return d.ID })
	}
	return f
}

func set[T any](list []T, name func(T) string) map[string]bool {
	names := make(map[string]bool, len(list))
	for _, one := range list {
		names[name(one)] = true
	}
	return names
}

// Check reports why an entry cannot be a result of the evaluation. It has values that evalfleet
// never writes, or a phase, judge, document or criterion that the evaluation lacks.
func (f *Fit) Check(e Entry) error {
	if err := e.Check(); err != nil || e.Run == nil {
		return err
	}
	r := e.Run
	switch {
	case r.Phase >= len(f.kinds):
		return fmt.Errorf("run: phase %d of %d", r.Phase, len(f.kinds))
	case r.Kind != f.kinds[r.Phase]:
		return fmt.Errorf("run: kind %s in a phase of kind %s", r.Kind, f.kinds[r.Phase])
	case !f.asked[r.Kind][r.Judge]:
		return fmt.Errorf("run: the evaluation has no judge %.80q", r.Judge)
	}

	for _, document := range r.Documents {
		if !f.shown[r.Kind][document] {
			return fmt.Errorf("run: the evaluation has no document %.80q", document)
		}
	}

	if r.Kind == eval.KindSingle && f.rubric != nil && r.State == eval.StateSucceeded.String() {
		return checkRubric(f.rubric[r.Documents[0]], r.Scores)
	}
	if r.Chances != nil && (!f.soft || r.Chances.Tie > 0 && !f.ties) {
		return fmt.Errorf("run: the evaluation does not ask for the probabilities %+v", *r.Chances)
	}
	seen := map[string]bool{}
	for _, p := range r.Criteria {
		if !f.scores[r.Kind][p.Criterion] || seen[p.Criterion] {
			return fmt.Errorf("run: the evaluation has no criterion %.80q, or the run has it twice", p.Criterion)
		}
		seen[p.Criterion] = true
	}
	for _, score := range r.Scores {
		if !f.scores[r.Kind][score.Criterion] {
			return fmt.Errorf("run: the evaluation has no criterion %.80q", score.Criterion)
		}
	}

	return nil
}

// checkRubric reports why scores do not say of each criterion of an item, once, whether it is met.
func checkRubric(item eval.Item, scores []Score) error {
	seen := make([]bool, len(item.Rubric))
	for _, score := range scores {
		at := item.RubricPosition(score.Criterion)
		switch {
		case at < 0:
			return fmt.Errorf("run: the rubric of item %.80q has no criterion %.80q", item.ID, score.Criterion)
		case seen[at]:
			return fmt.Errorf("run: criterion %s of the rubric twice", score.Criterion)
		case score.Score != 0 && score.Score != 1:
			return fmt.Errorf("run: criterion %s of the rubric has the score %g: want 0 or 1", score.Criterion, score.Score)
		}
		seen[at] = true
	}
	if len(scores) != len(item.Rubric) {
		return fmt.Errorf("run: %d of %d criteria of the rubric", len(scores), len(item.Rubric))
	}
	return nil
}
