package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// explorer adds the pages of an evaluation's recorded runs, of its pairs, and of one run. They
// show the state at the time of the request, and no script refreshes them: text does not move
// while it is read.
func (s *Server) explorer(routes *http.ServeMux) {
	routes.HandleFunc("GET /evaluations/{id}/results", still(s, "results", s.found))
	routes.HandleFunc("GET /evaluations/{id}/pairs", still(s, "pairs", s.pairs))
	routes.HandleFunc("GET /evaluations/{id}/pairs/{pair}", s.pairPage)
	routes.HandleFunc("GET /api/evaluations/{id}/pairs/{pair}", api(s, s.pair))
	routes.HandleFunc("GET /evaluations/{id}/runs/{run}", still(s, "run", s.run))
	routes.HandleFunc("GET /api/evaluations/{id}/results", api(s, s.found))
	routes.HandleFunc("GET /api/evaluations/{id}/pairs", api(s, s.pairs))
	routes.HandleFunc("GET /api/evaluations/{id}/runs/{run}", api(s, s.run))
}

// Part holds what the pages of an evaluation's results have in common.
type Part struct {
	ID   eval.ID `json:"evaluation"`
	Name string  `json:"name"`
	Twin string  `json:"-"` // the page's own twin under /api, with its query
}

func partOf(id eval.ID, name string, r *http.Request) Part {
	twin := url.URL{Path: "/api" + r.URL.Path, RawQuery: r.URL.RawQuery}
	return Part{ID: id, Name: name, Twin: twin.String()}
}

// asked opens an evaluation's results store and reads what the evaluation asks. The caller
// closes the results store.
func (s *Server) asked(ctx context.Context, id eval.ID) (results.Reader, results.Evaluation, error) {
	reader, err := s.results(ctx, id)
	if err != nil {
		return nil, results.Evaluation{}, noResults(err)
	}
	e, err := reader.Evaluation(ctx, id)
	if errors.Is(err, results.ErrNoEvaluation) {
		err = fmt.Errorf("%w: no result of an evaluation with this id has been collected yet", errNotFound)
	}
	if err != nil {
		_ = reader.Close()
		return nil, results.Evaluation{}, err
	}
	return reader, e, nil
}

// patience is how long a page keeps searching for runs. One search examines a limited number.
const patience = time.Second

// search searches until the page is full, nothing is left, or patience has passed.
func search(ctx context.Context, reader results.Reader, id eval.ID, s results.Search) (results.Page, error) {
	var all results.Page
	for most, began := s.Most, time.Now(); ; {
		page, err := reader.Search(ctx, id, s)
		if err != nil {
			return results.Page{}, err
		}
		all.Runs, all.Next = append(all.Runs, page.Runs...), page.Next
		if page.Next == nil || len(all.Runs) == most || time.Since(began) >= patience {
			return all, nil
		}
		s.After, s.Most = page.Next, most-len(all.Runs)
	}
}

// Results is a page of runs.
type Results struct {
	Part
	Runs []Result `json:"runs"`
	// Count is the number of matches counted; on the first page alone.
	Count *Count `json:"count,omitempty"`
	Next  string `json:"next,omitempty"` // value of the next page's parameter "after"; empty: this is the last page

	Query Query `json:"-"`
	Full  bool  `json:"-"` // otherwise the search for more continues
	Lists lists `json:"-"`
}

// Count is a number of runs. If it is not exact, there may be more.
type Count struct {
	Runs  int  `json:"runs"`
	Exact bool `json:"exact"`
}

// Result is a recorded run with its outcome.
type Result struct {
	ID string `json:"id"` // <phase>.<index>
	record.Run
	Order string `json:"order,omitempty"` // of a pair
	Used  Used   `json:"used"`

	degrees int // that a verdict of the evaluation can have
}

// Better returns by how much the winner is better, such as "much better"; empty without degrees.
func (r Result) Better() string { return eval.DegreeWord(r.Degree, r.degrees) }

// ByCriterion returns the verdicts by criterion as sentences without a full stop, such as "style: x wins, much better".
func (r Result) ByCriterion() (said []string) {
	for _, c := range r.Criteria {
		words := harmless.Line(c.Criterion) + ": "
		if c.Winner == eval.Tie {
			said = append(said, words+"tie")
			continue
		}
		words += named(r.Item, c.Winner) + " wins"
		if better := eval.DegreeWord(c.Degree, r.degrees); better != "" {
			words += ", " + better
		}
		said = append(said, words)
	}
	return said
}

