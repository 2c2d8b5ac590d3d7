package web

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
)

// Overview is the list of evaluations, newest first. It, and what follows, is
// what a page shows and, as JSON, what the page's twin under /api says.
type Overview struct {
	Evaluations []Evaluation `json:"evaluations"`
	Workers     int          `json:"workers"` // alive
	Live        bool         `json:"live"`    // read from a Redis
}

// Evaluation is how one evaluation stands.
type Evaluation struct {
	ID          eval.ID       `json:"evaluation"`
	Name        string        `json:"name"`
	Status      record.Status `json:"status"`
	Created     time.Time     `json:"created"`
	Phases      []Phase       `json:"phases"`
	All         Phase         `json:"all"` // of all phases together
	Uncollected int           `json:"uncollected"`
	Paused      []string      `json:"paused_providers,omitempty"` // that the fleet does not call for it
	// BoundBy are the limits and cooldowns that its calls wait for now, in words.
	BoundBy string  `json:"bound_by"`
	Numbers Numbers `json:"numbers"`
	Pace    string  `json:"pace"` // in words: "56/s", "" when nothing ends
	Left    string  `json:"left"` // in words: "0:12"
}

// Numbers are what only an evaluation's results store knows; the words are empty
// where it cannot be read from here.
type Numbers struct {
	Calls    int            `json:"calls"`
	Cost     string         `json:"cost"`     // in words, also that it is unknown
	CostUSD  *float64       `json:"cost_usd"` // of the calls that have a price; null: unknown
	Unpriced int            `json:"calls_without_price"`
	Failed   string         `json:"failed"` // runs by error class, in words
	ByClass  map[string]int `json:"failed_by_class"`
	Classes  []string       `json:"classes"` // of ByClass, by name
}

// Phase says how far a phase has come.
type Phase struct {
	Kind      eval.Kind `json:"kind"`
	Runs      int       `json:"runs"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Cancelled int       `json:"cancelled"`
	Done      int       `json:"done"`
	Bar       Bar       `json:"bar"`
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
	Actions   []string   `json:"actions"`  // that make sense now; none where nobody may act
}

// Title is the page's.
func (d *Detail) Title() string { return d.Name }

// Queue is what asynq holds of a queue, which evaluations may share.
type Queue struct {
	Name      string `json:"name"`
	Pending   int    `json:"pending"`
	Active    int    `json:"active"`
	Retry     int    `json:"retry"` // held back, and scheduled
	Completed int    `json:"completed"`
	Archived  int    `json:"archived"`
	Paused    bool   `json:"paused"`
}

// Limit is how much of a limit is used.
type Limit struct {
	ID      string `json:"id"`
	Words   string `json:"words"`
	InUse   string `json:"in_use"` // of the bound, or when a rate admits the next call
	Share   int    `json:"share"`  // in use, in percent
	Waiting int    `json:"waiting"`
	// Binds: calls wait for it now. State says so, and what else is to be known.
	Binds bool   `json:"binds"`
	State string `json:"state"`
	// PinnedBy are evaluations, and workers as worker/<id>; Pinned is the same in
	// words.
	PinnedBy []string `json:"pinned_by"`
	Pinned   string   `json:"pinned"`
}

// Cooldown is a scope whose calls are held back, as its provider asked for.
type Cooldown struct {
	ID    string  `json:"id"`
	Words string  `json:"words"`
	Why   string  `json:"why"`
	Left  string  `json:"left"` // in words
	LeftS float64 `json:"left_s"`
}

// Limits is the page of all limits in force.
type Limits struct {
	Limits    []Limit    `json:"limits"`
	Cooldowns []Cooldown `json:"cooldowns"`
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

// sum completes an evaluation's phases and adds them up.
func (e *Evaluation) sum() {
	e.All = Phase{}
	for i := range e.Phases {
		p := &e.Phases[i]
		p.complete()
		e.All.Runs += p.Runs
		e.All.Succeeded += p.Succeeded
		e.All.Failed += p.Failed
		e.All.Cancelled += p.Cancelled
	}
	e.All.complete()
}

func (p *Phase) complete() {
	p.Done = p.Succeeded + p.Failed + p.Cancelled
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

// Link is asynqmon's page of the queue.
func (q Queue) Link() string { return QueuesPath + "/queues/" + url.PathEscape(q.Name) }

// Link is asynqmon's page of the failed run's task, or "".
func (f Failure) Link() string {
	if f.Task == "" {
		return ""
	}
	return taskLink(f.Queue, f.Task)
}

// taskLink is asynqmon's page of a task.
func taskLink(queue, id string) string {
	return Queue{Name: queue}.Link() + "/tasks/" + url.PathEscape(id)
}

// Between is the failed run's documents in words.
func (f Failure) Between() string { return strings.Join(f.Documents, " – ") }

// now is the time of a page.
func now() string { return time.Now().UTC().Format("15:04:05 UTC") }

// Doable are the actions in one word, by which a page sees that they have changed.
func (d *Detail) Doable() string { return strings.Join(d.Actions, ",") }

// Kinds are the error classes likewise.
func (n Numbers) Kinds() string { return strings.Join(n.Classes, ",") }
