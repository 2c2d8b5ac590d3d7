package record

import (
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// Fit knows what an evaluation asks, and finds results that cannot belong to it.
type Fit struct {
	kinds  []eval.Kind
	shown  map[eval.Kind]map[string]bool // ids of documents
	asked  map[eval.Kind]map[string]bool // names of judges
	scores map[eval.Kind]map[string]bool // names of criteria, ids of dimensions
}

// NewFit returns the Fit of an evaluation.
func NewFit(e *eval.Evaluation) *Fit {
	f := &Fit{plan.Phases(e), map[eval.Kind]map[string]bool{}, map[eval.Kind]map[string]bool{}, map[eval.Kind]map[string]bool{}}
	for _, kind := range slices.Compact(slices.Clone(f.kinds)) {
		f.shown[kind] = set(e.Shown(kind), func(d eval.Document) string { return d.ID })
		f.asked[kind] = set(e.JudgesOf(kind), func(j eval.Judge) string { return j.Name })
	}
	if e.Single != nil {
		f.scores[eval.KindSingle] = set(e.Single.Criteria, func(c eval.Criterion) string { return c.Name })
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

	for _, score := range r.Scores {
		if !f.scores[r.Kind][score.Criterion] {
			return fmt.Errorf("run: the evaluation has no criterion %.80q", score.Criterion)
		}
	}

	return nil
}
