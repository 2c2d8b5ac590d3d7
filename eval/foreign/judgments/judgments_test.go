package judgments

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func rowOf(t testing.TB, text string) Row {
	t.Helper()
	var row Row
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return row
}

// said is the part of a verdict that most cases are about.
type said struct {
	Judge           string
	Reverse         bool
	Outcome, ByName Outcome
	Skipped         string
}

func saidBy(r Read) (all []said) {
	for _, v := range r.Verdicts {
		all = append(all, said{v.Judge, v.Reverse, v.Outcome, v.ByName, v.Skipped})
	}
	return all
}

// Each format is recognised by its fields, and says who won against whom.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		row        string
		format     Format
		item       string
		candidates [2]string
		want       []said
	}{
		"battle": {
			`{"model_a":"x","model_b":"y","winner":"model_b"}`,
			Battles, "", [2]string{"x", "y"}, []said{{"", false, Second, None, ""}},
		},
		"battle by name": {
			`{"candidate_1":"x","candidate_2":"y","winner":"y","question_id":7,"judge":"j"}`,
			Battles, "7", [2]string{"x", "y"}, []said{{"j", false, None, Second, ""}},
		},
		"battle of candidates called like words": {
			`{"model_a":"b","model_b":"tie","winner":"b","item":"i"}`,
			Battles, "i", [2]string{"b", "tie"}, []said{{"", false, Second, First, ""}},
		},
		"battle without a winner": {
			`{"model_a":"x","model_b":"y","winner":null}`,
			Battles, "", [2]string{"x", "y"}, []said{{"", false, None, None, "rows without a winner"}},
		},
		"arena": {
			`{"question_id":"58210e39","model_a":"x","model_b":"y","winner":"tie (bothbad)","judge":"arena_user_9","conversation_a":[{"role":"user","content":"hi"},{"role":"assistant","content":"A"}],"conversation_b":[{"role":"user","content":"hi"},{"role":"assistant","content":"B"}],"turn":1,"anony":true,"language":"English","tstamp":1682351591.1322}`,
			Arena, "58210e39", [2]string{"x", "y"}, []said{{"arena_user_9", false, Tie, Tie, ""}},
		},
		"human preference": {
			`{"id":"30192","model_a":"x","model_b":"y","prompt":"[\"p\"]","response_a":"[\"r\"]","response_b":"[\"s\"]","winner_model_a":"0","winner_model_b":"1","winner_tie":"0"}`,
			Arena, "q-f0e7d2e1ce5f", [2]string{"x", "y"}, []said{{"", false, Second, Second, ""}},
		},
		"arena-hard, both orders": {
			`{"question_id":"q","model":"m","judge":"gpt-4","baseline":"base","games":[{"user_prompt":"u","judgment":"[[B>>A]]","score":"B>>A"},{"user_prompt":"u","judgment":"[[A=B]]","score":"A=B"}]}`,
			ArenaHard, "q", [2]string{"base", "m"}, []said{{"gpt-4", false, Second, Second, ""}, {"gpt-4", true, Tie, Tie, ""}},
		},
		"arena-hard, the model first": {
			`{"uid":"u","category":"c","model":"m","judge":"gpt-4.1","baseline":"base","games":[null,{"score":"A>B","judgment":{"answer":"because"}}]}`,
			ArenaHard, "u", [2]string{"base", "m"}, []said{{"gpt-4.1", false, None, None, noScore}, {"gpt-4.1", true, Second, Second, ""}},
		},
		"arena-hard, written from the loser": {
			`{"question_id":"q","model":"m","judge":"j","baseline":"base","games":[{"score":"A<<B"},{"score":"B<A"}]}`,
			ArenaHard, "q", [2]string{"base", "m"}, []said{{"j", false, Second, Second, ""}, {"j", true, Second, Second, ""}},
		},
		"mt-bench pair": {
			`{"question_id":81,"model_1":"x","model_2":"y","g1_winner":"model_2","g2_winner":"error","judge":["gpt-4","pair-v2"],"g1_user_prompt":"","g1_judgment":"[[B]]","g2_user_prompt":"","g2_judgment":"","turn":1,"tstamp":1687222222.5}`,
			MTBench, "81", [2]string{"x", "y"},
			[]said{{"gpt-4 pair-v2", false, Second, Second, ""}, {"gpt-4 pair-v2", true, None, None, "games that the judge gave no verdict on (error)"}},
		},
		"alpaca": {
			`{"instruction":"do","output_1":"a","generator_1":"davinci","output_2":"b","generator_2":"mine","dataset":"helpful_base","annotator":"weighted","preference":1.93}`,
			AlpacaEval, "q-e3c2c4b7b3f2", [2]string{"davinci", "mine"}, []said{{"weighted", false, Second, Second, ""}},
		},
		"alpaca, a tie": {
			`{"instruction":"do","output_1":"a","generator_1":"davinci","output_2":"b","generator_2":"mine","annotator":"gpt4","preference":1.5}`,
			AlpacaEval, "q-e3c2c4b7b3f2", [2]string{"davinci", "mine"}, []said{{"gpt4", false, Tie, Tie, ""}},
		},
		"autoarena": {
			`{"prompt":"p","model_a":"x","model_b":"y","response_a":"r","response_b":"s","judge":"Human","winner":"-"}`,
			AutoArena, "q-148de9c5a7a4", [2]string{"x", "y"}, []said{{"Human", false, Tie, Tie, ""}},
		},
		"votes": {
			`{"item":"q1","candidate_a":"x","candidate_b":"y","anna":"1","ben":"2.0","cleo":""}`,
			Votes, "q1", [2]string{"x", "y"}, []said{{"anna", false, First, None, ""}, {"ben", false, Second, None, ""}},
		},
		"own": {
			`{"id":"0.1","doc_id_1":"q/y","doc_id_2":"q/x","model":"p:m","trial":1,"winner_doc_id":"q/x","reason":"r","item":"q","order":"reverse","judge":"j","answered_by":"p:m","candidate_1":"y","candidate_2":"x"}`,
			Evalfleet, "q", [2]string{"y", "x"}, []said{{"j", false, Second, Second, ""}},
		},
		"own verdicts": {
			`{"id":"r0-1","item":"q","candidate_1":"y","candidate_2":"x","doc_id_1":"q/y","doc_id_2":"q/x","result":"second","winner":"x","by":"judge","judge":"j","model":"p:m","answered_by":"p:m","trial":"1","order":"reverse","reason":"r"}`,
			Evalfleet, "q", [2]string{"y", "x"}, []said{{"j", false, Second, Second, ""}},
		},
		"own verdicts, of a person": {
			`{"id":"","item":"q","candidate_1":"x","candidate_2":"y","doc_id_1":"q/x","doc_id_2":"q/y","result":"tie","winner":"","by":"person","judge":"anna","model":"","answered_by":""}`,
			Evalfleet, "q", [2]string{"x", "y"}, []said{{"anna", false, Tie, Tie, "votes of people, which were not shown in an order: rank votes.csv"}},
		},
		"own, by a fallback": {
			`{"doc_id_1":"q/y","doc_id_2":"q/x","model":"p:m","winner_doc_id":"tie","item":"q","judge":"j","answered_by":"p:other","candidate_1":"y","candidate_2":"x"}`,
			Evalfleet, "q", [2]string{"y", "x"}, []said{{"j", false, Tie, Tie, "verdicts that a fallback model gave in a judge's place"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := rowOf(t, tt.row)
			if got := Recognise(row); got != tt.format {
				t.Fatalf("recognised as %q, want %q", got, tt.format)
			}
			r, err := tt.format.ReadRow(row, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, saidBy(r)); diff != "" || r.Candidates != tt.candidates || len(tt.item) != len(r.Item) || !strings.HasPrefix(tt.item, "q-") && r.Item != tt.item {
				t.Errorf("item %q of %v (-want +got):\n%s", r.Item, r.Candidates, diff)
			}
		})
	}
}

