package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// Queues is the page of all queues of a fleet.
type Queues struct {
	Queues  []Queue `json:"queues"`
	Workers int     `json:"workers"` // alive
	Live    bool    `json:"live"`
}

// Tasks is the page of a queue's tasks in one state.
type Tasks struct {
	view.Tasks
	Live bool `json:"live"`
}

// Title returns the title of the page.
func (t *Tasks) Title() string { return "Queue " + t.Name }

// stateNames maps states of tasks to words.
var stateNames = map[string]string{
	"pending": "Waiting", "active": "Running", "retry": "Waiting to retry", "scheduled": "Scheduled",
	"completed": "Succeeded, kept", "archived": "Failed, kept",
}

// State is a state of tasks that the page of a queue links to.
type State struct {
	Name  string // asynq's
	Words string
	Count int
	Link  string
	Here  bool
}

// States returns the states of the queue's tasks, with the number of tasks in each.
func (t *Tasks) States() []State {
	var all []State
	for _, name := range view.TaskStates {
		all = append(all, State{name, stateNames[name], t.In(name), queueLink(t.Name, name), name == t.State})
	}
	return all
}

// Before returns the address of the previous page; empty: this is the first.
func (t *Tasks) Before() string { return t.pageLink(t.Page - 1) }

// After returns the address of the next page; empty: this is the last.
func (t *Tasks) After() string { return t.pageLink(t.Page + 1) }

func (t *Tasks) pageLink(page int) string {
	if page < 1 || page > t.Pages {
		return ""
	}
	return fmt.Sprintf("%s?page=%d", queueLink(t.Name, t.State), page)
}

// queueLink returns the address of the page of a queue's tasks in a state.
func queueLink(queue, state string) string { return "/queues/" + url.PathEscape(queue) + "/" + state }

// runLink returns the address of the page of a run.
func runLink(id eval.ID, short string) string {
	return "/evaluations/" + url.PathEscape(string(id)) + "/runs/" + url.PathEscape(short)
}

func (s *Server) queues(r *http.Request) (*Queues, error) {
	if s.fleet == nil {
		return nil, fmt.Errorf("%w: a folder has no queues", errNotFound)
	}
	listed, err := s.fleet.Queues(r.Context())
	if err != nil {
		return nil, err
	}
	all := &Queues{Queues: []Queue{}, Live: true}
	for _, q := range listed {
		all.Queues = append(all.Queues, queueOf(q))
	}
	all.Workers, err = s.fleet.WorkersAlive(r.Context())
	return all, err
}

func queueOf(q view.Queue) Queue { return Queue{Queue: q, Held: q.Retry + q.Scheduled} }

// tasks reads the page of a queue that an address names. Its twin, which keeps the page fresh, covers only the first
// page.
func (s *Server) tasks(r *http.Request) (*Tasks, error) {
	if s.fleet == nil {
		return nil, fmt.Errorf("%w: a folder has no queues", errNotFound)
	}
	state := r.PathValue("state")
	if !slices.Contains(view.TaskStates, state) {
		return nil, badRequest("state: got %q, want one of %v", state, view.TaskStates)
	}
	page, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("page"), "1"))
	if err != nil || page < 1 {
		return nil, badRequest("page: got %q, want a number from 1", r.URL.Query().Get("page"))
	}
	tasks, err := s.fleet.Tasks(r.Context(), r.PathValue("queue"), state, page)
	switch {
	case errors.Is(err, view.ErrNoQueue):
		return nil, fmt.Errorf("%w: %w", errNotFound, err)
	case err != nil:
		return nil, err
	}
	return &Tasks{*tasks, true}, nil
}
