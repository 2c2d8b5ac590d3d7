package eval

import (
	"math"
	"strconv"
	"strings"
)

// RubricCriterion is one thing that a document either does or does not do, with what that is worth.
type RubricCriterion struct {
	Text   string   `json:"criterion"`
	Points float64  `json:"points"`         // earned if the criterion is met; below 0: lost
	Tags   []string `json:"tags,omitempty"` // groups of criteria in a report, sorted
}

// RubricName is the criterion under which the score by a rubric is reported.
const RubricName = "rubric"

// RubricNumber returns the number by which judges name an item's i-th criterion: "1", "2" and so on.
func RubricNumber(i int) string { return strconv.Itoa(i + 1) }

// RubricID returns the name of an item's i-th criterion in records: "rubric 1", "rubric 2" and so on.
func RubricID(i int) string { return RubricName + " " + RubricNumber(i) }

// IsRubricID reports whether a name has the form of RubricID.
func IsRubricID(name string) bool {
	number, ok := strings.CutPrefix(name, RubricName+" ")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n > 0 && RubricNumber(n-1) == number
}

// RubricPosition returns the position of the criterion of an item with a name; −1 if there is none.
func (i Item) RubricPosition(id string) int {
	if !IsRubricID(id) {
		return -1
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(id, RubricName+" ")) // it is a number
	if n > len(i.Rubric) {
		return -1
	}
	return n - 1
}

// Rubrics returns the item of each document, by the document's ID, if documents are scored by the rubrics of items;
// otherwise nil.
func (e *Evaluation) Rubrics() map[string]Item {
	if e.Single == nil || !e.Single.Rubric {
		return nil
	}
	items := make(map[string]Item, len(e.Documents))
	for _, d := range e.Documents {
		items[d.ID] = e.Items[d.Item]
	}
	return items
}

// RubricScore returns the points of the criteria that are met, in percent of the sum of all positive points, as in
// HealthBench (Arora et al. 2025, section 3). It is below 0 if more points are lost than earned. met has a value for
// each criterion of the item: 1, or 0 if it is not met.
func (i Item) RubricScore(met []float64) float64 {
	earned, all := 0.0, 0.0
	for k, criterion := range i.Rubric {
		earned += met[k] * criterion.Points
		all += max(criterion.Points, 0)
	}
	return 100 * earned / all
}

// RubricScale returns the bounds of the scores by the rubrics of items, in whole percent.
func RubricScale(items []Item) Scale {
	scale := Scale{Max: 100}
	for _, item := range items {
		worst := make([]float64, len(item.Rubric))
		for k, criterion := range item.Rubric {
			if criterion.Points < 0 {
				worst[k] = 1
			}
		}
		if len(worst) > 0 {
			scale.Min = min(scale.Min, int(math.Floor(item.RubricScore(worst))))
		}
	}
	return scale
}

// Extended reports whether judges are asked for what the first releases leave out: images, comparisons by criterion or by
// degree, soft verdicts, rubrics, and anchors. They must not work on such an evaluation.
func (e *Evaluation) Extended() bool {
	compared := e.Pairwise != nil && (len(e.Pairwise.Criteria) > 0 || e.Pairwise.Degrees > 0 || e.Pairwise.Soft)
	return compared || e.Single != nil && e.Single.Rubric || e.HasImages() || e.Anchors != nil
}
