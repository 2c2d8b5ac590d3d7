package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// Run is the page of one run, with the content of `evalfleet show`. Its JSON is that of `show --json`.
type Run struct {
	*show.Run
	Part  `json:"-"`
	Short string      `json:"-"` // <phase>.<index>
	Facts []show.Fact `json:"-"`
}

// Title returns the title of the page.
func (r *Run) Title() string { return "Run " + r.Short + " of " + r.Part.Name }

// Fell returns the run's fallbacks to other models.
func (r *Run) Fell() []record.Fell {
	if r.Outcome == nil {
		return nil
	}
	return r.Outcome.Fell
}

// Pair returns the address of the run's pair; empty if it has none.
func (r *Run) Pair() string {
	if r.Kind != eval.KindPairwise {
		return ""
	}
	to := url.URL{Path: "/evaluations/" + string(r.Part.ID) + "/pairs", RawQuery: url.Values{"document": r.Documents}.Encode()}
	return to.String()
}

// Tasks returns the address of the page of tasks that contains the run's task; empty if there is no such task.
func (r *Run) Tasks() string {
	if r.Waits == nil || r.Waits.Task == nil {
		return ""
	}
	return queueLink(r.Queue, r.Waits.Task.State)
}

func (s *Server) run(r *http.Request) (*Run, error) {
	id := eval.ID(r.PathValue("id"))
	run, ok := eval.ParseShort(r.PathValue("run"))
	if !ok {
		return nil, badRequest("%q is not a run: want <phase>.<index>, such as 0.17", r.PathValue("run"))
	}

	from, err := s.source(r, id)
	if err != nil {
		return nil, err
	}
	if from.Results != nil {
		defer from.Results.Close()
	}
	e, err := show.Open(r.Context(), id, from)
	if errors.Is(err, results.ErrNoEvaluation) && from.Store != nil { // nothing is collected yet
		from.Results = nil
		e, err = show.Open(r.Context(), id, from)
	}

	switch {
	case errors.Is(err, results.ErrNoEvaluation), errors.Is(err, store.ErrNoEvaluation):
		return nil, fmt.Errorf("%w: no evaluation has this id", errNotFound)
	case err != nil:
		return nil, err
	}

	shown, err := e.Run(r.Context(), run.Phase, run.Index)
	if errors.Is(err, show.ErrUnknown) {
		return nil, fmt.Errorf("%w: %w", errNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	return &Run{Run: shown, Part: partOf(id, shown.Name, r), Short: run.Short(), Facts: shown.Facts(time.Now())}, nil
}

// source returns where an evaluation's runs can be read from: its results store, the Redis if it knows the evaluation,
// or both.
func (s *Server) source(r *http.Request, id eval.ID) (from show.Stores, err error) {
	if s.fleet != nil {
		var known error
		from.Record, known = s.cfg.Store.WithChoices(r.Context(), id)
		switch {
		case known == nil:
			from.Store, from.Limits = s.cfg.Store, s.cfg.Limits
		case s.cfg.Folder == nil && errors.Is(known, store.ErrNoEvaluation):
			return from, fmt.Errorf("%w: no evaluation has this id", errNotFound)
		case s.cfg.Folder == nil:
			return from, known
		}
	}
	from.Results, err = s.results(r.Context(), id)
	if err != nil && from.Store == nil {
		return from, noResults(err)
	}
	return from, nil
}