// Words that tools write for the same outcome mean the same.
func TestWinners(t *testing.T) {
	t.Parallel()
	for outcome, words := range map[Outcome][]string{
		First:  {"model_a", "Model A", "a", "A", "[[A]]", "model_1", "left", "1", "1.0", "candidate_a"},
		Second: {"model_b", "b", "right", "2", "2.0", "response_b"},
		Tie:    {"tie", "Tie", "draw", "0", "tie (bothbad)", "tie (both bad)", "both_bad", "both bad", "-"},
	} {
		for _, word := range words {
			raw, err := json.Marshal(map[string]string{"model_a": "x", "model_b": "y", "winner": word})
			if err != nil {
				t.Fatal(err)
			}
			r, err := Battles.ReadRow(rowOf(t, string(raw)), Options{})
			if err != nil || r.Verdicts[0].Outcome != outcome {
				t.Errorf("%q: got %+v, %v; want %v", word, r.Verdicts, err, outcome)
			}
		}
	}
}

// What is lost of a value is said.
func TestSimplified(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{"model_a":"x","model_b":"y","winner":"tie (bothbad)"}`:                                     "both are bad",
		`{"model":"m","judge":"j","baseline":"b","games":[{"score":"A>>B"}]}`:                        "strong preferences",
		`{"model":"m","judge":"j","games":[{"score":"A>B"}]}`:                                        "--baseline names it",
		`{"generator_1":"x","generator_2":"y","preference":1.2}`:                                     "weighted",
		`{"generator_1":"x","generator_2":"y","preference":"1.0000001","instruction":"i"}`:           "weighted",
		`{"model_a":"x","model_b":"y","winner":"both_bad","question_id":"1","conversation_a":[1,2]}`: "both are bad",
	} {
		of := rowOf(t, row)
		r, err := Recognise(of).ReadRow(of, Options{})
		if err != nil || !strings.Contains(strings.Join(r.Verdicts[0].Simplified, "; "), want) {
			t.Errorf("%s: got %+v, %v; want %q", row, r.Verdicts, err, want)
		}
	}
	named, err := ArenaHard.ReadRow(rowOf(t, `{"model":"m","judge":"j","games":[{"score":"A>B"}]}`), Options{Baseline: "b"})
	if err != nil || named.Candidates != [2]string{"b", "m"} || named.Verdicts[0].Simplified != nil {
		t.Errorf("with --baseline: got %+v, %v", named, err)
	}
}

// Texts, questions, reasons, times and categories are kept where a tool writes them.
func TestFields(t *testing.T) {
	t.Parallel()
	r, err := Arena.ReadRow(rowOf(t, `{"question_id":"q","model_a":"x","model_b":"y","winner":"model_a","judge":"u",
		"conversation_a":[{"role":"user","content":"hi"},{"role":"assistant","content":"A"}],
		"conversation_b":[{"role":"user","content":"hi"},{"role":"assistant","content":"B"},{"role":"user","content":"more"},{"role":"assistant","content":"C"}],
		"category":"math; code","reason":"because","tstamp":1682351591.5}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Question != "hi" || *r.Texts[0] != "A" || *r.Texts[1] != "assistant: B\n\nuser: more\n\nassistant: C" {
		t.Errorf("question %q, texts %q and %q", r.Question, *r.Texts[0], *r.Texts[1])
	}
	v := r.Verdicts[0]
	if want := time.Date(2023, 4, 24, 15, 53, 11, 5e8, time.UTC); v.Reason != "because" || !v.At.Equal(want) {
		t.Errorf("reason %q at %s, want %s", v.Reason, v.At, want)
	}
	if diff := cmp.Diff([]string{"code", "math"}, r.Categories); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
}

