package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// EvaluationVersion is the version of the evaluation's record.
const EvaluationVersion = 1

// Status is where an evaluation has come to.
type Status string

// The statuses of an evaluation.
const (
	StatusActive    Status = "active"
	StatusPaused    Status = "paused"
	StatusCancelled Status = "cancelled"
	StatusDone      Status = "done" // every run of every phase has ended
)

// StoppedByBudget is an evaluation's Stopped whose budget leaves no room for
// another call.
const StoppedByBudget = "budget"

// Evaluation is an evaluation's record, which is stored beside its plan. Its Settings control
// execution and take no part in its identity.
type Evaluation struct {
	ID      eval.ID
	Name    string
	Status  Status
	Stopped string // why the fleet paused it itself, StoppedByBudget; empty: it did not
	// Paused are the providers that the fleet paused for the evaluation: none of
	// their calls is begun, and their runs wait until it is resumed.
	Paused   map[string]Pause
	Created  time.Time
	Sink     string // random id of the results store that may drain it; empty until one does
	SinkURL  string // where the results store is, as asked for at submission; empty: the drainer's choice
	Settings Settings
	Phases   []Phase
	Revision Revision
	Result   *Result // nil: it is not known yet, or its status is active or paused
}

// Revision identifies an evaluation's record and its runnable content. Two that are equal are
// of the same record with the same settings, phases and choices.
type Revision string

// RevisionOf builds a Revision from fields of a record: when it was made, how often its
// runnable content changed since, and how often a phase was chosen. An empty one counts as 0:
// records of earlier versions do not have all of them.
func RevisionOf(created, revision, chosen string) Revision {
	return Revision(cmp.Or(created, "0") + "." + cmp.Or(revision, "0") + "." + cmp.Or(chosen, "0"))
}

// SameRecord reports whether two revisions are of one record: it was not deleted and submitted
// again between them.
func (r Revision) SameRecord(as Revision) bool {
	made, _, _ := strings.Cut(string(r), ".")
	other, _, _ := strings.Cut(string(as), ".")
	return made == other
}

// Pause is why a provider was paused for an evaluation.
type Pause struct {
	Class   providers.Class `json:"class"`
	Message string          `json:"message"` // the provider's words
	// Runs is how many runs failed so in a row; 0: one failure is enough.
	Runs int `json:"runs,omitempty"`
	// For is how long the provider had answered no call; 0: one failure is enough.
	For time.Duration `json:"for,omitempty"`
	// KeyEnv names the environment variable of the provider's key; empty: it is not known.
	KeyEnv string    `json:"key_env,omitempty"`
	At     time.Time `json:"at"`
}

// Remedy says what a person has to do before the provider is asked again.
func (p Pause) Remedy() string {
	switch {
	case p.Runs > 0:
		return "fix the cause; `evalfleet retry` repeats the failed runs"
	case p.For > 0:
		return "wait until the provider works again"
	case p.Class == providers.Auth && p.KeyEnv != "":
		return "set " + p.KeyEnv + " to a valid key"
	case p.Class == providers.Auth:
		return "give the workers a valid key"
	case p.Class == providers.QuotaBilling:
		return "pay, or raise the spend limit"
	case p.Class == providers.Transient:
		return "start the server, or correct base_url"
	case p.Class == providers.ModelUnavailable:
		return "correct the model's name, or choose a model that the account may use"
	}
	return "fix the cause"
}

