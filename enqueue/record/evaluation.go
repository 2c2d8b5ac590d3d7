package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Versions of an evaluation's record. One whose runs are asked in batches has the second: programs that know only the
// first would push the runs of a batch alone. One that asks judges for what those two leave out has the third; see
// Settings.Extended.
const (
	EvaluationVersion         = 1
	EvaluationVersionBatch    = 2
	EvaluationVersionExtended = 3
)

// Version returns the version of the evaluation's record.
func (e Evaluation) Version() int {
	switch {
	case e.Settings.Extended:
		return EvaluationVersionExtended
	case e.Settings.Batch != nil:
		return EvaluationVersionBatch
	}
	return EvaluationVersion
}

// Status says how far an evaluation has come.
type Status string

// The statuses of an evaluation.
const (
	StatusActive    Status = "active"
	StatusPaused    Status = "paused"
	StatusCancelled Status = "cancelled"
	StatusDone      Status = "done" // every run of every phase has ended
)

// StoppedByBudget is the Stopped of an evaluation whose budget leaves no room for another call.
const StoppedByBudget = "budget"

// Evaluation is an evaluation's record, which is stored next to its plan. Its Settings control
// execution and are not part of its identity.
type Evaluation struct {
	ID      eval.ID
	Name    string
	Status  Status
	Stopped string // why the fleet paused it, such as StoppedByBudget; empty: the fleet did not pause it
	// Paused lists, by provider, the pauses of the providers that the fleet paused for the
	// evaluation. Workers begin no calls to them, and their runs wait until it is resumed.
	Paused     map[string]Pause
	Created    time.Time
	ResultsID  string // random id of the results store that may drain it; empty until one does
	ResultsURL string // where the results store is, as asked for at submission; empty: the process that drains chooses
	Settings   Settings
	Phases     []Phase
	Revision   Revision
	Result     *Result // nil: not known yet, or the status is active or paused
}

// Revision identifies an evaluation's record and its runnable content. If two are equal, they are
// of the same record with the same settings, phases and choices.
type Revision string

// RevisionOf builds a Revision from three fields of a record: when it was made, how often its
// runnable content changed since, and how often a phase was chosen. An empty field counts as 0,
// because records of earlier versions do not have all of them.
func RevisionOf(created, revision, chosen string) Revision {
	return Revision(cmp.Or(created, "0") + "." + cmp.Or(revision, "0") + "." + cmp.Or(chosen, "0"))
}

// SameRecord reports whether two revisions are of one record, which was not deleted and submitted
// again between them.
func (r Revision) SameRecord(as Revision) bool {
	made, _, _ := strings.Cut(string(r), ".")
	other, _, _ := strings.Cut(string(as), ".")
	return made == other
}

// Pause is why a provider was paused for an evaluation.
type Pause struct {
	Class   providers.Class `json:"class"`
	Message string          `json:"message"` // the provider's message
	// Runs is how many runs in a row failed with Class; 0: one failure is enough.
	Runs int `json:"runs,omitempty"`
	// For is how long the provider had answered no call; 0: one failure is enough.
	For time.Duration `json:"for,omitempty"`
	// KeyEnv names the environment variable of the provider's key; empty: unknown.
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

// String describes the failures that led to the pause, with the provider's message.
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

// MaxStreak is how many runs of a provider may fail with the same class in a row before the
// provider is paused for their evaluation.
const MaxStreak = 20

// PausesProvider reports whether every further call to the provider would fail with this class too,
// until a person has fixed the cause.
func PausesProvider(class providers.Class) bool {
	return class == providers.Auth || class == providers.QuotaBilling
}

// Streaks reports whether runs that fail with a class count as a streak. They do if the next runs
// probably fail too, because the cause does not lie in the run.
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
	// JudgeQueues holds the queue of each judge, by its position in eval.Evaluation.Asked.
	JudgeQueues []string `json:"judge_queues"`
	// Open means that its documents depend on results of earlier phases, and some of these are
	// missing. Runs and Queues are upper bounds then.
	Open bool `json:"open,omitempty"`
	// Chosen means that its documents were chosen from results. The choice is stored beside the
	// record (Keys.Choice).
	Chosen bool         `json:"chosen,omitempty"`
	Choice *plan.Choice `json:"-"`
	// Strong is the name of the judge that the phase asks about pairs that others have seen (plan.Escalated); empty
	// for other phases.
	Strong string `json:"strong,omitempty"`
}

