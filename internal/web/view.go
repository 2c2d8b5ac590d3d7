package web

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// Overview is the list of evaluations, newest first. Overview and the types below are the data of a page and, as JSON,
// of its twin under /api: that of `status --json` and `limits --json`, with words.
type Overview struct {
	Evaluations []Evaluation `json:"evaluations"`
	Workers     int          `json:"workers"` // alive
	Live        bool         `json:"live"`    // read from a Redis
}

// Evaluation describes the progress of an evaluation.
type Evaluation struct {
	view.Evaluation
	Phases []Phase `json:"phases"`
	All    Phase   `json:"all"` // all phases together
	Shown  Shown   `json:"shown"`
}

// Shown holds an evaluation's numbers in words; empty if they are unknown.
type Shown struct {
	BoundBy string   `json:"bound_by"`
	Batches string   `json:"batches"` // at the provider
	Pace    string   `json:"pace"`    // "56/s"
	Left    string   `json:"left"`    // "0:12"
	Cost    string   `json:"cost"`    // may say that the cost is unknown
	Failed  string   `json:"failed"`  // runs by error class
	Classes []string `json:"classes"` // of failed runs, by name
	Result  string   `json:"result"`  // who won
	Trust   string   `json:"trust"`   // whether the judges can be relied on, beginning with the level
	Level   string   `json:"level"`   // of trust: unknown, sound, caution or unsound
	Stopped string   `json:"stopped"` // why the fleet stopped it before all its runs had ended
	Report  bool     `json:"report"`  // a controller is known to have written one
}

// Phase describes the progress of a phase.
type Phase struct {
	view.Phase
	Done int `json:"done"`
	Bar  Bar `json:"bar"`
}

// Bar is a phase's progress, in percent of its runs.
type Bar struct {
	Succeeded float64 `json:"succeeded"`
	Failed    float64 `json:"failed"`
	Cancelled float64 `json:"cancelled"`
	FailedAt  float64 `json:"failed_at"` // where the failed runs begin
	CancelAt  float64 `json:"cancelled_at"`
	Percent   int     `json:"percent"` // 100 only when all have ended
}

// Detail is one evaluation's page.
type Detail struct {
	Evaluation
	Live      bool       `json:"live"`
	Workers   int        `json:"workers"`
	Queues    []Queue    `json:"queues"`
	Limits    []Limit    `json:"limits"`
	Cooldowns []Cooldown `json:"cooldowns"`
	Failures  []Failure  `json:"failures"` // the last failures, newest first
	Report    bool       `json:"report"`   // can be made here
	Actions   []string   `json:"actions"`  // those possible now; none if no actions are allowed
	Vote      bool       `json:"-"`        // the user may vote
}

// Title returns the title of the page.
func (d *Detail) Title() string { return d.Name }

// Queue counts the tasks of a queue, which evaluations may share.
type Queue struct {
	view.Queue
	Held int `json:"held"` // to be retried, and scheduled
}

// Limit is a limit and how much of it is used.
type Limit struct {
	view.Limit
	Shown ShownLimit `json:"shown"`
}

// ShownLimit holds a limit's numbers in words.
type ShownLimit struct {
	InUse  string `json:"in_use"` // how much is in use, or when a rate admits the next call
	Share  int    `json:"share"`  // in use, in percent
	State  string `json:"state"`  // whether it binds or is cut, and when it resets
	Pinned string `json:"pinned"` // by which evaluations and workers
}

// Cooldown is a scope whose calls are in cooldown, at its provider's request.
type Cooldown struct {
	view.Cooldown
	Left string `json:"left"` // in words
}

// Limits is the page of all limits in force.
type Limits struct {
	Limits    []Limit    `json:"limits"`
	Cooldowns []Cooldown `json:"cooldowns"`
	HeldBy    string     `json:"held_by"` // what else prevents calls from starting
	Workers   int        `json:"workers"`
	Live      bool       `json:"live"`
}

