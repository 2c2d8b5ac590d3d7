package verdict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

var (
	criteria = []eval.Criterion{{Name: "factuality"}, {Name: "style"}}
	scale    = eval.Scale{Min: 1, Max: 5}
)

func entry(criterion, score, reason string) string {
	return fmt.Sprintf(`{"criterion": %q, "score": %s, "reason": %q}`, criterion, score, reason)
}

func evaluations(entries ...string) string {
	return `{"evaluations": [` + strings.Join(entries, ", ") + `]}`
}

func TestSingleAccepts(t *testing.T) {
	t.Parallel()
	want := []verdict.Score{{Criterion: "factuality", Score: 4, Reason: "true"}, {Criterion: "style", Score: 1, Reason: "dull"}}
	good := evaluations(entry("factuality", "4", "true"), entry("style", "1", "dull"))
	for name, text := range map[string]string{
		"plain":          good,
		"fenced":         "Scores:\n```json\n" + good + "\n```",
		"prose":          "These are my evaluations [final]: " + good + " So the evaluations stand.",
		"another order":  evaluations(entry("style", "1", "dull"), entry("factuality", "4", "true")),
		"zero fractions": evaluations(entry("factuality", "4.0", "true"), entry("style", "1e0", "dull")),
		"digit strings":  evaluations(entry("factuality", `"4"`, "true"), entry("style", `" 1 "`, "dull")),
		"spaces":         evaluations(entry(" factuality", "4", " true "), entry("style ", "1", "dull\n")),
		"trailing comma": evaluations(entry("style", "1", "dull"), entry("factuality", "4", "true")+","),
		"more keys":      `{"overall": 3, "evaluations": [` + entry("factuality", "4", "true") + `, {"criterion":"style","score":1,"reason":"dull","sure":true}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := verdict.Single(text, criteria, scale)
			if err != nil {
				t.Fatalf("Single: %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSingleRefuses(t *testing.T) {
	t.Parallel()
	style := entry("style", "1", "dull")
	for name, test := range map[string]struct{ text, want string }{
		"nothing":           {"", "the answer is empty"},
		"no array":          {`{"evaluations": {"style": 3}}`, "must be an array"},
		"null":              {`{"evaluations": null}`, "must be an array"},
		"empty":             {`{"evaluations": []}`, `criterion "factuality" is missing; criterion "style" is missing`},
		"two lists":         {evaluations(style) + "\nor " + evaluations(entry("style", "2", "dull")), "several JSON objects, with different values of \"evaluations\""},
		"one missing":       {evaluations(style), `criterion "factuality" is missing`},
		"one twice":         {evaluations(style, style, entry("factuality", "2", "r")), `criterion "style" appears 2 times`},
		"unknown":           {evaluations(style, entry("charm", "2", "r"), entry("factuality", "2", "r")), `entry 2 of evaluations has the criterion "charm"; it must be exactly one of "factuality", "style"`},
		"another case":      {evaluations(style, entry("Factuality", "2", "r")), `has the criterion "Factuality"`},
		"entry no object":   {evaluations(style, `3`), "entry 2 of evaluations is 3"},
		"entry null":        {evaluations(style, `null`), "entry 2 of evaluations is null"},
		"criterion missing": {evaluations(style, `{"score":3,"reason":"r"}`), "has the criterion missing"},
		"criterion number":  {evaluations(style, `{"criterion":1,"score":3,"reason":"r"}`), "has the criterion 1"},
		"too high":          {evaluations(style, entry("factuality", "6", "r")), `score of "factuality" is 6; it must be a whole number from 1 to 5`},
		"too low":           {evaluations(style, entry("factuality", "0", "r")), `score of "factuality" is 0`},
		"fraction":          {evaluations(style, entry("factuality", "4.5", "r")), `score of "factuality" is 4.5`},
		"of five":           {evaluations(style, entry("factuality", `"4/5"`, "r")), `score of "factuality" is "4/5"`},
		"word":              {evaluations(style, entry("factuality", `"four"`, "r")), `score of "factuality" is "four"`},
		"empty score":       {evaluations(style, entry("factuality", `""`, "r")), `score of "factuality" is ""`},
		"null score":        {evaluations(style, entry("factuality", "null", "r")), `score of "factuality" is null`},
		"true score":        {evaluations(style, entry("factuality", "true", "r")), `score of "factuality" is true`},
		"huge score":        {evaluations(style, entry("factuality", "1e999", "r")), `score of "factuality" is 1e999`},
		"score missing":     {evaluations(style, `{"criterion":"factuality","reason":"r"}`), `score of "factuality" is missing`},
		"score twice":       {evaluations(style, `{"criterion":"factuality","score":1,"score":5,"reason":"r"}`), "twice"},
		"no reason":         {evaluations(style, `{"criterion":"factuality","score":3}`), `reason of "factuality" is missing`},
		"empty reason":      {evaluations(style, entry("factuality", "3", " ")), `reason of "factuality" is empty`},
		"all at once":       {evaluations(entry("style", "9", "r"), entry("factuality", "3", "")), `score of "style" is 9; it must be a whole number from 1 to 5; reason of "factuality" is empty`},
		"a single object":   {style, `has no "evaluations"`},
		"two commas":        {evaluations(style, entry("factuality", "3", "r")+",,"), "is not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := verdict.Single(test.text, criteria, scale)
			var problem *verdict.Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Error(), test.want) {
				t.Errorf("Single: %v, want a problem with %q", err, test.want)
			}
			if got != nil {
				t.Errorf("Single = %v beside a problem, want nothing", got)
			}
		})
	}
}

func TestScalesBelowZero(t *testing.T) {
	t.Parallel()
	got, err := verdict.Single(evaluations(entry("style", "-0", "r")), criteria[1:], eval.Scale{Min: -2, Max: 2})
	if err != nil || len(got) != 1 || got[0].Score != 0 || math.Signbit(got[0].Score) {
		t.Errorf("Single = %v, %v, want the score 0", got, err)
	}
}

func FuzzSingle(f *testing.F) {
	f.Add(evaluations(entry("factuality", "4", "true"), entry("style", "1", "dull")), 1, 5)
	f.Add("```\n"+evaluations(entry("factuality", `"4"`, "true"), `null`)+"\n```", 0, 0)
	f.Add(`{"evaluations":null}`, 5, 1)
	f.Fuzz(func(t *testing.T, text string, low, high int) {
		scale := eval.Scale{Min: low, Max: high}
		got, err := verdict.Single(text, criteria, scale)
		if err != nil {
			var problem *verdict.Problem
			if !errors.As(err, &problem) || problem.Error() == "" || got != nil {
				t.Fatalf("Single = %v, %v, want a problem alone", got, err)
			}
			return
		}
		if len(got) != len(criteria) {
			t.Fatalf("%d scores, want %d", len(got), len(criteria))
		}
		for i, s := range got {
			if s.Criterion != criteria[i].Name || s.Score != math.Trunc(s.Score) || strings.TrimSpace(s.Reason) == "" ||
				s.Score < float64(scale.Min) || s.Score > float64(scale.Max) {
				t.Fatalf("score %d = %+v does not fit %v", i, s, scale)
			}
		}
		var own []string
		for _, s := range got {
			raw, err := json.Marshal(map[string]any{"criterion": s.Criterion, "score": s.Score, "reason": s.Reason})
			if err != nil {
				t.Fatal(err)
			}
			own = append(own, string(raw))
		}
		again, err := verdict.Single(evaluations(own...), criteria, scale)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Fatalf("read again from %s: %v (-first +again):\n%s", evaluations(own...), err, diff)
		}
	})
}