// Choices returns, for each phase, the choice of what it compares; nil for a phase whose documents
// were not chosen from results.
func (e Evaluation) Choices() []*plan.Choice {
	choices := make([]*plan.Choice, len(e.Phases))
	for i, phase := range e.Phases {
		choices[i] = phase.Choice
	}
	return choices
}

// QueueNames returns the names of the queues that the evaluation's runs go through, sorted and
// without duplicates.
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
	// Prices of all models that may be called, by "provider:model". A model without an entry has an
	// unknown price, not the price 0.
	Prices map[string]providers.Price `json:"prices,omitempty"`
	// PricesAsOf is the date (year-month-day) of the built-in price table, if some of Prices are
	// from it; empty: all of them were configured.
	PricesAsOf string `json:"prices_as_of,omitempty"`
	Retry      Retry  `json:"retry"`
	// Fallback says which other models answer, and when; nil: none.
	Fallback *Fallback `json:"fallback,omitempty"`
	// Timeouts of one call by "provider:model", "provider", or "" for all others.
	Timeouts map[string]time.Duration `json:"timeouts"`
	// Outage is how long runs wait for a provider that is down, without using up attempts,
	// before it is paused for the evaluation. 0: their calls fail as others do.
	Outage time.Duration `json:"outage,omitempty"`
	Limit  int           `json:"limit,omitempty"` // --limit: the first N runs of the plan; 0: all
	// Cache reuses the recorded answers of identical calls.
	Cache bool `json:"cache,omitempty"`
	// Batching names the agents of the panel that are asked about all dimensions of a document in
	// one call.
	Batching []string `json:"batching,omitempty"`
	// Extended means that judges see images or anchors, compare by criterion, by degree or softly, or score by rubrics.
	Extended bool `json:"extended,omitempty"`
	// Batch says which runs are asked through the batch endpoints of their providers; nil: none.
	Batch *Batch `json:"batch,omitempty"`
	// ConcurrencySource says where the bound on the evaluation's concurrency comes from, so that
	// messages can call a default a default: "default", "file", "flag", "environment" or
	// ConcurrencySum. If the evaluation has no bound of its own, it is "fleet" or "providers",
	// after the bounds that apply instead.
	ConcurrencySource string `json:"concurrency_source,omitempty"`
	// Groups holds the group of each of eval.Prompts.Models by its position, empty if it has none.
	// The group's limits apply to the model's calls, and its runs go through the group's queue.
	Groups []string `json:"groups,omitempty"`
	// Hold keeps the lease of a call whose worker vanished until the call's latest possible end,
	// because the provider may still be working on it. Otherwise the lease is free as soon as it is
	// not renewed. The setting is abandoned_calls: hold or free.
	Hold bool `json:"hold_abandoned,omitempty"`
	// Outs holds the patterns that name the files of the answers of listed runs (promptforge.Name),
	// by the runs' own ids. They are paths below the folder into which the exports are written. The
	// answer of a run without one is in the output folder. Files that a command line names with
	// --out are not in it: a record that was made on another machine must not choose where to write
	// on this one.
	Outs map[string]string `json:"outs,omitempty"`
	// Votes is the hash of what people have said about the documents (eval.EncodeVotes). The text
	// itself is stored like those of documents. Empty: no votes.
	Votes string `json:"votes,omitempty"`
	// Until ends the evaluation early; nil: never.
	Until *Until `json:"until,omitempty"`
	// Unreasoning lists the models, by "provider:model", that cannot reason. Listed runs that
	// require reasoning only by default ask them without it.
	Unreasoning []string `json:"unreasoning,omitempty"`
}

// DefaultBatchDeadline is Batch.Deadline if nothing else is configured. Providers promise an answer within a day.
const DefaultBatchDeadline = 24 * time.Hour