// Failure is a run that failed.
type Failure struct {
	Run       string    `json:"run"`
	Model     string    `json:"model"`
	Documents []string  `json:"documents"`
	Known     []string  `json:"-"`     // Documents by the names that people know
	Error     string    `json:"error"` // with its class
	At        time.Time `json:"at"`
	Queue     string    `json:"queue"`
	Task      string    `json:"task,omitempty"` // asynq's ID; empty if there is no asynq
}

const failuresShown = 10

// Pairwise reports whether pairs are compared.
func (e *Evaluation) Pairwise() bool {
	return slices.ContainsFunc(e.Phases, func(p Phase) bool { return p.Kind == eval.KindPairwise })
}

// shown adds sums, bars and words to an evaluation.
func shown(e view.Evaluation) Evaluation {
	of := Evaluation{Evaluation: e, Phases: []Phase{}}
	rate := 0.0
	for _, p := range e.Phases {
		phase := Phase{Phase: p}
		phase.complete()
		of.Phases = append(of.Phases, phase)
		of.All.Runs += p.Runs
		of.All.Succeeded += p.Succeeded
		of.All.Failed += p.Failed
		of.All.Cancelled += p.Cancelled
		if p.RatePerS != nil && p.LeftS != nil {
			rate += *p.RatePerS
		}
	}

	of.All.complete()
	of.Shown = Shown{
		BoundBy: strings.Join(e.BoundBy, "; "), Failed: view.ClassesText(e.Classes),
		Classes: append([]string{}, slices.Sorted(maps.Keys(e.Classes))...),
	}
	if e.Batches != nil {
		of.Shown.Batches = e.Batches.String()
	}
	of.showResult()
	if e.Stopped != nil {
		of.Shown.Stopped = e.Stopped.String()
		if remedy := e.Stopped.Remedy(); remedy != "" {
			of.Shown.Stopped += "; " + remedy
		}
	}

	if rate > 0 {
		of.Shown.Pace, of.Shown.Left = pace(rate), clock(view.Seconds(float64(of.All.Runs-of.All.Done)/rate))
	}
	if u := e.Used; u != nil && u.Calls+u.FromCache > 0 {
		of.Shown.Cost = u.Cost()
	}
	return of
}

// showResult puts the result of an evaluation, if it has one, into words.
func (e *Evaluation) showResult() {
	r := e.Result
	if r == nil {
		return
	}
	e.Shown.Result, e.Shown.Report = r.Headline, !r.Elsewhere
	if r.Reliance != nil {
		e.Shown.Trust, e.Shown.Level = r.Reliance.Line(), r.Reliance.Level
	}
}

// pace writes runs per second.
func pace(perSecond float64) string {
	if perSecond >= 0.5 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.1f/min", 60*perSecond)
}

// clock writes a duration as m:ss, or h:mm:ss.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second).Seconds())
	if seconds < 3600 {
		return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

func (p *Phase) complete() {
	p.Done = p.Succeeded + p.Failed
	if p.Runs == 0 {
		return
	}
	share := func(n int) float64 { return math.Round(1e4*float64(n)/float64(p.Runs)) / 100 }
	p.Bar = Bar{
		Succeeded: share(p.Succeeded), Failed: share(p.Failed), Cancelled: share(p.Cancelled),
		FailedAt: share(p.Succeeded), CancelAt: share(p.Succeeded + p.Failed),
		Percent: 100 * p.Done / p.Runs,
	}
}

// Link returns the address of the page of the queue's tasks in a state.
func (q Queue) Link(state string) string { return queueLink(q.Name, state) }

// Between returns the failed run's documents as text.
func (f Failure) Between() string { return strings.Join(f.Known, " – ") }

// now returns the current time as pages show it.
func now() string { return time.Now().UTC().Format("15:04:05 UTC") }

// Doable returns the actions as one word, so that a page can detect changes.
func (d *Detail) Doable() string { return strings.Join(d.Actions, ",") }

// Kinds returns the error classes as one word, so that a page can detect changes.
func (s Shown) Kinds() string { return strings.Join(s.Classes, ",") }
