package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// Actions control an evaluation as the commands of the same names do. Each returns a sentence that describes the
// result. Errors are texts for people, too.
type Actions interface {
	Pause(context.Context, eval.ID) (string, error)
	Resume(context.Context, eval.ID) (string, error)
	Cancel(context.Context, eval.ID) (string, error)
	// Retry retries failed runs: those with one of the error classes, or all if there are none.
	Retry(ctx context.Context, id eval.ID, classes []string) (string, error)
}

// The actions on an evaluation; also the last part of their paths.
const (
	doPause  = "pause"
	doResume = "resume"
	doCancel = "cancel"
	doRetry  = "retry"
)

// actTime is how long an action may take, even if the viewer no longer waits for it.
const actTime = 30 * time.Second

// formTime is how long a form may take to arrive.
const formTime = 10 * time.Second

// can returns the actions that make sense for the evaluation.
func (e Evaluation) can() []string {
	var can []string
	switch {
	case e.Status == record.StatusPaused || e.Status == view.StatusStopped || len(e.Paused) > 0:
		can = append(can, doResume)
	case e.Status == record.StatusActive:
		can = append(can, doPause)
	}
	if e.Status == record.StatusActive || e.Status == record.StatusPaused {
		can = append(can, doCancel)
	}
	if e.All.Failed > 0 && e.Status != record.StatusCancelled {
		can = append(can, doRetry)
	}
	return can
}

// readForm reads the form of a request, which is bounded in size and time. If it cannot be read, readForm responds with an
// error and returns false.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	wire := http.NewResponseController(w)
	_ = wire.SetReadDeadline(time.Now().Add(formTime))
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return false
	}
	_ = wire.SetReadDeadline(time.Time{})
	return true
}

// act performs a form's action and redirects to the evaluation's page, which shows the result.
// guard has ruled out forms sent by another site's page.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	if !s.mayAct(r) {
		refuseActions(w, r)
		return
	}
	id, action := eval.ID(r.PathValue("id")), r.PathValue("action")
	if !readForm(w, r) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTime)
	defer cancel()
	var said string
	var err error
	switch action {
	case doPause:
		said, err = s.cfg.Actions.Pause(ctx, id)
	case doResume:
		said, err = s.cfg.Actions.Resume(ctx, id)
	case doCancel:
		said, err = s.cfg.Actions.Cancel(ctx, id)
	case doRetry:
		classes := r.PostForm["class"]
		if r.PostForm.Get("class") == "" {
			classes = nil
		}
		said, err = s.cfg.Actions.Retry(ctx, id, classes)
	default:
		s.fail(w, r, errNotFound)
		return
	}

	who, _ := r.Context().Value(user{}).(string)
	s.cfg.Log.Info().Str("evaluation", string(id)).Str("action", action).Str("user", who).AnErr("err", err).Msg("requested on the pages")
	result := note{Text: said}
	if err != nil {
		result = note{Text: err.Error(), Bad: true}
	}
	http.Redirect(w, r, "/evaluations/"+url.PathEscape(string(id))+"?said="+s.notes.keep(result), http.StatusSeeOther)
}

// refuseActions answers if no actions are allowed.
func refuseActions(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "these pages are read-only: they run without --allow-actions, or your account has the role viewer", http.StatusForbidden)
}

// askCancel returns the data of the page that asks to confirm a cancellation, the one action that cannot be undone.
func (s *Server) askCancel(r *http.Request) (*Detail, error) {
	if !s.mayAct(r) {
		return nil, fmt.Errorf("%w: these pages are read-only", errNotFound)
	}
	return s.evaluation(r)
}

// note is the result of an action.
type note struct {
	Text string
	Bad  bool
}

// notes keeps the results of actions for a short time, under names that only their reader gets, so that no link can put
// words onto a page.
type notes struct {
	mu sync.Mutex // guards of
	of map[string]keptNote
}

type keptNote struct {
	note
	until time.Time
}

// noteTime is how long the result of an action can be read.
const noteTime = 5 * time.Minute

func (n *notes) keep(what note) (name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for old, of := range n.of {
		if now.After(of.until) {
			delete(n.of, old)
		}
	}
	name = rand.Text()
	n.of[name] = keptNote{what, now.Add(noteTime)}
	return name
}

// read returns the note with a name, or nil if there is none.
func (n *notes) read(name string) *note {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of, ok := n.of[name]; ok {
		return &of.note
	}
	return nil
}