// Batch says which runs are asked through the batch endpoints of their providers, and how.
type Batch struct {
	Models []string `json:"models"` // by "provider:model"
	Runs   int      `json:"runs"`   // at most, in one batch
	// Deadline is how long a run waits for a batch to be accepted, and then for its answer. A run without one by then is
	// asked alone.
	Deadline time.Duration `json:"deadline"`
}

// Has reports whether runs of a kind that a model is asked go through batches. A nil Batch has none.
func (b *Batch) Has(kind eval.Kind, judge eval.Judge) bool {
	return b != nil && kind != eval.KindPanel && slices.Contains(b.Models, judge.Target())
}

// Tier returns the service tier in which runs of a kind ask a judge; empty: the standard one.
func (s Settings) Tier(kind eval.Kind, judge eval.Judge) string {
	if s.Batch.Has(kind, judge) {
		return providers.TierBatch
	}
	return judge.Tier()
}

// Call returns the scope by which limits apply to a call of a run of kind's i-th judge
// (eval.Evaluation.Asked). model is the judge's own model or a fallback.
func (e Evaluation) Call(kind eval.Kind, i int, model eval.Judge) ratelimit.Scope {
	return ratelimit.Scope{
		Provider: model.Provider, Model: model.Model, Group: e.Settings.Group(kind, i), Evaluation: string(e.ID), Tier: model.Tier(),
	}
}

// Group returns the group of the i-th judge of a kind (eval.Evaluation.Asked); empty if it has
// none.
func (s Settings) Group(kind eval.Kind, i int) string {
	if kind != eval.KindPrompts || i >= len(s.Groups) {
		return ""
	}
	return s.Groups[i]
}

// SetBudget replaces the budget, in nano-USD. Settings without one have none afterwards either.
func (s *Settings) SetBudget(nano int64) {
	for i := range s.Limits {
		if s.Limits[i].Kind == ratelimit.Cost {
			s.Limits[i].Max = nano
		}
	}
}

// Budget returns the most that the evaluation's calls may cost, in nano-USD; 0: no bound.
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
	MaxAttempts  int           `json:"max_attempts"`  // calls per run; default 3
	InitialDelay time.Duration `json:"initial_delay"` // default 1 s
	MaxDelay     time.Duration `json:"max_delay"`     // default 60 s
	Jitter       time.Duration `json:"jitter"`        // default 500 ms
	// FullJitter draws the wait from all between 0 and the delay, instead of adding up to Jitter to
	// the delay.
	FullJitter bool `json:"full_jitter,omitempty"`
}

// Delay returns the wait after the n-th call, from 1: min(InitialDelay·2^(n−1) + random·Jitter,
// MaxDelay), or with FullJitter random·min(InitialDelay·2^(n−1), MaxDelay). random is in [0, 1).
func (r Retry) Delay(n int, random float64) time.Duration {
	delay := backoff.Waits{First: r.InitialDelay, Longest: r.MaxDelay, Factor: 2}.After(n - 1)
	if r.FullJitter {
		return backoff.Shorten(delay, 1, random)
	}
	return min(delay+time.Duration(random*float64(r.Jitter)), r.MaxDelay)
}

// DefaultRetry applies if nothing else is configured.
var DefaultRetry = Retry{MaxAttempts: 3, InitialDelay: time.Second, MaxDelay: 60 * time.Second, Jitter: 500 * time.Millisecond}

// DefaultOutage is how long an evaluation waits for a provider that is down, if nothing else is
// configured.
const DefaultOutage = 30 * time.Minute

// DefaultTimeout bounds one call if nothing else is configured.
const DefaultTimeout = 120 * time.Second

// FlexTimeout bounds one call in the service tier flex if neither its model nor its provider has a setting. OpenAI
// names 15 minutes for it (https://developers.openai.com/api/docs/guides/flex-processing).
const FlexTimeout = 15 * time.Minute

// DefaultJobTimeout bounds one job at the provider if neither its model nor its provider has a
// setting.
const DefaultJobTimeout = 2 * time.Hour

