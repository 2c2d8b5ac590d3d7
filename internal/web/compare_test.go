package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// twoRanked serves two evaluations with the same results; s.done and s.idle are their ids.
func twoRanked(t *testing.T) *site {
	t.Helper()
	at := filepath.Join(t.TempDir(), "results.db")
	e, texts, entries := compared()
	other := e
	other.ID = "ev-2bcdefgh2345"
	db, err := results.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []results.Evaluation{e, other} {
		err = errors.Join(err, db.PutEvaluation(t.Context(), one, maps.All(texts)), db.Append(t.Context(), one.ID, entries))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, at) }
	s := &site{t: t, done: e.ID, idle: other.ID, server: httptest.NewServer(New(Config{
		Folder:  &Folder{Open: open, Status: func(results.Listed) record.Status { return "interrupted" }},
		Results: func(ctx context.Context, _ eval.ID) (results.Reader, error) { return open(ctx) }, Log: zerolog.Nop(),
	}))}
	t.Cleanup(s.server.Close)
	return s
}

// comparison returns the address of the comparison of both evaluations.
func (s *site) comparison() string {
	return "/compare?evaluation=" + string(s.done) + "&evaluation=" + string(s.idle)
}

// The list offers two evaluations with a ranking for a comparison, whose page links to their reports.
func TestEvaluationsAreCompared(t *testing.T) {
	t.Parallel()
	s := twoRanked(t)
	_, list := s.ask(http.MethodGet, "/")
	for _, want := range []string{`<form action="/compare"`, `<option value="` + string(s.done) + `"`, `<option value="` + string(s.idle) + `"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %s", want)
		}
	}
	got, page := s.ask(http.MethodGet, s.comparison())
	if got.code != http.StatusOK || got.header.Get("Content-Security-Policy") != report.Policy()+reportPolicy {
		t.Fatalf("the comparison answers %d with the policy %q", got.code, got.header.Get("Content-Security-Policy"))
	}
	for _, want := range []string{
		"2 evaluations side by side", `<a href="evaluations/` + string(s.done) + `/report">`, `<a href="evaluations/` + string(s.idle) + `/report">`,
		`<a class="brand" href="/"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the comparison has no %s", want)
		}
	}

	for query, want := range map[string]int{
		"": http.StatusBadRequest, "?evaluation=" + string(s.done): http.StatusBadRequest, "?a=b": http.StatusBadRequest,
		"?evaluation=" + string(s.done) + "&evaluation=" + string(s.done): http.StatusBadRequest,
	} {
		if got, _ := s.ask(http.MethodGet, "/compare"+query); got.code != want {
			t.Errorf("/compare%s answers %d, want %d", query, got.code, want)
		}
	}
}

// A list with one evaluation offers no comparison.
func TestOneEvaluationIsNotCompared(t *testing.T) {
	t.Parallel()
	e, texts, entries := compared()
	s := explored(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries)
	if _, list := s.ask(http.MethodGet, "/"); strings.Contains(list, "/compare") {
		t.Error("one evaluation is offered for a comparison")
	}
}
