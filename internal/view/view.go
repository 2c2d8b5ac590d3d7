// Package view reads the state of a fleet or of a folder's results for display: the
// evaluations' progress and usage, the limits in force and which of them bind. Its types are
// the JSON of `status` and `limits`, and of the pages, which add words to them.
//
// It reads and never changes anything. Its callers decide on presentation.
package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Status of evaluations that only their folder knows, and of an evaluation in Redis whose record this program cannot
// read.
const (
	StatusInterrupted record.Status = "interrupted"
	// StatusStopped is the status of an evaluation that ended early because its best candidates are known. In a folder,
	// it also applies if the fleet stopped it for any other reason.
	StatusStopped    record.Status = "stopped"
	StatusRunning    record.Status = "running"
	StatusUnreadable record.Status = "unreadable"
)

// Evaluation describes the progress of an evaluation.
type Evaluation struct {
	ID      eval.ID       `json:"evaluation"`
	Name    string        `json:"name"`
	Status  record.Status `json:"status"`
	Created time.Time     `json:"created"`
	Phases  []Phase       `json:"phases"`
	// Unreadable is why a program of this version cannot process the evaluation.
	Unreadable string `json:"unreadable,omitempty"`
	// Uncollected is how many results wait in Redis for a collector.
	Uncollected int64 `json:"uncollected"`
	// Unattended: results have waited for more than a minute, and no controller has run for as long.
	Unattended bool           `json:"unattended,omitempty"`
	Classes    map[string]int `json:"failed_by_class,omitempty"` // known if the results can be read
	Used       *Used          `json:"used,omitempty"`            // likewise
	// Statistics count runs by the model that answered, and Advice lists recommended changes. Both are known if the
	// results can be read.
	Statistics *results.Statistics `json:"statistics,omitempty"`
	Advice     []string            `json:"advice,omitempty"`
	// Fallback is the fallback in its settings; nil: none.
	Fallback *record.Fallback `json:"-"`
	// Budget says how much of the budget is spent; absent without a budget.
	Budget *Budget `json:"budget,omitempty"`
	// Paused are the providers that the fleet paused for the evaluation, until it is resumed.
	Paused map[string]record.Pause `json:"paused_providers,omitempty"`
	// Stopped says why the fleet has stopped the evaluation, if the results can be read; nil: it was not stopped.
	Stopped *results.Stop `json:"stopped,omitempty"`
	// Result says who won, or who leads so far. nil: nothing is ranked yet, or it is not known here.
	Result *record.Result `json:"result,omitempty"`
	// BoundBy are the limits that calls wait for now; after the end, the limit that most calls waited for.
	BoundBy []string `json:"bound_by,omitempty"`
	Queues  []Queue  `json:"queues,omitempty"`
	// Batches are those at the providers now; absent: there are none.
	Batches *Batches `json:"batches,omitempty"`
	Workers *int     `json:"workers_alive,omitempty"` // of the whole fleet; absent without a Redis
}

// Batches describes the batches of an evaluation that run at the providers.
type Batches struct {
	Batches int       `json:"batches"`
	Runs    int       `json:"runs"`
	Oldest  time.Time `json:"oldest"` // when the oldest was submitted
}

// String describes the batches in a few words.
func (b Batches) String() string {
	return fmt.Sprintf("%s in %s at the provider, since %s", wording.Counted(b.Runs, "run"), wording.Either(b.Batches, "batch", "batches"),
		b.Oldest.UTC().Format("15:04 UTC"))
}

// Phase describes the progress of a phase, in runs.
type Phase struct {
	Kind eval.Kind `json:"kind"`
	// Strong is the judge to which the phase escalates pairs; empty for other phases.
	Strong string `json:"strong,omitempty"`
	// Open means that its runs depend on results before it, so that Runs is their maximum.
	Open      bool     `json:"open,omitempty"`
	Runs      int      `json:"runs"`
	Succeeded int      `json:"succeeded"`
	Failed    int      `json:"failed"`
	Cancelled int      `json:"cancelled"`
	RatePerS  *float64 `json:"rate_per_s,omitempty"` // runs; absent: unknown
	LeftS     *float64 `json:"left_s,omitempty"`     // at that rate; absent: unknown, or no runs end
}

