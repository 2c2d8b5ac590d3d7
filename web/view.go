package web

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/view"
)

// Overview is the list of evaluations, newest first. It, and the types below, are the data of a
// page and, as JSON, of its twin under /api: that of `status --json` and `limits --json`, with
// words.
type Overview struct {
	Evaluations []Evaluation `json:"evaluations"`
	Workers     int          `json:"workers"` // alive
	Live        bool         `json:"live"`    // read from a Redis
}

// Evaluation says how far an evaluation is.
type Evaluation struct {
	view.Evaluation
	Phases []Phase `json:"phases"`
	All    Phase   `json:"all"` // all phases together
	Shown  Shown   `json:"shown"`
}

// Shown are an evaluation's numbers in words; empty where they are unknown.
type Shown struct {
	BoundBy string   `json:"bound_by"`
	Pace    string   `json:"pace"`    // "56/s"
	Left    string   `json:"left"`    // "0:12"
	Cost    string   `json:"cost"`    // also that it is unknown
	Failed  string   `json:"failed"`  // runs by error class
	Classes []string `json:"classes"` // of failed runs, by name
	Result  string   `json:"result"`  // who won
	Trust   string   `json:"trust"`   // whether the judges can be relied on
	Level   string   `json:"level"`   // of trust: unknown, sound, caution or unsound
	Stopped string   `json:"stopped"` // why the fleet stopped it before all its runs had ended
	Report  bool     `json:"report"`  // it is known that a controller has written one
}

// Phase says how far a phase is.
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
	FailedAt  float64 `json:"failed_at"` // where the failed ones begin
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
	Failures  []Failure  `json:"failures"` // the last ones, newest first
	Report    bool       `json:"report"`   // can be made here
	Actions   []string   `json:"actions"`  // that make sense now; none if no actions are allowed
}

// Title is the page's.
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

// ShownLimit are a limit's numbers in words.
type ShownLimit struct {
	InUse  string `json:"in_use"` // of the bound, or when a rate admits the next call
	Share  int    `json:"share"`  // in use, in percent
	State  string `json:"state"`  // that it binds, is cut, and when it resets
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
	HeldBy    string     `json:"held_by"` // what else keeps calls from starting
	Workers   int        `json:"workers"`
	Live      bool       `json:"live"`
}

// Failure is a run that failed.
type Failure struct {
	Run       string    `json:"run"`
	Model     string    `json:"model"`
	Documents []string  `json:"documents"`
	Error     string    `json:"error"` // with its class
	At        time.Time `json:"at"`
	Queue     string    `json:"queue"`
	Task      string    `json:"task,omitempty"` // asynq's id; empty where there is no asynq
}

// failuresShown is how many of the last failures a page shows.
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
	of.Shown = Shown{BoundBy: strings.Join(e.BoundBy, "; "), Failed: view.ClassesText(e.Classes), Classes: append([]string{}, slices.Sorted(maps.Keys(e.Classes))...)}
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
		e.Shown.Trust, e.Shown.Level = r.Reliance.Text, r.Reliance.Level
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

// Link is the page of the queue's tasks in a state.
func (q Queue) Link(state string) string { return queueLink(q.Name, state) }

// Between is the failed run's documents in words.
func (f Failure) Between() string { return strings.Join(f.Documents, " – ") }

// now is the time of a page.
func now() string { return time.Now().UTC().Format("15:04:05 UTC") }

// Doable are the actions in one word, by which a page sees that they have changed.
func (d *Detail) Doable() string { return strings.Join(d.Actions, ",") }

// Kinds are the error classes likewise.
func (s Shown) Kinds() string { return strings.Join(s.Classes, ",") }
