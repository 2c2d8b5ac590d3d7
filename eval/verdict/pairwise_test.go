package verdict_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

// graded asks for two criteria, a tie and two degrees.
var graded = &eval.Pairwise{
	Ties: true, Degrees: 2, Criteria: []eval.Criterion{{Name: "accuracy"}, {Name: `a "fine" style`}},
}

const (
	accurate = `{"criterion":"accuracy","better":"A","by_degree":"much better"}`
	stylish  = `{"criterion":"a \"fine\" style","better":"tie","by_degree":"equal"}`
	whole    = `"winner_doc_id":"A","degree":"better","reason":"r"`
)

func TestPairwiseReadsCriteriaAndDegrees(t *testing.T) {
	t.Parallel()
	want := verdict.Pair{
		Preference: verdict.Preference{Winner: "A", Degree: 1}, Reason: "r",
		Criteria: []verdict.Preference{{Criterion: "accuracy", Winner: "A", Degree: 2}, {Criterion: `a "fine" style`, Winner: eval.Tie}},
	}
	for name, text := range map[string]string{
		"plain":     `{"criteria":[` + accurate + `,` + stylish + `],` + whole + `}`,
		"turned":    `{` + whole + `,"criteria":[` + stylish + `,` + accurate + `]}`,
		"fenced":    "So:\n```json\n{\"criteria\":[" + accurate + "," + stylish + "]," + whole + "}\n```",
		"more keys": `{"criteria":[` + accurate + `,` + stylish + `],` + whole + `,"__proto__":{"winner_doc_id":"B"}}`,
		"spaces":    strings.ReplaceAll(`{"criteria":[`+accurate+`,`+stylish+`],`+whole+`}`, `"accuracy"`, `" accuracy "`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, read := range []func(text, first, second string, question *eval.Pairwise) (verdict.Pair, error){
				verdict.Pairwise, verdict.PairwisePart,
			} {
				got, err := read(text, "A", "B", graded)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

// TestCriteriaWithoutAReading: a criterion whose verdict has no reading, or two, is a problem that can be sent to the
// judge. The rest of the answer can be used, and nothing is guessed.
func TestCriteriaWithoutAReading(t *testing.T) {
	t.Parallel()
	other := func(replace, by string) string { return strings.Replace(accurate, replace, by, 1) }
	for name, test := range map[string]struct {
		criteria, problem string
		read              int // criteria that can be read
	}{
		"missing":            {`[` + accurate + `]`, `criterion "a \"fine\" style" is missing`, 1},
		"none":               {`[]`, `criterion "accuracy" is missing`, 0},
		"null":               {`null`, "criteria is null", 0},
		"an object":          {`{"accuracy":"A"}`, `it must be an array`, 0},
		"twice":              {`[` + accurate + `,` + accurate + `,` + stylish + `]`, `criterion "accuracy" appears 2 times`, 1},
		"twice, else":        {`[` + accurate + `,` + other(`"A"`, `"B"`) + `,` + stylish + `]`, `appears 2 times`, 1},
		"unknown":            {`[` + other("accuracy", "winner") + `,` + stylish + `]`, `has the criterion "winner"; it must be exactly one of`, 1},
		"an extra one":       {`[` + accurate + `,` + stylish + `,` + other("accuracy", "reason") + `]`, `entry 3 of criteria has the criterion "reason"`, 2},
		"in another case":    {`[` + other("accuracy", "Accuracy") + `,` + stylish + `]`, `has the criterion "Accuracy"`, 1},
		"winner's case":      {`[` + other(`"A"`, `"a"`) + `,` + stylish + `]`, `better of "accuracy" is "a"; it must be exactly one of "A", "B", "tie"`, 1},
		"another language":   {`[` + other(`"A"`, `"Unentschieden"`) + `,` + stylish + `]`, `is "Unentschieden"`, 1},
		"a number":           {`[` + other(`"A"`, `1`) + `,` + stylish + `]`, `better of "accuracy" is 1, not a string`, 1},
		"two keys":           {`[` + other(`"better"`, `"better":"B","better"`) + `,` + stylish + `]`, `it has the key "better" twice`, 1},
		"no degree":          {`[` + other(`,"by_degree":"much better"`, ``) + `,` + stylish + `]`, `by_degree of "accuracy" is missing`, 1},
		"a tie by far":       {`[` + other(`"A"`, `"tie"`) + `,` + stylish + `]`, `if better is "tie", it must be exactly one of "equal"`, 1},
		"equal, but better":  {`[` + other(`much better`, `equal`) + `,` + stylish + `]`, `must be exactly one of "better", "much better"`, 1},
		"not an object":      {`["A",` + accurate + `,` + stylish + `]`, "entry 1 of criteria is", 2},
		"a prototype":        {`[` + accurate + `,` + other("accuracy", "__proto__") + `,` + stylish + `]`, `"__proto__"`, 2},
		"of another spelled": {`[{"criterion":"accuracy","winner_doc_id":"A","by_degree":"better"},` + stylish + `]`, "better of \"accuracy\" is missing", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{` + whole + `,"criteria":` + test.criteria + `}`
			if _, err := verdict.Pairwise(text, "A", "B", graded); err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("Pairwise: %v, want %s", err, test.problem)
			}
			got, err := verdict.PairwisePart(text, "A", "B", graded)
			if err != nil || got.Winner != "A" || got.Degree != 1 || len(got.Criteria) != test.read {
				t.Errorf("PairwisePart = %+v, %v, want %d criteria", got, err, test.read)
			}
		})
	}
}

// TestOverallVerdictIsNeverGuessed: without a valid overall verdict, an answer is none, whatever its criteria say.
func TestOverallVerdictIsNeverGuessed(t *testing.T) {
	t.Parallel()
	by := `"criteria":[` + accurate + `,` + stylish + `],`
	for name, text := range map[string]string{
		"no winner":         `{` + by + `"degree":"better","reason":"r"}`,
		"no degree":         `{` + by + `"winner_doc_id":"A","reason":"r"}`,
		"a tie by far":      `{` + by + `"winner_doc_id":"tie","degree":"much better","reason":"r"}`,
		"equal, but better": `{` + by + `"winner_doc_id":"A","degree":"equal","reason":"r"}`,
		"degree's case":     `{` + by + `"winner_doc_id":"A","degree":"Much better","reason":"r"}`,
		"a degree of seven": `{` + by + `"winner_doc_id":"A","degree":"slightly better","reason":"r"}`,
		"two degrees": `{"winner_doc_id":"A","degree":"better","reason":"r"} or {` + by +
			`"winner_doc_id":"A","degree":"much better","reason":"r"}`,
		"no reason": `{` + by + `"winner_doc_id":"A","degree":"better","reason":" "}`,
		"two keys":  `{` + by + `"winner_doc_id":"A","winner_doc_id":"B","degree":"better","reason":"r"}`,
	} {
		if got, err := verdict.PairwisePart(text, "A", "B", graded); err == nil {
			t.Errorf("%s: %+v of %s, want a problem", name, got, text)
		}
	}

	draft := `{"criteria":[` + accurate + `,` + stylish + `],` + whole + `} no: {"criteria":[` +
		strings.Replace(accurate, `"A"`, `"B"`, 1) + `,` + stylish + `],` + whole + `}`
	if _, err := verdict.Pairwise(draft, "A", "B", graded); err == nil {
		t.Error("two answers that differ in a criterion have a reading")
	}
	if got, err := verdict.PairwisePart(draft, "A", "B", graded); err != nil || len(got.Criteria) != 0 || got.Winner != "A" {
		t.Errorf("PairwisePart = %+v, %v, want the winner alone", got, err)
	}
}

// TestManyCriteria reads 64 criteria, whose names are those of fields, too.
func TestManyCriteria(t *testing.T) {
	t.Parallel()
	question := &eval.Pairwise{}
	var entries []string
	for i := range 64 {
		name := fmt.Sprintf("c%d", i)
		if own := []string{"winner_doc_id", "reason", "__proto__", "criteria", "better", "a b", `"`, "tie", "constructor"}; i < len(own) {
			name = own[i]
		}
		question.Criteria = append(question.Criteria, eval.Criterion{Name: name})
		raw, err := json.Marshal(map[string]string{"criterion": name, "better": "B"})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, string(raw))
	}
	text := "Here: {\"criteria\":[" + strings.Join(entries, ",") + `],"winner_doc_id":"B","reason":"r"}`
	got, err := verdict.Pairwise(text, "A", "B", question)
	if err != nil || len(got.Criteria) != 64 {
		t.Errorf("%d criteria, %v, want 64", len(got.Criteria), err)
	}
}