// JobTimeout returns how long one job of a model may take. Timeouts for all other calls do not
// apply, because a job takes many times longer than a call.
func (s Settings) JobTimeout(model eval.Judge) time.Duration {
	if d, ok := s.ownTimeout(model); ok {
		return d
	}
	return DefaultJobTimeout
}

// Timeout returns how long one call to a model may take. A call in the tier flex waits for capacity before its answer
// begins. Like a job, it has a time of its own, unless its provider or model sets another or the general time is longer.
func (s Settings) Timeout(model eval.Judge) time.Duration {
	if d, ok := s.ownTimeout(model); ok {
		return d
	}
	general, ok := s.Timeouts[""]
	if !ok {
		general = DefaultTimeout
	}
	if model.Tier() == providers.TierFlex {
		return max(general, FlexTimeout)
	}
	return general
}

// ownTimeout returns the timeout that is set for a model or its provider.
func (s Settings) ownTimeout(model eval.Judge) (d time.Duration, ok bool) {
	if d, ok = s.Timeouts[model.Target()]; !ok {
		d, ok = s.Timeouts[model.Provider]
	}
	return d, ok
}

// Fields of the state of a run in progress (Keys.Progress).
const (
	ProgressAttempts  = "attempts"   // calls made so far
	ProgressAnswers   = "answers"    // of those calls, the answered ones, with or without a usable answer
	ProgressCooled    = "cooled"     // of those calls, the refused ones that do not count as attempts
	ProgressDeaths    = "deaths"     // workers that died while they had the run
	ProgressNotBefore = "not_before" // Unix milliseconds before which no call is made
	ProgressDelay     = "delay"      // milliseconds from the write of not_before until that time
	ProgressStarted   = "started"    // Unix milliseconds of the first call
	ProgressLacked    = "lacked"     // class of the last answer that lacked required evidence
	ProgressAnswer    = "answer"     // the answer in prose, which a further call turns into JSON
	ProgressTaken     = "taken"      // 1: the answer to all dimensions has come; they are asked one by one now
	ProgressAnswerBy  = "answer_by"  // provider:model that gave that answer
	ProgressFallen    = "fallback"   // Fallen, as JSON: its waits, and the current model
	ProgressSaid      = "said"       // JSON: the answers to the turns of a prompt so far
	ProgressJob       = "job"        // Job as JSON; empty: none
	ProgressUnusable  = "unusable"   // unusable answers of the current model
	ProgressExcused   = "excused"    // calls that failed in outages or through their worker; they are not attempts
	ProgressCut       = "cut"        // calls cut off with their worker or lease; they are not attempts
	ProgressFaults    = "faults"     // failures of the program itself during this run
	// ProgressSubmitting is the time in Unix milliseconds when a worker was about to submit a job
	// whose name is not known yet; 0: none.
	ProgressSubmitting = "submitting"
	ProgressLines      = "lines"        // how many runs the batch asks that is being submitted; 0: none is
	ProgressAccount    = "died:account" // where the job or batch is being submitted; earlier releases skip died:…
	ProgressWriter     = "died:writer"  // pull that saved last: "<worker>-<n>"; earlier releases skip died:…
)

// MaxAnswer is the most bytes that an answer kept in the progress may have.
const MaxAnswer = 1 << 20

// A run that uses up one of these bounds fails as lost. They bound what a run can cost if it never
// gets an outcome.
const (
	// MaxDeaths is how many workers may die while they have the run.
	MaxDeaths = 3
	// MaxFaults is how often the program itself may fail during a run, after a call or with a
	// panic.
	MaxFaults = 3
	// MaxCut is how many calls of a run may be cut off before they are answered,
	// because their worker stopped or their lease was lost.
	MaxCut = 10
)

// ConcurrencySum is the Settings.ConcurrencySource of a bound that is the sum of some providers'
// limits, because other providers have none.
const ConcurrencySum = "sum of the providers' limits"

// BoundWords describes each limit, by its id: the name of its setting, its value, and how to change
// it if it is only a default.
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
