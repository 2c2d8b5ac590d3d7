// Package results moves an evaluation's results out of Redis into its one results store, reads
// them back row by row, and writes the files made from them.
//
// A Sink is the store, a Collector drains one evaluation's stream into it, and Export writes
// the CSVs and the manifest. Found reads the results that later phases depend on. The package
// computes no rankings (Export receives the finished rows), does not decide when an evaluation
// is over, and does not bound the stream.
package results

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/record"
)

var (
	// ErrNoEvaluation means that the results store, or Redis, does not know the
	// evaluation.
	ErrNoEvaluation = errors.New("no such evaluation")
	// ErrOtherSink means that the evaluation is drained into another results store, and
	// only there.
	ErrOtherSink = errors.New("the evaluation belongs to another results store")
	// ErrNoText means that the results store has no document of a hash.
	ErrNoText = errors.New("no such document")
	// ErrFull means that nothing more can be written: disk full, quota or file size limit
	// reached. Committed results are safe, the rest is still in Redis.
	ErrFull = errors.New("no space left")
	// ErrUnfit means that the file that was named cannot be a results store: it is something
	// else, was written by a newer program, or cannot be written. Another name
	// mends it.
	ErrUnfit = errors.New("no usable results database")
	// ErrAway means that the results store's server cannot be reached now, or the connection to
	// it was lost. It may pass.
	ErrAway = errors.New("it cannot be reached")
	// ErrNoSink is an ErrUnfit: nothing is there, and Open would make a results store.
	ErrNoSink = errors.New("no results database")
	// ErrBusy means that another program held the results store's lock for longer than
	// busyTimeout. It passes.
	ErrBusy = errors.New("locked by another program")
)

// Sink stores evaluations and their results. It is safe for concurrent use, also
// by several processes at once. Every write is one transaction and may be
// repeated: the second time changes nothing.
type Sink interface {
	Reader
	// PutEvaluation stores e's questions and settings. Stored again, the settings, votes,
	// phases, and the facts about items that are not part of the identity are replaced, while Created and Finished stay; and an evaluation that was
	// cancelled or has stopped resumes, unless e.Cancelled or e.Stopped says otherwise. texts
	// are documents, and the votes that e.Settings name, by their hash; those stored before may
	// be omitted. A document without text is an error and stores nothing, and so are votes.
	PutEvaluation(ctx context.Context, e Evaluation, texts iter.Seq2[string, string]) error
	// Append stores entries of an evaluation that PutEvaluation has stored
	// (otherwise ErrNoEvaluation), all of them or none. A run's row gives way
	// only to a higher generation, or to success after failure of its own.
	Append(ctx context.Context, id eval.ID, entries []record.Entry) error
	// Choose stores what an open phase of an evaluation compares and how many runs it
	// has by that, unless a choice is stored already, and returns the one that is. It
	// is stored for good: PutEvaluation does not change it.
	Choose(ctx context.Context, id eval.ID, phase int, chosen record.Phase) (*plan.Choice, error)
	// Finish notes when the evaluation's last run ended.
	Finish(ctx context.Context, id eval.ID, at time.Time) error
	// Cancel notes that the evaluation was cancelled, which holds until
	// PutEvaluation stores it again.
	Cancel(ctx context.Context, id eval.ID, at time.Time) error
	// Stop notes why the fleet stopped the evaluation, which holds until PutEvaluation
	// stores it again.
	Stop(ctx context.Context, id eval.ID, why Stop) error
}