// Used is what a run's calls have used.
type Used struct {
	Calls     int     `json:"calls"`
	FromCache int     `json:"from_cache,omitempty"`
	Input     int64   `json:"input_tokens"`
	Output    int64   `json:"output_tokens"`
	CostUSD   float64 `json:"cost_usd"`           // total of the calls with known cost
	Unpriced  int     `json:"unpriced,omitempty"` // number of calls, possibly charged, without a known cost
}

// lists holds the choices that the form offers.
type lists struct{ Kinds, Judges, States []string }

// Heads returns the heads of columns whose meaning depends on the kinds of an evaluation's runs.
func (l lists) Heads() (heads struct{ Shown, Asked, Why string }) {
	listed := func(kind string) bool { return kind == string(eval.KindRuns) || kind == string(eval.KindPrompts) }
	switch {
	case !slices.ContainsFunc(l.Kinds, listed):
		heads.Shown, heads.Asked, heads.Why = "Documents", "Judge", "Reason"
	case slices.Equal(l.Kinds, []string{string(eval.KindRuns)}):
		heads.Shown, heads.Asked, heads.Why = "Files", "Model", "Answer"
	case slices.Equal(l.Kinds, []string{string(eval.KindPrompts)}):
		heads.Shown, heads.Asked, heads.Why = "Prompt", "Model", "Answer"
	default:
		heads.Shown, heads.Asked, heads.Why = "Documents", "Judge or model", "Reason or answer"
	}
	return heads
}

// Title returns the title of the page.
func (r *Results) Title() string { return "Results of " + r.Name }

func (s *Server) found(r *http.Request) (*Results, error) {
	q, err := parse(r, everything)
	if err != nil {
		return nil, err
	}
	ctx, id := r.Context(), eval.ID(r.PathValue("id"))
	reader, e, err := s.asked(ctx, id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	of := &Results{Part: partOf(id, e.Plan.Name, r), Runs: []Result{}, Query: q, Lists: listsOf(e)}
	if q.Judge != "" && !slices.Contains(of.Lists.Judges, q.Judge) {
		return nil, badRequest("judge: unknown judge %q; want one of %s", q.Judge, strings.Join(of.Lists.Judges, ", "))
	}
	asks := narrowed(e.Plan, q.Search)
	page, err := search(ctx, reader, id, asks)
	if err != nil {
		return nil, err
	}

	for _, row := range page.Runs {
		results.WriteCriteria(e.Plan, &row.Run)
		of.Runs = append(of.Runs, resultOf(e, row))
	}
	of.Full = len(page.Runs) == q.Most
	if page.Next != nil {
		of.Next = cursor(page.Next, q.Newest)
	}
	if q.After != nil {
		return of, nil
	}
	of.Count = &Count{len(page.Runs), true}
	if page.Next != nil {
		of.Count.Runs, of.Count.Exact, err = reader.SearchCount(ctx, id, asks.Filter)
	}
	return of, err
}

// narrowed replaces a candidate with a single document by that document, which an index finds.
func narrowed(e *eval.Evaluation, s results.Search) results.Search {
	if s.Candidate == "" || len(s.Documents) > 0 || len(e.Documents) == 0 {
		return s
	}
	var of []string
	for _, d := range e.Documents {
		if d.Candidate == s.Candidate {
			of = append(of, d.ID)
		}
	}
	if len(of) == 1 {
		s.Documents = of
	}
	return s
}

func resultOf(e results.Evaluation, row results.RunRow) Result {
	r := Result{ID: row.RunID(e.ID).Short(), Run: row.Run, Used: Used{
		Calls: row.Used.Calls, FromCache: row.Used.FromCache, Input: row.Used.Input, Output: row.Used.Output,
		CostUSD: row.Used.CostUSD, Unpriced: row.Used.Unpriced,
	}}
	if r.Kind == eval.KindPairwise {
		r.Order = results.OrderForward
		if r.Documents[0] > r.Documents[1] {
			r.Order = results.OrderReverse
		}
		r.degrees = e.Plan.Pairwise.Degrees
	}
	return r
}

func listsOf(e results.Evaluation) (l lists) {
	for _, phase := range e.Phases {
		if slices.Contains(l.Kinds, string(phase.Kind)) {
			continue
		}
		l.Kinds = append(l.Kinds, string(phase.Kind))
		for _, judge := range e.Plan.JudgesOf(phase.Kind) {
			if !slices.Contains(l.Judges, judge.Name) {
				l.Judges = append(l.Judges, judge.Name)
			}
		}
	}
	l.States = []string{eval.StateSucceeded.String(), eval.StateFailed.String(), eval.StateCancelled.String()}
	return l
}