// A score of a single answer is a score; -1 says that the judge gave none.
func TestScores(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]Score{
		`{"question_id":81,"model":"m","judge":["gpt-4","single-v1"],"judgment":"Rating: [[7]]","score":7,"turn":1}`: {Judge: "gpt-4 single-v1", Value: 7, Reason: "Rating: [[7]]"},
		`{"question_id":81,"model":"m","judge":"j","score":-1}`:                                                      {Judge: "j", Value: -1, Skipped: "answers without a score"},
	} {
		r, err := Recognise(rowOf(t, row)).ReadRow(rowOf(t, row), Options{})
		if err != nil || r.Score == nil {
			t.Fatalf("%s: got %+v, %v", row, r, err)
		}
		if diff := cmp.Diff(want, *r.Score); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row, diff)
		}
	}
}

// A row that cannot be read names the field and what to write.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{"model_a":"x","model_b":"y"}`:                                                             "winner: the field is missing; add a column winner",
		`{"model_a":"x","model_b":"y","winner":"z"}`:                                                `winner: "z" is neither candidate; want model_a`,
		`{"model_a":"x","model_b":"y","winner":{}}`:                                                 "winner: the value is not a text",
		`{"model_a":"x","model_b":"","winner":"x"}`:                                                 "model_b: no name",
		`{"model_a":"x","model_b":"y","winner_model_a":"0.4","winner_model_b":"0.6"}`:               "predictions are not verdicts",
		`{"model_a":"x","model_b":"y","winner_model_a":1,"winner_model_b":true,"winner_tie":false}`: "there is another winner",
		`{"model":"m","games":[{"score":"A>C"}]}`:                                                   `score "A>C"; want A>>B`,
		`{"model":"m","games":[{"score":7}]}`:                                                       `score "7"`,
		`{"model":"m","games":"none"}`:                                                              "games: this is no list",
		`{"model":"","games":[]}`:                                                                   "model: no name",
		`{"model_1":"x","model_2":"y","g1_winner":"x","g2_winner":"tie"}`:                           `g1_winner: "x"; want model_1`,
		`{"generator_1":"x","generator_2":"y","preference":3}`:                                      "want a number from 1",
		`{"model":"m","score":"good"}`:                                                              `score: "good"; want a number`,
		`{"item":"q","candidate_a":"x","candidate_b":"y","anna":"yes"}`:                             `anna: "yes" is no vote`,
		`{"doc_id_1":"a","doc_id_2":"b","result":"a"}`:                                              "want first, second or tie",
		`{"doc_id_1":"a","doc_id_2":"b","winner_doc_id":"c"}`:                                       "is neither document",
	} {
		of := rowOf(t, row)
		format := Recognise(of)
		if format == "" {
			t.Fatalf("%s is not recognised", row)
		}
		_, err := format.ReadRow(of, Options{})
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", row, err, want)
		}
	}
	if got := Recognise(rowOf(t, `{"name":"essays","judges":[]}`)); got != "" {
		t.Errorf("an evaluation is recognised as %q", got)
	}
}

