package web

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Prompts are named by their own ids on every page, and have answers of models: no line of a file stands for one, and
// no column calls an answer a reason or a model a judge.
func TestPagesOfPrompts(t *testing.T) {
	t.Parallel()
	plan := &eval.Evaluation{PlanVersion: eval.PlanVersion, Name: "capitals", Items: []eval.Item{{}}, Prompts: &eval.Prompts{
		Format: eval.PromptsExperiment, Models: []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
	}}
	texts := map[string]string{}
	for k, id := range []string{"of-france", "of-chad"} {
		text := `{"id": "` + id + `", "api": "test", "prompt": "?"}`
		texts[eval.TextHash(text)] = text
		plan.Prompts.Rows = append(plan.Prompts.Rows, eval.Document{ID: "line " + string(rune('1'+k)), Hash: eval.TextHash(text), Bytes: len(text)})
		plan.Prompts.List = append(plan.Prompts.List, eval.Prompt{ID: id, Row: k})
	}
	answered := record.Run{
		Kind: eval.KindPrompts, Name: "of-france", State: eval.StateSucceeded.String(), Queue: "p", Judge: "p:m", Model: "p:m", AnsweredBy: "p:m",
		Documents: []string{"line 1"}, Candidates: []string{""}, Trial: 1, Answer: "Paris.", Started: time.Unix(1, 0), Ended: time.Unix(2, 0),
	}
	failed := answered
	failed.Index, failed.Name, failed.State, failed.Documents, failed.Answer = 1, "of-chad", eval.StateFailed.String(), []string{"line 2"}, ""
	failed.AnsweredBy, failed.Class, failed.Error = "", "timeout", "no answer"

	path := filepath.Join(t.TempDir(), "results.db")
	db, err := results.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	e := results.Evaluation{ID: plan.ID(), Plan: plan, Created: time.Unix(0, 0), Phases: []record.Phase{{Kind: eval.KindPrompts, Runs: 2}}}
	var all iter.Seq2[string, string] = func(yield func(string, string) bool) {
		for hash, text := range texts {
			if !yield(hash, text) {
				return
			}
		}
	}
	err = db.PutEvaluation(t.Context(), e, all)
	if err = errors.Join(err, db.Append(t.Context(), e.ID, []record.Entry{{Run: &answered}, {Run: &failed}}), db.Close()); err != nil {
		t.Fatal(err)
	}

	folder := &Folder{
		Open:   func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, path) },
		Status: func(results.Listed) record.Status { return "interrupted" },
	}
	open := func(ctx context.Context, _ eval.ID) (results.Reader, error) { return folder.Open(ctx) }
	s := &site{t: t, server: httptest.NewServer(New(Config{Folder: folder, Results: open, Log: zerolog.Nop()}))}
	t.Cleanup(s.server.Close)
	of := "/evaluations/" + string(e.ID)
	for page, want := range map[string][]string{
		of + "/results": {`">Prompt</th>`, `">Model</th>`, `>Answer</th>`, "of-france", "of-chad", "Paris."},
		of:              {`">Model</th>`, "of-chad"},
		of + "/report":  {`">model</th>`, `">prompt</th>`, "of-chad"},
	} {
		got, text := s.ask(http.MethodGet, page)
		for _, words := range want {
			if got.code != http.StatusOK || !strings.Contains(text, words) {
				t.Errorf("%s answers %d without %q:\n%.3000s", page, got.code, words, text)
			}
		}
		for _, words := range []string{"line 1", "line 2", ">Judge<", ">Reason<", ">judge<"} {
			if strings.Contains(text, words) {
				t.Errorf("%s has %q", page, words)
			}
		}
	}
}
