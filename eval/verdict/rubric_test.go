package verdict_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval/verdict"
)

func TestRubricAccepts(t *testing.T) {
	t.Parallel()
	want := []verdict.Score{{Criterion: "rubric 1", Score: 1, Reason: "it does"}, {Criterion: "rubric 2", Score: 0, Reason: "not there"}}
	for name, text := range map[string]string{
		"plain":         `{"evaluations": [{"criterion": "1", "reason": "it does", "met": true}, {"criterion": "2", "reason": "not there", "met": false}]}`,
		"another order": `{"evaluations": [{"criterion": "2", "reason": "not there", "met": false}, {"criterion": "1", "reason": "it does", "met": true}]}`,
		"numbers":       `{"evaluations": [{"criterion": 1, "reason": "it does", "met": true}, {"criterion": 2, "reason": "not there", "met": false}]}`,
		"quoted":        `{"evaluations": [{"criterion": "1", "reason": "it does", "met": "True"}, {"criterion": "2", "reason": "not there", "met": " false "}]}`,
		"prose around":  "I judge: {\"evaluations\": [{\"criterion\": \"1\", \"reason\": \"it does\", \"met\": true}, {\"criterion\": \"2\", \"reason\": \"not there\", \"met\": false}]}\nDone.",
	} {
		got, err := verdict.Rubric(text, 2)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, scores (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestRubricRefuses: an answer that leaves open whether a criterion is met is asked for again. Nothing is taken for "no".
func TestRubricRefuses(t *testing.T) {
	t.Parallel()
	entry := func(criterion, met string) string {
		return `{"criterion": ` + criterion + `, "reason": "because", "met": ` + met + `}`
	}
	list := func(entries ...string) string { return `{"evaluations": [` + strings.Join(entries, ", ") + `]}` }
	one := entry(`"1"`, "true")
	for name, c := range map[string]struct{ text, says string }{
		"one missing":      {list(one), `criterion "2" is missing`},
		"one twice":        {list(one, one, entry(`"2"`, "true")), `criterion "1" appears 2 times`},
		"an unknown one":   {list(one, entry(`"2"`, "true"), entry(`"3"`, "true")), `has the criterion "3"; it must be exactly one of "1", "2"`},
		"by its text":      {list(one, entry(`"names the dose"`, "true")), "names the dose"},
		"a fraction":       {list(one, entry(`2.0`, "true")), "has the criterion 2.0"},
		"yes":              {list(one, entry(`"2"`, `"yes"`)), `met of "2" is "yes"; it must be true or false`},
		"a number":         {list(one, entry(`"2"`, "1")), `met of "2" is 1`},
		"null":             {list(one, entry(`"2"`, "null")), `met of "2" is null`},
		"partially":        {list(one, entry(`"2"`, `"partially"`)), "it must be true or false"},
		"no met":           {list(one, `{"criterion": "2", "reason": "because"}`), `met of "2" is missing`},
		"no reason":        {list(one, `{"criterion": "2", "met": true}`), "reason of"},
		"no list":          {`{"evaluations": {"1": true, "2": true}}`, "must be an array"},
		"a list of truths": {`{"evaluations": [true, false]}`, "entry 1"},
	} {
		_, err := verdict.Rubric(c.text, 2)
		var problem *verdict.Problem
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a problem with %q", name, err, c.says)
		}
	}
}
