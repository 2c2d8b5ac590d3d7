package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// answersOf writes a file with a model's answers to questions.
func answersOf(t *testing.T, dir, model string, questions ...string) string {
	t.Helper()
	text := ""
	for _, q := range questions {
		text += fmt.Sprintf(`{"question_id": %q, "question": "What is %s?", "model": %q, "answer": "%s by %s"}`+"\n", q, q, model, q, model)
	}
	path := filepath.Join(dir, model+".jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// boardOf returns a ranking of three models that answered three questions, in which all pairs have verdicts.
func boardOf(t *testing.T, dir string) Board {
	t.Helper()
	in, err := InputOf([]string{
		answersOf(t, dir, "a", "q1", "q2", "q3"), answersOf(t, dir, "b", "q1", "q2", "q3"), answersOf(t, dir, "d", "q1", "q2", "q3"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Load([]string{"simulator:careful"}, Options{Compare: Compare{Budget: "2"}})
	if err != nil {
		t.Fatal(err)
	}
	b := Board{Submission: s, Opponents: 2}
	for i, d := range s.Evaluation.Documents {
		for j, other := range s.Evaluation.Documents[:i] {
			if d.Item == other.Item {
				b.Pairs = append(b.Pairs, [2]int{j, i})
			}
		}
	}
	return b
}

func growBy(b Board, o Options, paths ...string) (Grown, error) {
	in, err := InputOf(paths)
	if err != nil {
		return Grown{}, err
	}
	return b.Grow(in, o)
}

// A newcomer joins the documents of a ranking, which keep their pairs. Judges, template and settings stay, limits of the
// evaluation become those of the new one, and what the newcomer has not answered is said.
func TestGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := boardOf(t, dir)
	b.Submission.Settings.Until, b.Submission.Settings.Limit = &record.Until{Top: 1}, 4
	b.History = []eval.Standing{{Evaluation: "ev-before"}}
	grown, err := growBy(b, Options{}, answersOf(t, dir, "c", "q1", "q3", "q9"))
	if err != nil {
		t.Fatal(err)
	}

	s := grown.Submission
	e, before := s.Evaluation, b.Submission.Evaluation
	if !slices.Equal(grown.Newcomers, []string{"c"}) || len(e.Documents) != 11 || len(before.Documents) != 9 || len(e.Items) != 3 {
		t.Fatalf("%v, %d documents of %d, %d items", grown.Newcomers, len(e.Documents), len(before.Documents), len(e.Items))
	}
	if p := e.Pairwise; p.Pairs.Mode != eval.PairsGrown || p.Pairs.Opponents != 2 || p.Order != eval.OrderBoth || p.Template != before.Pairwise.Template ||
		before.Pairwise.Pairs.Mode != eval.PairsAll {
		t.Errorf("pairs %+v, and before %+v", p.Pairs, before.Pairwise.Pairs)
	}
	if got := len(e.Pairwise.Pairs.Listed); got != 9 {
		t.Fatalf("%d recorded pairs, want 9", got)
	}
	for k, pair := range e.Pairwise.Pairs.Listed {
		was := b.Pairs[k]
		if e.Documents[pair[0]].ID != before.Documents[was[0]].ID || e.Documents[pair[1]].ID != before.Documents[was[1]].ID {
			t.Errorf("pair %d is of %s and %s", k, e.Documents[pair[0]].ID, e.Documents[pair[1]].ID)
		}
	}
	for _, d := range e.Documents {
		if s.Texts[d.Hash] == "" {
			t.Errorf("%s has no text", d.ID)
		}
	}
	if e.Board == nil || e.Board.Evaluation != before.ID() || len(e.Board.History) != 1 || e.ID() == before.ID() || !e.Grew("ev-before") {
		t.Errorf("grown from %+v", e.Board)
	}

	if s.Settings.Until != nil || s.Settings.Limit != 0 || b.Submission.Settings.Limit != 4 {
		t.Errorf("settings %+v", s.Settings)
	}
	if s.Settings.Budget() != 2*ratelimit.Dollar || slices.ContainsFunc(s.Settings.Limits, func(l ratelimit.Limit) bool {
		return l.Evaluation != "" && l.Evaluation != string(e.ID())
	}) {
		t.Errorf("limits %+v", s.Settings.Limits)
	}
	if text := strings.Join(s.Taken, "\n"); !strings.Contains(text, "c has no answer to 1 of 3 questions: q2") {
		t.Errorf("taken: %s", text)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Message, "answers to questions that the ranking does not have, which are left out: 1") {
		t.Errorf("warnings %v", s.Warnings)
	}

	again, err := growBy(b, Options{Compare: Compare{Budget: "3"}}, filepath.Join(dir, "c.jsonl"))
	if err != nil || again.Submission.Evaluation.ID() != e.ID() || again.Submission.Settings.Budget() != 3*ratelimit.Dollar {
		t.Errorf("the same with another budget: %v, %+v", err, again.Submission)
	}
}

// Answers are matched by their question where ids differ, and candidates that are in a ranking already are told apart by
// their answers.
func TestGrowMatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := boardOf(t, dir)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	grown, err := growBy(b, Options{}, write("e.jsonl", `{"question_id": "x1", "question": "What is q2?", "model": "e", "answer": "By its question."}`))
	if err != nil || !slices.ContainsFunc(grown.Submission.Evaluation.Documents, func(d eval.Document) bool {
		return d.ID == "q2/e" && grown.Submission.Evaluation.Items[d.Item].ID == "q2"
	}) {
		t.Errorf("by its question: %v, %+v", err, grown.Submission)
	}

	grown, err = growBy(b, Options{}, filepath.Join(dir, "a.jsonl"), answersOf(t, dir, "f", "q1"))
	if err != nil || !slices.Equal(grown.Known, []string{"a"}) || !slices.Equal(grown.Newcomers, []string{"f"}) {
		t.Errorf("one that is there and one that is not: %v, %+v", err, grown)
	}
	grown, err = growBy(b, Options{}, filepath.Join(dir, "a.jsonl"))
	if err != nil || grown.Submission != nil || !slices.Equal(grown.Known, []string{"a"}) {
		t.Errorf("one that is there: %v, %+v", err, grown)
	}

	for want, text := range map[string]string{
		`candidate "a" is in the ranking already, with other answers: 1 of 3 differ`: strings.Join([]string{
			`{"question_id": "q1", "model": "a", "answer": "q1 by a"}`, `{"question_id": "q2", "model": "a", "answer": "q2 by a"}`,
			`{"question_id": "q3", "model": "a", "answer": "Changed."}`}, "\n"),
		`candidate "b" is in the ranking already, with other answers: 0 of 1 differ, and the ranking has 3`: `{"question_id": "q1", "model": "b", "answer": "q1 by b"}`,
		`none of the answers is to a question of the ranking, such as "q1"`:                                 `{"question_id": "q7", "model": "g", "answer": "Of another test."}`,
	} {
		_, err := growBy(b, Options{}, write("wrong.jsonl", text))
		var problems Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) || problems[0].Fix == "" || problems[0].File == "" {
			t.Errorf("got %v, want %q with file and fix", err, want)
		}
	}
}

// Evaluations whose other parts could not stay as they are do not grow.
func TestGrowRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := answersOf(t, dir, "c", "q1")
	for want, change := range map[string]func(e *eval.Evaluation){
		"compares no pairs":            func(e *eval.Evaluation) { e.Pairwise = nil },
		"only the best by score":       func(e *eval.Evaluation) { e.Pairwise.TopN = 2 },
		"sees only some of the pairs":  func(e *eval.Evaluation) { e.Escalate = &eval.Escalate{} },
		"panel or listed runs":         func(e *eval.Evaluation) { e.Panel = &eval.Panel{} },
		"answer prompts of its file":   func(e *eval.Evaluation) { e.Answered = &eval.Answered{} },
		"verdicts were read from file": func(e *eval.Evaluation) { e.Given = &eval.Given{} },
		"its checks run commands":      func(e *eval.Evaluation) { e.Checks = []eval.Check{{Kind: eval.CheckCommand}} },
	} {
		b := boardOf(t, dir)
		change(b.Submission.Evaluation)
		if _, err := growBy(b, Options{}, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	b := boardOf(t, dir)
	b.Pairs = nil
	if _, err := growBy(b, Options{}, path); err == nil || !strings.Contains(err.Error(), "no verdict yet") {
		t.Errorf("without a verdict: %v", err)
	}

	b = boardOf(t, dir)
	b.Submission.Evaluation.Checks = []eval.Check{{Name: "no x", Kind: eval.CheckNotContains, Value: "by c", Gate: true}}
	grown, err := growBy(b, Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range grown.Submission.Evaluation.Documents {
		if failed := len(d.Failed) > 0; failed != (d.Candidate == "c") {
			t.Errorf("%s fails %v", d.ID, d.Failed)
		}
	}
}
