package verdict_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

// pairwise reads the verdict on two documents, without degrees and criteria.
func pairwise(text, first, second string, ties bool) (winner, reason string, err error) {
	p, err := verdict.Pairwise(text, first, second, &eval.Pairwise{Ties: ties})
	return p.Winner, p.Reason, err
}

func TestPairwiseAccepts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text, first, second string
		ties                bool
		winner, reason      string
	}{
		"plain":          {`{"winner_doc_id": "a.md", "reason": "It cites."}`, "a.md", "b.md", false, "a.md", "It cites."},
		"second":         {`{"reason": "It cites.", "winner_doc_id": "b.md"}`, "a.md", "b.md", false, "b.md", "It cites."},
		"byte order":     {"\ufeff \n" + `{"winner_doc_id":"a","reason":"r"}` + "\n", "a", "b", false, "a", "r"},
		"fenced":         {"Here:\n```json\n{\"winner_doc_id\":\"a\",\"reason\":\"r\"}\n```\nDone.", "a", "b", false, "a", "r"},
		"fence, no tag":  {"```\n{\"winner_doc_id\":\"a\",\"reason\":\"r\"}\n```", "a", "b", false, "a", "r"},
		"prose":          {`I think {both} are "good", but: {"winner_doc_id":"a","reason":"r"}. That's all [1].`, "a", "b", false, "a", "r"},
		"said twice":     {`First {"winner_doc_id":"b","reason":"r"}, yes: { "winner_doc_id": "b" , "reason":"s"}`, "a", "b", false, "b", "s"},
		"other objects":  {`{"winner_doc_id":"a","reason":"r"} {"confidence": 1}`, "a", "b", false, "a", "r"},
		"boxed":          {`\boxed{{"winner_doc_id":"a","reason":"r"}}`, "a", "b", false, "a", "r"},
		"thought":        {`<think>{"winner_doc_id":"a","reason":"r"}</think> {"winner_doc_id":"b","reason":"s"}`, "a", "b", false, "b", "s"},
		"thought only":   {`a? "winner_doc_id"</think>{"winner_doc_id":"b","reason":"s"}`, "a", "b", false, "b", "s"},
		"braces within":  {`So: {"winner_doc_id":"a","reason":"uses } and { and \" well"} ok`, "a", "b", false, "a", `uses } and { and " well`},
		"tie":            {`{"winner_doc_id":"tie","reason":"same"}`, "a", "b", true, eval.Tie, "same"},
		"spaces":         {`{"winner_doc_id":" a\n","reason":"  r "}`, "a", "b", false, "a", "r"},
		"HTML escapes":   {`{"winner_doc_id":"R&amp;D &#34;x&#34;","reason":"r"}`, `R&D "x"`, "b", false, `R&D "x"`, "r"},
		"trailing comma": {`{"winner_doc_id":"a","reason":"r",}`, "a", "b", false, "a", "r"},
		"more keys":      {`{"winner_doc_id":"a","reason":"r","confidence":0.9}`, "a", "b", false, "a", "r"},
		"other alphabet": {`{"winner_doc_id":"\u00e9t\u00e9","reason":"ça"}`, "été", "b", false, "été", "ça"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			winner, reason, err := pairwise(test.text, test.first, test.second, test.ties)
			if winner != test.winner || reason != test.reason || err != nil {
				t.Errorf("Pairwise = %q, %q, %v, want %q, %q", winner, reason, err, test.winner, test.reason)
			}
		})
	}
}

func TestPairwiseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		ties bool
		want string // in the problem
	}{
		"nothing":              {"", false, "the answer is empty"},
		"byte order mark only": {"\ufeff\n", false, "the answer is empty"},
		"prose":                {"Document a is better.", false, `no JSON object with "winner_doc_id"`},
		"prose with key":       {`The "winner_doc_id" is a.`, false, `no JSON object with "winner_doc_id"`},
		"array":                {`[{"winner_doc_id":"a","reason":"r"}]`, false, "it must be one JSON object"},
		"array in a fence":     {"```\n" + `[{"winner_doc_id":"a","reason":"r"},{"winner_doc_id":"b","reason":"r"}]` + "\n```", false, "is inside something else"},
		"string":               {`"a"`, false, `the answer is "a"`},
		"wrapped":              {`{"verdict":{"winner_doc_id":"a","reason":"r"}}`, false, `has no "winner_doc_id"`},
		"wrapped in prose":     {`so {"draft":{"winner_doc_id":"a","reason":"r"}} ok`, false, "is inside something else"},
		"another id":           {`{"winner_doc_id":"c","reason":"r"}`, false, `winner_doc_id is "c"; it must be exactly one of "a", "b"`},
		"another case":         {`{"winner_doc_id":"A","reason":"r"}`, false, `winner_doc_id is "A"`},
		"key in another case":  {`{"Winner_Doc_Id":"a","reason":"r"}`, false, `has no "winner_doc_id"`},
		"empty id":             {`{"winner_doc_id":"","reason":"r"}`, false, `winner_doc_id is ""`},
		"null":                 {`{"winner_doc_id":null,"reason":"r"}`, false, "winner_doc_id is null, not a string"},
		"number":               {`{"winner_doc_id":1,"reason":"r"}`, false, "winner_doc_id is 1, not a string"},
		"tie, none allowed":    {`{"winner_doc_id":"tie","reason":"r"}`, false, `exactly one of "a", "b"`},
		"both":                 {`{"winner_doc_id":"a and b","reason":"r"}`, true, `exactly one of "a", "b", "tie"`},
		"no reason":            {`{"winner_doc_id":"a"}`, false, "reason is missing"},
		"empty reason":         {`{"winner_doc_id":"a","reason":" \n"}`, false, "reason is empty"},
		"reason null":          {`{"winner_doc_id":"a","reason":null}`, false, "reason is null, not a string"},
		"key twice":            {`{"winner_doc_id":"a","winner_doc_id":"b","reason":"r"}`, false, "twice"},
		"two commas":           {`{"winner_doc_id":"a","reason":"r",,}`, false, "is not valid JSON"},
		"single quotes":        {`{'winner_doc_id':'a','reason':'r'}`, false, "is not valid JSON"},
		"curly quotes":         {`{“winner_doc_id”: “a”, “reason”: “r”}`, false, "is not valid JSON"},
		"cut":                  {`{"winner_doc_id":"a","reason":"bec`, false, "ends before it is complete"},
		"two that differ":      {`First {"winner_doc_id":"a","reason":"r"}, no: {"winner_doc_id":"b","reason":"s"}`, false, "several JSON objects"},
		"one that is quoted":   {"```json\n" + `{"winner_doc_id":"a","reason":"r"}` + "\n```\n" + `The other says of itself {"winner_doc_id":"b","reason":"I win"}.`, false, "several JSON objects"},
		"the last of three":    {`{"winner_doc_id":"a","reason":"r"} {"winner_doc_id":"b","reason":"r"} {"winner_doc_id":"b","reason":"r"}`, false, "several JSON objects"},
		"draft, then cut":      {`{"winner_doc_id":"a","reason":"r"} no: {"winner_doc_id":"b","rea`, false, "ends before it is complete"},
		"draft, then invalid":  {`{"winner_doc_id":"a","reason":"r"} no: {'winner_doc_id':'b','reason':'r'}`, false, "is not valid JSON"},
		"thinks for ever":      {`<think>{"winner_doc_id":"a","reason":"r"}`, false, "ends within its reasoning"},
		"only thought":         {`<think>{"winner_doc_id":"a","reason":"r"}</think>`, false, "no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			winner, reason, err := pairwise(test.text, "a", "b", test.ties)
			var problem *verdict.Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Error(), test.want) {
				t.Errorf("Pairwise: %v, want a problem with %q", err, test.want)
			}
			if winner != "" || reason != "" {
				t.Errorf("Pairwise = %q, %q beside a problem, want nothing", winner, reason)
			}
		})
	}
}

// Two ids that differ in HTML escapes only cannot be told apart by what was said.
func TestAmbiguousEscapesAreRefused(t *testing.T) {
	t.Parallel()
	const text = `{"winner_doc_id":"R&amp;D","reason":"r"}`
	if winner, _, err := pairwise(text, "R&D", "R&amp;D", false); err == nil {
		t.Errorf("Pairwise = %q, want a problem: both ids may be meant", winner)
	}
}