// No row makes the program fail, and what is read is complete: each verdict has an outcome or says why not.
func FuzzReadRow(f *testing.F) {
	for _, row := range []string{
		`{"model_a":"x","model_b":"y","winner":"model_b","judge":["a",1],"conversation_a":[{"role":"user","content":{}}],"conversation_b":[]}`,
		`{"model":"m","games":[null,{"score":"A>>B","judgment":{"answer":1}},{}],"category":[1]}`,
		`{"model_1":"x","model_2":"y","g1_winner":"tie","g2_winner":"error","tstamp":1e400}`,
		`{"generator_1":"x","generator_2":"y","preference":"NaN"}`,
		`{"item":"q","candidate_a":"x","candidate_b":"y","anna":"1"}`,
		`{"doc_id_1":"a","doc_id_2":"a","winner_doc_id":"a","answered_by":""}`,
		`{"model":"m","score":1e999}`,
	} {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var row Row
		if json.Unmarshal([]byte(text), &row) != nil {
			return
		}
		for _, format := range Formats {
			r, err := format.ReadRow(row, Options{})
			if err != nil {
				if strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("%s: %q has several lines", format, err)
				}
				continue
			}
			if r.Candidates[0] == "" || r.Score == nil && (r.Candidates[1] == "" || len(r.Verdicts) == 0) {
				t.Errorf("%s: got %+v without an error", format, r)
			}
			for _, v := range r.Verdicts {
				if v.Skipped == "" && v.Outcome == None && v.ByName == None {
					t.Errorf("%s: a verdict %+v without an outcome", format, v)
				}
			}
		}
		Recognise(row)
	})
}