// String is what happened, in words.
func (p Pause) String() string {
	if p.Runs > 0 {
		return fmt.Sprintf("%s in a row failed with %s: %s", runs(p.Runs), p.Class, p.Message)
	}
	if p.For > 0 {
		return fmt.Sprintf("%s for %s: %s", p.Class, p.For.Round(time.Second), p.Message)
	}
	return fmt.Sprintf("%s: %s", p.Class, p.Message)
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// MaxStreak is how many different runs of a provider may fail alike in a row before
// it is paused for their evaluation.
const MaxStreak = 20

// PausesProvider reports whether a failure of a class is one that every further
// call of the provider would meet, until a person has done something about it.
func PausesProvider(class providers.Class) bool {
	return class == providers.Auth || class == providers.QuotaBilling
}

// Streaks reports whether runs that fail with a class make a streak: whether the
// next ones may be expected to fail so too, for a reason that is not theirs.
func Streaks(class providers.Class) bool {
	switch class {
	case providers.Malformed, providers.Refused, providers.Cancelled, providers.Lost:
		return false
	}
	return true
}

// Phase is one indexed plan of runs.
type Phase struct {
	Kind eval.Kind `json:"kind"`
	Runs int       `json:"runs"`
	// Queues says how many of the runs go through each queue.
	Queues map[string]int `json:"queues"`
	// JudgeQueues is the queue of each judge, by its position in
	// eval.Evaluation.Asked.
	JudgeQueues []string `json:"judge_queues"`
	// Open: its documents depend on the results of the phases before it, and some are
	// missing. Runs and Queues are then maximum numbers.
	Open bool `json:"open,omitempty"`
	// Chosen: its documents were chosen from results. The choice is stored beside the record
	// (Keys.Choice).
	Chosen bool         `json:"chosen,omitempty"`
	Choice *plan.Choice `json:"-"`
}

// Choices are what the phases compare that were chosen from results, by their numbers;
// nil for the others.
func (e Evaluation) Choices() []*plan.Choice {
	choices := make([]*plan.Choice, len(e.Phases))
	for i, phase := range e.Phases {
		choices[i] = phase.Choice
	}
	return choices
}

// QueueNames are the queues that the evaluation's runs go through, each once.
func (e Evaluation) QueueNames() []string {
	var queues []string
	for _, phase := range e.Phases {
		queues = append(queues, phase.JudgeQueues...)
		for queue := range phase.Queues {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// Settings control how an evaluation is executed.
type Settings struct {
	Priority int               `json:"priority"` // share of a queue against other evaluations; at least 1
	Limits   []ratelimit.Limit `json:"limits"`   // pinned while the evaluation is active
	// Prices of all models that may be called, by "provider:model". One that is not
	// here is unknown, and not 0.
	Prices map[string]providers.Price `json:"prices,omitempty"`
	// PricesAsOf is the day of the built-in table that some of Prices are from, as
	// year-month-day; empty: all of them were configured.
	PricesAsOf string `json:"prices_as_of,omitempty"`
	Retry      Retry  `json:"retry"`
	// Fallback is what other models answer when; nil: none.
	Fallback *Fallback `json:"fallback,omitempty"`
	// Timeouts of one call by "provider:model", "provider", or "" for the rest.
	Timeouts map[string]time.Duration `json:"timeouts"`
	// Outage is how long runs wait for a provider that is down, without using up attempts,
	// before it is paused for the evaluation. 0: their calls fail as others do.
	Outage time.Duration `json:"outage,omitempty"`
	Limit  int           `json:"limit,omitempty"` // --limit: the first N runs of each phase; 0: all
	// Cache answers calls with what the same ones were answered before.
	Cache bool `json:"cache,omitempty"`
	// Batching names the agents of the panel who are asked for all dimensions of a
	// document in one call.
	Batching []string `json:"batching,omitempty"`
	// ConcurrencySource says where the bound on the evaluation's concurrency came
	// from, so that a default can be named as one: "default", "file", "flag",
	// "environment", ConcurrencySum; "fleet" or "providers" when it has none of its own
	// and theirs hold alone.
	ConcurrencySource string `json:"concurrency_source,omitempty"`
	// Groups is the group of each of eval.Prompts.Models by its position, empty where
	// it has none: limits of the group hold for its calls, and its runs go through
	// the group's queue.
	Groups []string `json:"groups,omitempty"`
	// Hold keeps the lease of a call whose worker vanished until the call's latest
	// end, since the provider may still be at it; otherwise it is free as soon as
	// it is not renewed (abandoned_calls: hold and free).
	Hold bool `json:"hold_abandoned,omitempty"`
	// Outs are the patterns by which the answers of listed runs are named
	// (promptforge.Name), by the runs' own ids: paths below the folder in which the
	// exports are written. A run without one has its answer in the output folder.
	// What a command line names with --out is not among them: a record that was made
	// elsewhere never says where else on this machine to write.
	Outs map[string]string `json:"outs,omitempty"`
	// Votes is the hash of what people have said about the documents (eval.EncodeVotes),
	// a text that is kept as those of documents are; empty: nothing.
	Votes string `json:"votes,omitempty"`
	// Until ends the evaluation early; nil: it does not.
	Until *Until `json:"until,omitempty"`
	// Unreasoning are the models, by "provider:model", that do not reason, and so are asked
	// listed runs without: reasoning is required by default alone.
	Unreasoning []string `json:"unreasoning,omitempty"`
}

// Call is the scope of a call to a model made by a run of the i-th judge of a kind
// (eval.Evaluation.Asked): to its own model, or to a fallback.
func (e Evaluation) Call(kind eval.Kind, i int, model eval.Judge) ratelimit.Scope {
	return ratelimit.Scope{
		Provider: model.Provider, Model: model.Model, Group: e.Settings.Group(kind, i), Evaluation: string(e.ID),
	}
}

// Group is that of the i-th judge of a kind (eval.Evaluation.Asked); empty if it has none.
func (s Settings) Group(kind eval.Kind, i int) string {
	if kind != eval.KindPrompts || i >= len(s.Groups) {
		return ""
	}
	return s.Groups[i]
}

// Budget is the bound on what the evaluation's calls cost, in nano-USD; 0: none.
func (s Settings) Budget() int64 {
	for _, limit := range s.Limits {
		if limit.Kind == ratelimit.Cost {
			return limit.Max
		}
	}
	return 0
}

// Retry says when a failed call is retried and how long to wait before.
type Retry struct {
	MaxAttempts  int           `json:"max_attempts"`  // calls in all; default 3
	InitialDelay time.Duration `json:"initial_delay"` // default 1 s
	MaxDelay     time.Duration `json:"max_delay"`     // default 60 s
	Jitter       time.Duration `json:"jitter"`        // default 500 ms
	// FullJitter has the wait lie anywhere between nothing and the delay, instead of
	// up to Jitter above it.
	FullJitter bool `json:"full_jitter,omitempty"`
}

// Delay is the wait after the n-th call: min(InitialDelay·2^(n−1) + random·Jitter,
// MaxDelay), or with FullJitter random·min(InitialDelay·2^(n−1), MaxDelay). random
// is in [0, 1).
func (r Retry) Delay(n int, random float64) time.Duration {
	delay := r.InitialDelay
	for i := 1; i < n && delay < r.MaxDelay; i++ {
		delay += min(delay, r.MaxDelay-delay)
	}
	if r.FullJitter {
		return time.Duration(random * float64(min(delay, r.MaxDelay)))
	}
	return min(delay+time.Duration(random*float64(r.Jitter)), r.MaxDelay)
}

// DefaultRetry applies without other settings.
var DefaultRetry = Retry{MaxAttempts: 3, InitialDelay: time.Second, MaxDelay: 60 * time.Second, Jitter: 500 * time.Millisecond}

// DefaultOutage is how long an evaluation waits for a provider that is down where nothing
// else is said.
const DefaultOutage = 30 * time.Minute

// DefaultTimeout bounds one call where nothing else is said.
const DefaultTimeout = 120 * time.Second

// DefaultJobTimeout bounds one job at the provider if neither its model nor its provider has a
// setting.
const DefaultJobTimeout = 2 * time.Hour

// JobTimeout is the bound on one job of provider:model. Settings for all calls do not apply to
// jobs.
func (s Settings) JobTimeout(provider, model string) time.Duration {
	for _, key := range []string{provider + ":" + model, provider} {
		if d, ok := s.Timeouts[key]; ok {
			return d
		}
	}
	return DefaultJobTimeout
}

// Timeout is the bound on one call to provider:model.
func (s Settings) Timeout(provider, model string) time.Duration {
	for _, key := range []string{provider + ":" + model, provider, ""} {
		if d, ok := s.Timeouts[key]; ok {
			return d
		}
	}
	return DefaultTimeout
}

// Fields of the state of a run in progress (Keys.Progress).
const (
	ProgressAttempts  = "attempts"   // calls made so far
	ProgressAnswers   = "answers"    // of those answered, with or without a usable answer
	ProgressCooled    = "cooled"     // of those refused, that are no attempts
	ProgressDeaths    = "deaths"     // workers that died holding it
	ProgressNotBefore = "not_before" // Unix milliseconds before which no call is made
	ProgressDelay     = "delay"      // milliseconds from the write of not_before until then
	ProgressStarted   = "started"    // Unix milliseconds of the first call
	ProgressLacked    = "lacked"     // class of the last answer without the evidence that is required
	ProgressAnswer    = "answer"     // the answer in prose, to be turned into JSON
	ProgressTaken     = "taken"      // 1: the answer to all dimensions came, and they are asked for singly
	ProgressAnswerBy  = "answer_by"  // provider:model that gave it
	ProgressFallen    = "fallback"   // Fallen, as JSON: its waits, and the current model
	ProgressSaid      = "said"       // JSON: the answers to the turns of a prompt so far
	ProgressJob       = "job"        // Job as JSON; empty: none
	ProgressUnusable  = "unusable"   // answers of the model asked now that could not be used
	ProgressExcused   = "excused"    // calls that failed in outages, or on workers with trouble of their own, that are no attempts
	ProgressCut       = "cut"        // calls cut off with their worker or lease, that are no attempts
	ProgressFaults    = "faults"     // failures of the program itself at this run
	// ProgressSubmitting is when a job was about to be submitted whose name is not known yet,
	// in Unix milliseconds; 0: none.
	ProgressSubmitting = "submitting"
	ProgressWriter     = "died:writer" // the pull that saved it last: "<worker>-<n>"; releases that do not know it pass over died:…
)

// MaxAnswer is how many bytes an answer may have that is kept in the progress.
const MaxAnswer = 1 << 20

// A run that uses up one of these fails as lost. They bound what a run costs that
// never comes to an outcome.
const (
	// MaxDeaths is how many workers may die holding a run.
	MaxDeaths = 3
	// MaxFaults is how often the program itself may fail at a run, after a call or
	// with a panic.
	MaxFaults = 3
	// MaxCut is how many calls of a run may be cut off before they are answered,
	// because their worker stopped or their lease was lost.
	MaxCut = 10
)

// ConcurrencySum is the Settings.ConcurrencySource of a bound that is the sum of those of
// some of the providers, because others have none.
const ConcurrencySum = "sum of the providers' limits"

// BoundWords names each limit, by its id, as its setting is called, with its value, and
// with the way to change it where it is only a default.
func (s Settings) BoundWords() map[string]string {
	words := map[string]string{}
	for _, limit := range s.Limits {
		switch {
		case limit.Evaluation != "" && s.ConcurrencySource == "default":
			words[limit.ID()] = fmt.Sprintf("max_concurrency %d (default; --max-concurrency)", limit.Max)
		case limit.Evaluation != "" && s.ConcurrencySource == ConcurrencySum:
			words[limit.ID()] = fmt.Sprintf("max_concurrency %d (%s; --max-concurrency)", limit.Max, ConcurrencySum)
		case limit.Evaluation != "":
			words[limit.ID()] = fmt.Sprintf("max_concurrency %d", limit.Max)
		default:
			words[limit.ID()] = limit.String()
		}
	}
	return words
}
