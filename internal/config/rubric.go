package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of rubrics.
const (
	maxRubric     = 100 // criteria of an item
	maxCriterion  = 4_000
	maxPoints     = 1_000_000
	maxRubricTags = 20 // of a criterion
)

// rubricFields are the fields of an item that may have its rubric: the second is that of HealthBench.
var rubricFields = []string{"rubric", "rubrics"}

// criteria reads the criteria of the single block: a list, or the word for the rubric of each item.
func (s *draft) criteria(y *yamlFile, v value, single *eval.Single) {
	if word, ok := scalar(v.node); ok && word == eval.RubricName {
		single.Rubric, s.rubricAt = true, v.place
		single.Criteria = []eval.Criterion{{Name: eval.RubricName}}
		return
	}
	single.Criteria = y.criteria(v)
}

// fitsRubric completes the single block: documents are scored by rubrics without a scale, and their template shows the
// rubric. scale and template are where the file sets them; nil: it does not.
func (s *draft) fitsRubric(single *eval.Single, scale, template *value) {
	shows := prompt.Shows(single.Template, "rubric")
	switch {
	case !single.Rubric && shows:
		s.refuse(template.place, "write criteria: rubric, or [[criteria]] in the template",
			"the template shows [[rubric]], and criteria are listed")
	case !single.Rubric:
	case template == nil:
		single.Template = prompt.RubricTemplate()
	case !shows && single.Template != "":
		s.refuse(template.place, "write [[rubric]] where the criteria belong", "the template does not show the rubric")
	}
	if !single.Rubric {
		return
	}
	for _, name := range []string{"criteria", "scale"} {
		if template != nil && prompt.Shows(single.Template, name) {
			s.refuse(template.place, "remove it", "the template shows [[%s]], which rubrics do not have", name)
		}
	}
	if scale != nil {
		s.refuse(scale.key, "remove it: scores are percent of the points of a rubric", "rubrics have no scale")
	}
}

// rubrics reads the rubric of each item that has documents, and removes it from the item's facts.
func (s *draft) rubrics(set documentSet) {
	if s.asked.Single == nil || !s.asked.Single.Rubric {
		return
	}
	asked := make([]bool, len(s.asked.Items))
	for _, d := range s.asked.Documents {
		asked[d.Item] = true
	}

	problems := s.many()
	var without []string
	for i := range s.asked.Items {
		item := &s.asked.Items[i]
		name, text := takeRubric(item)
		switch {
		case !asked[i]:
		case name == "":
			without = append(without, item.ID)
		default:
			item.Rubric = s.rubric(set.asked[[2]string{item.ID, "field " + name}], item.ID, text)
			problems.bound()
		}
	}
	problems.say(s.rubricAt)

	if len(without) > 0 {
		s.refuse(s.rubricAt,
			`list it in documents: {fields: [rubric]}, or set it in items, for example "rubric": [{"criterion": "…", "points": 5}]`,
			"%s, such as %q", wording.Either(len(without), "item has no rubric", "items have no rubric"), without[0])
	}
	s.asked.Single.Scale = eval.RubricScale(s.asked.Items)
}

// takeRubric returns the rubric of an item with the field that has it; empty if there is none. It removes the field from
// the facts. A template may show it as well.
func takeRubric(item *eval.Item) (field, text string) {
	for _, name := range rubricFields {
		if text, has := item.Fields[name]; has {
			return name, text
		}
		if text, has := item.Facts[name]; has {
			delete(item.Facts, name)
			return name, text
		}
	}
	return "", ""
}

// rubric reads a rubric: a list of criteria, each an object or a text that is worth one point.
func (s *draft) rubric(at place, item, text string) []eval.RubricCriterion {
	refuse := func(fix, format string, args ...any) []eval.RubricCriterion {
		s.refuse(at, fix, "the rubric of item %q: %s", item, fmt.Sprintf(format, args...))
		return nil
	}
	const form = `write a list such as [{"criterion": "names the dose", "points": 5}]`
	var entries []json.RawMessage
	switch err := json.Unmarshal([]byte(text), &entries); {
	case err != nil:
		return refuse(form, "it is not a list of criteria")
	case len(entries) == 0:
		return refuse(form, "it has no criteria")
	case len(entries) > maxRubric:
		return refuse("", "it has %d criteria: at most %d are read", len(entries), maxRubric)
	}

	var rubric []eval.RubricCriterion
	positive := false
	for k, entry := range entries {
		criterion, problem := rubricCriterion(entry)
		switch {
		case problem != "":
			return refuse(form, "criterion %d %s", k+1, problem)
		case slices.ContainsFunc(rubric, func(c eval.RubricCriterion) bool { return c.Text == criterion.Text }):
			return refuse("write each criterion once", "criterion %d is there twice: %.80q", k+1, criterion.Text)
		}
		positive = positive || criterion.Points > 0
		rubric = append(rubric, criterion)
	}
	if !positive {
		return refuse("give a criterion points above 0", "no criterion earns points, so there is nothing to reach")
	}
	return rubric
}

// rubricCriterion reads an entry of a rubric. problem is empty if it can be used.
func rubricCriterion(raw json.RawMessage) (c eval.RubricCriterion, problem string) {
	c.Points = 1
	var given struct {
		Criterion *string  `json:"criterion"`
		Points    *float64 `json:"points"`
		Tags      []string `json:"tags"`
	}
	if json.Unmarshal(raw, &given.Criterion) != nil {
		if err := json.Unmarshal(raw, &given); err != nil {
			return c, "is neither text nor an object with criterion, points and tags: " + strings.TrimPrefix(err.Error(), "json: ")
		}
	}
	if given.Points != nil {
		c.Points = *given.Points
	}
	if given.Criterion != nil {
		c.Text = strings.Join(strings.Fields(*given.Criterion), " ")
	}

	slices.Sort(given.Tags)
	c.Tags = slices.Compact(given.Tags)
	switch {
	case c.Text == "":
		return c, "has no text"
	case len(c.Text) > maxCriterion:
		return c, fmt.Sprintf("has %d bytes: at most %d are read", len(c.Text), maxCriterion)
	case c.Points == 0 || math.Abs(c.Points) > maxPoints:
		return c, fmt.Sprintf("has %g points: want a number between -%d and %d, and not 0", c.Points, maxPoints, maxPoints)
	case len(c.Tags) > maxRubricTags:
		return c, fmt.Sprintf("has %d tags: at most %d are read", len(c.Tags), maxRubricTags)
	}
	for _, tag := range c.Tags {
		if !nameable(tag) {
			return c, fmt.Sprintf("has the tag %.80q, which cannot be a name", tag)
		}
	}
	return c, ""
}