// Reader reads a results store. Rows are read as they are asked for, so an evaluation may
// be larger than memory; an iteration that fails yields its error last. Asking
// about an evaluation that is not there yields no rows.
type Reader interface {
	// ID is the results store's random identity, which stays with the data wherever it is
	// moved.
	ID() string
	// Evaluations lists the stored evaluations, oldest first.
	Evaluations(ctx context.Context) ([]Listed, error)
	// Evaluation returns ErrNoEvaluation for one that is not stored. Queues of its
	// phases are not kept in a results store.
	Evaluation(ctx context.Context, id eval.ID) (Evaluation, error)
	// Text is the document text of a hash; ErrNoText where it is not stored.
	Text(ctx context.Context, hash string) (string, error)
	// Counts says how far each phase has come, in order of phases.
	Counts(ctx context.Context, id eval.ID) ([]PhaseCounts, error)
	// States yields the recorded runs of a phase by index.
	States(ctx context.Context, id eval.ID, phase int) iter.Seq2[RunState, error]
	// Runs yields the runs in one of states, or all when none is given, by phase
	// and index.
	Runs(ctx context.Context, id eval.ID, states ...eval.State) iter.Seq2[RunRow, error]
	// PairwiseRows yields the verdicts on pairs by phase and index.
	PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[PairwiseRow, error]
	// SingleRows yields the scores by phase, index and criterion.
	SingleRows(ctx context.Context, id eval.ID) iter.Seq2[SingleRow, error]
	// PanelRows yields what agents said of dimensions by phase and index, also of runs
	// that failed.
	PanelRows(ctx context.Context, id eval.ID) iter.Seq2[PanelRow, error]
	// Votes yields what people said of pairs of documents, by pair and then by
	// annotator.
	Votes(ctx context.Context, id eval.ID) iter.Seq2[VoteRow, error]
	// Responses yields the runs of eval.KindRuns and eval.KindPrompts, as Runs does,
	// with their answers.
	Responses(ctx context.Context, id eval.ID) iter.Seq2[RunRow, error]
	// PromptRows yields the runs of eval.KindPrompts that were answered or failed, in
	// the order in which they did, with their answers.
	PromptRows(ctx context.Context, id eval.ID) iter.Seq2[PromptRow, error]
	// Run returns one run with its verdict or answer, and its fallbacks; found is
	// false when it is not recorded.
	Run(ctx context.Context, run eval.RunID) (row RunRow, found bool, err error)
	// Search returns a page of the runs that a Filter means. It looks at no more than
	// MostLooked of them, so that it takes a moment, also where next to none fits.
	Search(ctx context.Context, id eval.ID, s Search) (Page, error)
	// SearchCount counts the runs that match a filter, within the bounds of a search; exact is
	// false when there are or may be more.
	SearchCount(ctx context.Context, id eval.ID, f Filter) (n int, exact bool, err error)
	// Jobs are the submitted jobs whose calls have not ended. Those that have time left, by
	// Redis's clock, may still be running at their providers.
	Jobs(ctx context.Context, id eval.ID) ([]record.Job, error)
	// Calls yields the calls made for one run, in the order in which they were asked for, also
	// those with a discarded outcome.
	Calls(ctx context.Context, run eval.RunID) iter.Seq2[record.Call, error]
	// NotSent lists what calls asked for and their models would not take.
	NotSent(ctx context.Context, id eval.ID) ([]NotSent, error)
	// CallTotals sums every call, discarded runs' too, by model and stage.
	CallTotals(ctx context.Context, id eval.ID) ([]CallTotal, error)
	// Statistics counts the runs that ended, by who answered.
	Statistics(ctx context.Context, id eval.ID) (Statistics, error)
	// Waits sums how long calls waited to be admitted, by the limit that they
	// waited for last, the most frequent first. Calls that no limit held back are
	// one line with an empty Limit.
	Waits(ctx context.Context, id eval.ID) ([]Wait, error)
	// Pace counts, by phase, the runs that ended at or after a time; the zero time
	// counts all. A phase without such runs is left out.
	Pace(ctx context.Context, id eval.ID, since time.Time) ([]Pace, error)
	// Progress counts recorded runs by phase and judge.
	Progress(ctx context.Context, id eval.ID) ([]Progress, error)
	// Timeline sums the calls by when they began and ended, in at most that many
	// periods (at least 1).
	Timeline(ctx context.Context, id eval.ID, most int) (Timeline, error)
	// MedianLatency is the median time that answered calls took, from request to
	// answer, to the millisecond; 0 when none was answered.
	MedianLatency(ctx context.Context, id eval.ID) (time.Duration, error)
	// CallsBegun counts the calls of every evaluation that began from one time on
	// and before another, by "provider:model"; without those named "evaluation.call".
	CallsBegun(ctx context.Context, from, to time.Time, without []string) (map[string]int64, error)
	// CalledBefore reports whether a call of any evaluation began before a time.
	CalledBefore(ctx context.Context, t time.Time) (bool, error)
	// Recorded returns those of some calls of an evaluation, by their IDs, that are recorded.
	Recorded(ctx context.Context, id eval.ID, calls []string) ([]string, error)
	// Spent sums the cost of an evaluation's calls, in nano-USD, with the maximum possible cost
	// of calls whose cost is unknown; without those named "evaluation.call". unknown counts
	// possibly charged calls for which not even that is known.
	Spent(ctx context.Context, id eval.ID, without ...string) (nano int64, unknown int, err error)
	// Answered is the earliest call of that record.Call.Key, in any evaluation, that was
	// answered for a run that succeeded with it; found is false where there is none.
	Answered(ctx context.Context, key string) (call record.Call, found bool, err error)
	// LastCall is when the last call of any evaluation began; the zero time when
	// none did.
	LastCall(ctx context.Context) (time.Time, error)
	Close() error
}