// done returns how many runs of all phases succeeded or failed.
func (e *Evaluation) done() int {
	n := 0
	for _, phase := range e.Phases {
		n += phase.Succeeded + phase.Failed
	}
	return n
}

// Used is the total usage of all calls. If the provider reports no price, the cost is unknown, which is not 0.
type Used struct {
	Calls      int      `json:"calls"`
	FromCache  int      `json:"answered_before"` // answers from the cache instead of calls
	Input      int64    `json:"input_tokens"`
	Output     int64    `json:"output_tokens"`
	Unreported int      `json:"calls_without_tokens"`           // calls that may be charged; tokens unknown
	CostUSD    *float64 `json:"cost_usd" jsonschema:"nullable"` // null: unknown; else of calls with a price
	Unpriced   int      `json:"calls_without_price"`
	// Stages are the same numbers by model and stage.
	Stages []Stage `json:"by_stage,omitempty"`
}

// Stage is what the calls of one model in one stage have used.
type Stage struct {
	Model string `json:"model"`
	Stage string `json:"stage"`
	Used
}

// Queue counts the tasks in one of an evaluation's queues, which other evaluations may
// share.
type Queue struct {
	Name      string `json:"queue"`
	Pending   int    `json:"pending"`
	Active    int    `json:"active"`
	Scheduled int    `json:"scheduled"`
	Retry     int    `json:"retry"`
	Completed int    `json:"completed"`
	Archived  int    `json:"archived"`
	Paused    bool   `json:"paused"`
	Known     bool   `json:"-"` // asynq knows the queue: a task was pushed
}

// Done returns how many runs of the phase ended with a result or a failure.
func (p Phase) Done() int { return p.Succeeded + p.Failed }

// Ended returns how many runs of the phase have ended.
func (p Phase) Ended() int { return p.Succeeded + p.Failed + p.Cancelled }

// UnderWay reports whether an evaluation's numbers may still change.
func (e Evaluation) UnderWay() bool {
	return e.Status == record.StatusActive || e.Status == record.StatusPaused || e.Status == StatusRunning || e.Uncollected > 0
}

// Active reports whether runs are being executed.
func (e Evaluation) Active() bool {
	return e.Status == record.StatusActive || e.Status == StatusRunning
}

// Redis reads the state of a fleet: its evaluations, queues, limits and workers.
type Redis struct {
	Store  *store.Store
	Limits *ratelimit.Admin
}

// WorkersAlive returns the number of workers with a valid heartbeat.
func (f Redis) WorkersAlive(ctx context.Context) (int, error) {
	workers, err := f.Limits.Alive(ctx)
	n := 0
	for _, alive := range workers {
		if alive {
			n++
		}
	}
	return n, err
}

// USD converts nano-USD.
func USD(nano int64) float64 { return float64(nano) / ratelimit.Dollar }

// Cost returns the cost of the calls in words.
func (u Used) Cost() string {
	switch {
	case u.CostUSD == nil:
		return "cost unknown"
	case u.Unpriced > 0:
		return fmt.Sprintf("%s and %s of unknown cost", ratelimit.USD(*u.CostUSD), wording.Counted(u.Unpriced, "call"))
	}
	return ratelimit.USD(*u.CostUSD)
}

// ClassesText lists failures by class, the most frequent first.
func ClassesText(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for class := range counts {
		names = append(names, class)
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	text := ""
	for i, class := range names {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", counts[class], class)
	}
	return text
}

// Seconds converts the seconds of a JSON field.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Until returns the end of a wait in words: "until 08:00 (in 5h0m)".
func Until(now time.Time, wait time.Duration) string {
	return fmt.Sprintf("until %s (in %s)", now.Add(wait).Format("15:04"), show.ShortDuration(wait))
}

// Percent returns a share as text. It is 100 % only for all, and 0 % only for none; "-" if whole is 0.
func Percent(part, whole int) string {
	switch {
	case whole == 0:
		return "-"
	case part == whole:
		return "100 %"
	case part > 0 && 100*part < whole:
		return "<1 %"
	}
	return fmt.Sprintf("%d %%", int(100*int64(part)/int64(whole)))
}