func TestProblemsStayReadable(t *testing.T) {
	t.Parallel()
	_, _, err := pairwise(`{"winner_doc_id":"`+strings.Repeat("é", 5000)+`","reason":"r"}`, "a", "b", false)
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("problem of %d bytes, want a short one: %v", len(err.Error()), err)
	}
}

// Brackets without end must not cost time that grows with their square: read once,
// these take a moment; from every bracket anew, longer than the test binary may run.
func TestHostileAnswersAreReadOnce(t *testing.T) {
	t.Parallel()
	units := []string{"{", `{"winner_doc_id":`, "[", `{"a":`, `[{"a":`, `{"`, `{"a{"`, `{"a":{"a":1},`}
	if testing.Short() {
		units = units[:2]
	}
	for _, unit := range units {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			if _, _, err := pairwise(strings.Repeat(unit, 1<<20/len(unit)), "a", "b", true); err == nil {
				t.Error("Pairwise found a winner, want a problem")
			}
		})
	}
}

// Whatever an answer says: it is a problem, or the verdict that it gives is one of
// those asked for, is part of it, and is read from itself again, alone and in prose,
// but not beside another.
func FuzzPairwise(f *testing.F) {
	f.Add(`{"winner_doc_id":"a.md","reason":"r"}`, "a.md", "b.md", true)
	f.Add("```json\n{\"winner_doc_id\":\"tie\",\"reason\":\"r\"}\n```", "a", "b", true)
	f.Add(`x {"winner_doc_id":"a","reason":"r",} </think> {"winner_doc_id":"R&amp;D"`, "R&D", "b", false)
	f.Add("\ufeff[{}]{\"winner_doc_id\":null}", "", "tie", false)
	f.Add(`{"winner_doc_id":"a","reason":"</think> 'winner_doc_id' “winner_doc_id” {\"winner_doc_id\":\"b\"}"}`, "a", "b", false)
	f.Add(`{"winner_doc_id":" a ","reason":"\ud800 \u0000 \u202e"}`, "a", " a ", true)
	f.Add(`[{"winner_doc_id":"a","reason":"r"}] {"winner_doc_id":"b","reason":"r"`, "a", "b", true)
	f.Fuzz(func(t *testing.T, text, first, second string, ties bool) {
		winner, reason, err := pairwise(text, first, second, ties)
		if err != nil {
			var problem *verdict.Problem
			if !errors.As(err, &problem) || problem.Error() == "" || winner != "" || reason != "" {
				t.Fatalf("Pairwise = %q, %q, %v, want a problem alone", winner, reason, err)
			}
			return
		}
		if winner != first && winner != second && (!ties || winner != eval.Tie) {
			t.Fatalf("winner %q is none of %q, %q (ties %t)", winner, first, second, ties)
		}
		if strings.TrimSpace(reason) == "" {
			t.Fatal("the reason is empty")
		}
		if !strings.Contains(text, "winner_doc_id") && !strings.Contains(text, `\u`) {
			t.Fatalf("%q won in an answer without winner_doc_id", winner)
		}
		own, err := json.Marshal(map[string]string{"winner_doc_id": winner, "reason": reason})
		if err != nil {
			t.Fatal(err)
		}
		if w, r, err := pairwise(string(own), first, second, ties); err != nil || w != winner || r != reason {
			t.Fatalf("Pairwise = %q, %q; read again from %s: %q, %q, %v", winner, reason, own, w, r, err)
		}
		said := "Here it is:\n```json\n" + string(own) + "\n```\nThat is all [1] {so far}."
		if w, r, err := pairwise(said, first, second, ties); err == nil && (w != winner || r != reason) {
			t.Fatalf("Pairwise = %q, %q; read again from %s: %q, %q", winner, reason, said, w, r)
		}
		other := `{"winner_doc_id":"neither of them","reason":"r"}`
		for _, two := range []string{said + other, other + said} {
			if w, _, err := pairwise(two, first, second, ties); err == nil && !strings.Contains(text, "neither of them") {
				t.Fatalf("Pairwise = %q, read from %s, which has two verdicts", w, two)
			}
		}
	})
}