// Evaluation is an evaluation as a results store keeps it.
type Evaluation struct {
	ID        eval.ID
	Plan      *eval.Evaluation
	Settings  record.Settings
	Phases    []record.Phase
	Created   time.Time
	Finished  time.Time // zero: not finished
	Cancelled time.Time // zero: not cancelled, or resumed
	Stopped   *Stop     // nil: it has not stopped, or has resumed
}

// Listed is one line of a list of evaluations.
type Listed struct {
	ID        eval.ID
	Name      string
	Created   time.Time
	Finished  time.Time // zero: not finished
	Cancelled time.Time // zero: not cancelled, or resumed
	Stopped   *Stop     // nil: it has not stopped, or has resumed
}

// PhaseCounts says how far a phase has come.
type PhaseCounts struct {
	Phase     int
	Kind      eval.Kind
	Runs      int // planned
	Succeeded int
	Failed    int
	Cancelled int
	Classes   map[string]int // failed runs by class
}

// RunState is what Redis keeps of a run that has ended.
type RunState struct {
	Index      int
	State      eval.State
	Generation int
}

// RunRow is a run as it ended, and what all its calls together have used. Its
// verdict (Winner, Reason, Scores) is set by Reader.Run and Reader.Search alone;
// PairwiseRow and SingleRow have it elsewhere. Its answer (Answer, Answers, Finish) is set
// by those two and Reader.Responses, its fallbacks (Fell) by Reader.Run.
type RunRow struct {
	record.Run
	Used Usage
}

// Usage is the usage of calls. A call that may have been charged without a reported usage is
// counted, never taken as 0.
type Usage struct {
	Calls      int
	FromCache  int   // answers that were given before, for which no call was made
	Input      int64 // tokens, of the calls that reported them; likewise below
	Output     int64
	Cached     int64
	Reasoning  int64
	Unreported int     // calls, possibly charged, without token counts
	CostUSD    float64 // of the calls that reported a cost
	Unpriced   int     // calls, possibly charged, without a cost
}

// CallTotal sums the calls made to one model in one stage.
type CallTotal struct {
	Model string // provider:model
	Stage string
	Usage
	Errors map[string]int // calls that failed, by class
}

// Wait is the time one limit has cost: from asking for admission to sending the request,
// including the wait for a slot of the worker.
type Wait struct {
	Limit string // id (ratelimit.Limit.ID); empty: no limit held these back
	Calls int
	Total time.Duration
}

// Pace is how many runs of a phase ended, from when the phase's first run began, or
// from the time asked for where that is later, to when the last of them ended.
type Pace struct {
	Phase       int
	Runs        int
	First, Last time.Time
}

// PairwiseRow is one verdict on a pair.
type PairwiseRow struct {
	Phase, Index           int
	Document1, Document2   string // Document1 was shown first
	Model                  string // provider:model asked
	Trial                  int
	Winner                 string // a document's id, or eval.Tie
	Reason                 string
	Timestamp              time.Time // when the run ended
	Item                   string
	Order                  string // OrderForward or OrderReverse
	Judge                  string
	AnsweredBy             string // provider:model that answered; empty: none was asked
	Candidate1, Candidate2 string
}

// The two orders in which a pair can have been shown.
const (
	OrderForward = "forward" // the document with the lower ID was shown first
	OrderReverse = "reverse"
)

// SingleRow is one document's score on one criterion.
type SingleRow struct {
	Phase, Index int
	Document     string
	Model        string // provider:model asked
	Trial        int
	Criterion    string
	Score        float64
	Reason       string
	Timestamp    time.Time // when the run ended
	Item         string
	Judge        string
	AnsweredBy   string // provider:model that answered
	Candidate    string
}

// PanelRow is an agent's score of one document on one dimension.
type PanelRow struct {
	Phase, Index int
	Document     string
	Agent        string
	Dimension    string    // by id
	Score        *float64  // nil: the run failed
	Argument     string    // or the replacement text
	Model        string    // provider:model asked
	Timestamp    time.Time // when the run ended
	Item         string
	AnsweredBy   string // provider:model that answered; empty: none did
	Candidate    string
}
