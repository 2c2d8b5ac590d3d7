package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

var dimensions = []eval.Dimension{{ID: "clarity"}, {ID: "evidence"}, {ID: "depth"}}

func opinion(id, score, argument string) string {
	return fmt.Sprintf(`{"criterion_id": %q, "score": %s, "argument": %q}`, id, score, argument)
}

func TestPanel(t *testing.T) {
	t.Parallel()
	clarity, evidence, depth := opinion("clarity", "4", "plain"), opinion("evidence", "2", "none"), opinion("depth", "1", "shallow")
	want := []verdict.Score{
		{Criterion: "clarity", Score: 4, Reason: "plain"}, {Criterion: "evidence", Score: 2, Reason: "none"},
		{Criterion: "depth", Score: 1, Reason: "shallow"},
	}
	for _, text := range []string{evaluations(depth, clarity, evidence), "So:\n```json\n" + evaluations(clarity, evidence, depth) + "\n```"} {
		got, err := verdict.Panel(text, dimensions, scale)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for name, test := range map[string]struct{ text, want string }{
		"missing":    {evaluations(clarity, depth), `criterion_id "evidence" is missing`},
		"twice":      {evaluations(clarity, evidence, depth, depth), `criterion_id "depth" appears 2 times`},
		"unknown":    {evaluations(clarity, evidence, depth, opinion("charm", "2", "r")), `has the criterion_id "charm"; it must be exactly one of "clarity", "evidence", "depth"`},
		"score":      {evaluations(clarity, evidence, opinion("depth", "9", "r")), `score of "depth" is 9`},
		"argument":   {evaluations(clarity, evidence, opinion("depth", "3", " ")), `argument of "depth" is empty`},
		"a reason":   {evaluations(clarity, evidence, `{"criterion_id":"depth","score":3,"reason":"r"}`), `argument of "depth" is missing`},
		"breaks off": {`{"evaluations": [` + clarity + `, ` + evidence + `, ` + depth, "ends before it is complete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := verdict.Panel(test.text, dimensions, scale); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v; want an error with %s", got, err, test.want)
			}
		})
	}
}

func TestBatchKeepsWhatIsRight(t *testing.T) {
	t.Parallel()
	clarity, evidence, depth := opinion("clarity", "4", "plain"), opinion("evidence", "2", "none"), opinion("depth", "1", "shallow")
	high, unknown := opinion("depth", "9", "r"), opinion("charm", "2", "r")
	whole := evaluations(clarity, evidence, depth)
	for name, test := range map[string]struct {
		text    string
		kept    string // ids
		corrupt []string
	}{
		"all":               {whole, "clarity evidence depth", nil},
		"another order":     {evaluations(depth, clarity, evidence), "clarity evidence depth", nil},
		"one missing":       {evaluations(depth, clarity), "clarity depth", nil},
		"none given":        {evaluations(), "", nil},
		"out of scale":      {evaluations(clarity, high, evidence), "clarity evidence", []string{high}},
		"unknown":           {evaluations(clarity, unknown, evidence, depth), "clarity evidence depth", []string{unknown}},
		"no object":         {evaluations(`"clarity"`, `null`, depth), "depth", []string{`"clarity"`, `null`}},
		"twice":             {evaluations(clarity, depth, evidence, depth), "clarity evidence", []string{depth, depth}},
		"twice, one wrong":  {evaluations(high, depth, evidence), "evidence", []string{high, depth}},
		"no argument":       {evaluations(`{"criterion_id":"clarity","score":3}`, depth), "depth", []string{`{"criterion_id":"clarity","score":3}`}},
		"a key twice":       {evaluations(`{"criterion_id":"clarity","score":3,"score":4,"argument":"a"}`, depth), "depth", []string{`{"criterion_id":"clarity","score":3,"score":4,"argument":"a"}`}},
		"fenced":            {"Here:\n```json\n" + whole + "\n```", "clarity evidence depth", nil},
		"prose":             {"I cannot judge this.", "", []string{"I cannot judge this."}},
		"empty":             {"", "", nil},
		"no list":           {`{"evaluations": {"clarity": 4}}`, "", []string{`{"evaluations": {"clarity": 4}}`}},
		"within another":    {"[" + whole + "]", "", []string{"[" + whole + "]"}},
		"two that differ":   {whole + "\nNo: " + evaluations(depth), "", []string{whole + "\nNo: " + evaluations(depth)}},
		"a draft before":    {whole + "\nNo: " + `{"evaluations": [` + depth, "", []string{whole + "\nNo: " + `{"evaluations": [` + depth}},
		"ends in an entry":  {`{"evaluations": [` + clarity + ",\n" + evidence + `, {"criterion_id": "de`, "clarity evidence", []string{`{"criterion_id": "de`}},
		"ends after one":    {"```json\n" + `{"evaluations": [` + clarity + `, `, "clarity", nil},
		"ends after all":    {`{"evaluations": [` + clarity + `, ` + evidence + `, ` + depth + `]`, "clarity evidence depth", nil},
		"thinks to the end": {"<think>" + whole, "", []string{"<think>" + whole}},
		"thinks before":     {"<think>" + evaluations(high) + "</think>" + `{"evaluations": [` + clarity + `, {`, "clarity", []string{"{"}},
		"bad JSON within":   {`{"evaluations": [` + clarity + `, {"criterion_id": depth}, ` + evidence + `]}`, "clarity", []string{`{"criterion_id": depth}, ` + evidence + `]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scores, corrupt := verdict.Batch(test.text, dimensions, scale)
			var kept []string
			for _, s := range scores {
				kept = append(kept, s.Criterion)
			}
			if got := strings.Join(kept, " "); got != test.kept {
				t.Errorf("kept %q, want %q", got, test.kept)
			}
			if diff := cmp.Diff(test.corrupt, corrupt); diff != "" {
				t.Errorf("corrupt (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever an answer says: kept scores are of the dimensions asked, each once, in order and on
// the scale, and each would be taken alone, too. Everything that is called corrupt is in the
// answer. What Panel takes, Batch takes whole.
func FuzzBatch(f *testing.F) {
	clarity, depth := opinion("clarity", "4", "plain"), opinion("depth", "1", "shallow")
	for _, text := range []string{
		evaluations(clarity, depth), evaluations(clarity, clarity), `{"evaluations": [` + clarity + `, {"crit`, "", "prose",
		`{"evaluations": [` + depth + `]`, "<think>" + evaluations(depth), "[" + evaluations(clarity) + "]", `{"evaluations": null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scores, corrupt := verdict.Batch(text, dimensions, scale)
		at := 0
		for _, s := range scores {
			for at < len(dimensions) && dimensions[at].ID != s.Criterion {
				at++
			}
			if at == len(dimensions) || s.Score < 1 || s.Score > 5 || s.Reason == "" {
				t.Fatalf("kept %+v of %q", scores, text)
			}
			alone := evaluations(opinion(s.Criterion, fmt.Sprint(s.Score), "r"))
			if _, err := verdict.Panel(alone, dimensions[at:at+1], scale); err != nil {
				t.Errorf("%s alone: %v", alone, err)
			}
			at++
		}
		for _, raw := range corrupt {
			if raw == "" || !strings.Contains(text, raw) {
				t.Errorf("corrupt %q is not in %q", raw, text)
			}
		}
		all, err := verdict.Panel(text, dimensions, scale)
		if diff := cmp.Diff(all, scores); err == nil && (diff != "" || len(corrupt) > 0) {
			t.Errorf("Panel takes what Batch does not (-panel +batch), corrupt %q:\n%s", corrupt, diff)
		}
	})
}
