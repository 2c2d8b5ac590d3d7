// Package results moves an evaluation's results out of Redis into its one results store. It reads
// them back row by row, and writes the files made from them.
//
// A Store is the store, a Collector drains one evaluation's stream into it, and Export writes the
// CSVs and the manifest. Found reads the results that later phases depend on. The package computes
// no rankings (Export receives the finished rows), does not decide when an evaluation is over, and
// does not bound the stream.
package results

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

var (
	// ErrNoEvaluation means that the results store, or Redis, does not know the
	// evaluation.
	ErrNoEvaluation = errors.New("no such evaluation")
	// ErrOtherStore means that the evaluation is drained into another results store, and
	// only there.
	ErrOtherStore = errors.New("the evaluation belongs to another results store")
	// ErrNoText means that the results store has no document with a hash.
	ErrNoText = errors.New("no such document")
	// ErrFull means that nothing more can be written: disk full, quota or file size limit
	// reached. Committed results are safe, the rest is still in Redis.
	ErrFull = errors.New("no space left")
	// ErrUnfit means that the named file cannot be a results store: it is something else, was
	// written by a newer program, or cannot be written. The user has to name another file.
	ErrUnfit = errors.New("no usable results database")
	// ErrAway means that the results store's server is unreachable, or that the connection to it
	// was lost. This may pass.
	ErrAway = errors.New("it cannot be reached")
	// ErrNoStore is an ErrUnfit: nothing is there, and Open would create a results store.
	ErrNoStore = errors.New("no results database")
	// ErrBusy means that another program held the results store's lock for longer than busyTimeout.
	// This passes.
	ErrBusy = errors.New("locked by another program")
)

// Store stores evaluations and their results. It is safe for concurrent use, even by several
// processes. Every write is one transaction and may be repeated: the second time changes nothing.
type Store interface {
	Reader
	// PutEvaluation stores e's questions and settings. If e is stored already, it replaces the
	// settings, votes, phases, and the facts about items that are not part of the identity; Created
	// and Finished stay. An evaluation that was cancelled or has stopped resumes, unless
	// e.Cancelled or e.Stopped is set.
	//
	// texts are the documents, and the votes that e.Settings name, by hash; texts that are stored
	// already may be omitted. If the text of a document or the votes are missing, PutEvaluation
	// fails and stores nothing.
	PutEvaluation(ctx context.Context, e Evaluation, texts iter.Seq2[string, string]) error
	// Append stores entries of an evaluation that PutEvaluation has stored (otherwise
	// ErrNoEvaluation), all of them or none. A run's row is replaced only by a higher generation,
	// or by a success after a failure in its own generation.
	Append(ctx context.Context, id eval.ID, entries []record.Entry) error
	// Choose stores what an open phase of an evaluation compares and its resulting number of runs,
	// unless a choice is stored already. It returns the stored choice, which is final:
	// PutEvaluation does not change it.
	Choose(ctx context.Context, id eval.ID, phase int, chosen record.Phase) (*plan.Choice, error)
	// Finish stores when the evaluation's last run ended.
	Finish(ctx context.Context, id eval.ID, at time.Time) error
	// Cancel stores that the evaluation was cancelled, which holds until PutEvaluation stores it
	// again.
	Cancel(ctx context.Context, id eval.ID, at time.Time) error
	// Stop stores why the fleet stopped the evaluation, which holds until PutEvaluation stores it
	// again.
	Stop(ctx context.Context, id eval.ID, why Stop) error
	// PutVote stores a vote from the page where people vote. v.Changes is 1 for a first vote on the pair, or 1 above that
	// of the undone one; stored is false if this is not the next change of the person on the pair, as of a vote that
	// arrives twice or after it was undone.
	PutVote(ctx context.Context, id eval.ID, v PageVote) (stored bool, err error)
	// UndoVote takes a vote from the page back, at v.At: that of v.Annotator on v's documents with v.Changes. undone is
	// false if there is none, or it is undone already.
	UndoVote(ctx context.Context, id eval.ID, v PageVote) (undone bool, err error)
}

// Reader reads a results store. It reads rows on demand, so an evaluation may be larger than
// memory. An iteration that fails yields its error last. Queries about an evaluation that is not
// stored yield no rows.
type Reader interface {
	// ID returns the results store's random identity, which stays with the data even if it is
	// moved.
	ID() string
	// Evaluations lists the stored evaluations, oldest first.
	Evaluations(ctx context.Context) ([]Listed, error)
	// Evaluation returns one stored evaluation, or ErrNoEvaluation. A results store does not keep
	// the queues of its phases.
	Evaluation(ctx context.Context, id eval.ID) (Evaluation, error)
	// Text returns the text of the document with a hash, or ErrNoText.
	Text(ctx context.Context, hash string) (string, error)
	// Texts returns the texts of documents by hash, or ErrNoText if one is not stored.
	Texts(ctx context.Context, hashes []string) (map[string]string, error)
	// Counts returns the progress of each phase, in order of phases.
	Counts(ctx context.Context, id eval.ID) ([]PhaseCounts, error)
	// States yields the recorded runs of a phase by index.
	States(ctx context.Context, id eval.ID, phase int) iter.Seq2[RunState, error]
	// Runs yields the runs in one of states, or all if none are given, by phase and index.
	Runs(ctx context.Context, id eval.ID, states ...eval.State) iter.Seq2[RunRow, error]
	// PairwiseRows yields the verdicts on pairs by phase and index.
	PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[PairwiseRow, error]
	// SingleRows yields the scores by phase, index and criterion.
	SingleRows(ctx context.Context, id eval.ID) iter.Seq2[SingleRow, error]
	// PanelRows yields what agents said about dimensions by phase and index, including runs that
	// failed.
	PanelRows(ctx context.Context, id eval.ID) iter.Seq2[PanelRow, error]
	// Votes yields people's verdicts on pairs of documents, by pair and then by annotator: those of the file that the
	// settings name, and those given on the page where people vote. If a person did something about a pair on the page,
	// the file's vote of that person on it is left out.
	Votes(ctx context.Context, id eval.ID) iter.Seq2[VoteRow, error]
	// PageVotes yields what people said on the page, by pair and then by annotator, including skipped pairs and undone
	// votes.
	PageVotes(ctx context.Context, id eval.ID) iter.Seq2[PageVote, error]
	// Responses yields the runs of eval.KindRuns and eval.KindPrompts, as Runs does,
	// with their answers.
	Responses(ctx context.Context, id eval.ID) iter.Seq2[RunRow, error]
	// PromptRows yields the runs of eval.KindPrompts that were answered or failed, in the order in
	// which they ended, with their answers.
	PromptRows(ctx context.Context, id eval.ID) iter.Seq2[PromptRow, error]
	// Run returns one run with its verdict or answer, and its fallbacks; found is false if it is
	// not recorded.
	Run(ctx context.Context, run eval.RunID) (row RunRow, found bool, err error)
	// Search returns a page of the runs that match a Filter. It looks at no more than MostLooked of
	// them, so that it is fast even if almost none match.
	Search(ctx context.Context, id eval.ID, s Search) (Page, error)
	// SearchCount counts the runs that match a filter, within the bounds of a search; exact is
	// false if there may be more.
	SearchCount(ctx context.Context, id eval.ID, f Filter) (n int, exact bool, err error)
	// Jobs returns the submitted jobs whose calls have not ended. Those that have time left, by
	// Redis's clock, may still be running at their providers.
	Jobs(ctx context.Context, id eval.ID) ([]record.Job, error)
	// Calls yields the calls made for one run, in the order in which they asked for admission,
	// including those with a discarded outcome.
	Calls(ctx context.Context, run eval.RunID) iter.Seq2[record.Call, error]
	// AllCalls yields the calls of all runs of an evaluation, by phase and index, and then as Calls does.
	AllCalls(ctx context.Context, id eval.ID) iter.Seq2[record.Call, error]
	// Named returns what providers called the models that answered, by the model asked.
	Named(ctx context.Context, id eval.ID) (map[string][]string, error)
	// NotSent lists what calls asked for and their models refuse.
	NotSent(ctx context.Context, id eval.ID) ([]NotSent, error)
	// CallTotals sums all calls, including those of discarded runs, by model and stage.
	CallTotals(ctx context.Context, id eval.ID) ([]CallTotal, error)
	// Statistics counts the ended runs by whether the model asked or a fallback answered.
	Statistics(ctx context.Context, id eval.ID) (Statistics, error)
	// Waits sums how long calls waited to be admitted, by the limit that they waited for last, the
	// most frequent first. Calls that no limit held back are one entry with an empty Limit.
	Waits(ctx context.Context, id eval.ID) ([]Wait, error)
	// Pace counts, by phase, the runs that ended at or after since; the zero time counts all. It
	// leaves out phases without such runs.
	Pace(ctx context.Context, id eval.ID, since time.Time) ([]Pace, error)
	// Progress counts recorded runs by phase and judge.
	Progress(ctx context.Context, id eval.ID) ([]Progress, error)
	// OutlaysByJudge and OutlaysByName sum what the calls of ended runs used and how long they took, by judge or by the
	// run's name.
	OutlaysByJudge(ctx context.Context, id eval.ID) ([]Outlay, error)
	OutlaysByName(ctx context.Context, id eval.ID) ([]Outlay, error)
	// Timeline sums the calls by when they began and ended. most, at least 1, bounds the number of periods.
	Timeline(ctx context.Context, id eval.ID, most int) (Timeline, error)
	// MedianLatency returns the median duration of answered calls, from request to answer, to the
	// millisecond; 0 if no call was answered.
	MedianLatency(ctx context.Context, id eval.ID) (time.Duration, error)
	// CallsBegun counts the calls of every evaluation that began at or after from and before to, by
	// record.Call.CalledAt. It leaves out the calls in without, which are named "evaluation.call".
	CallsBegun(ctx context.Context, from, to time.Time, without []string) (map[string]int64, error)
	// CalledBefore reports whether a call of any evaluation began before a time.
	CalledBefore(ctx context.Context, t time.Time) (bool, error)
	// Recorded returns which of the given calls of an evaluation, by their IDs, are recorded.
	Recorded(ctx context.Context, id eval.ID, calls []string) ([]string, error)
	// Spent sums the cost of an evaluation's calls in nano-USD. A call whose cost is unknown counts
	// with its maximum possible cost; unknown counts possibly charged calls for which not even that
	// is known. It leaves out the calls in without, which are named "evaluation.call".
	Spent(ctx context.Context, id eval.ID, without ...string) (nano int64, unknown int, err error)
	// Answered returns the earliest call with that record.Call.Key, in any evaluation, that was
	// answered for a run that succeeded with it; found is false if there is none.
	Answered(ctx context.Context, key string) (call record.Call, found bool, err error)
	// LastCall returns when the last call of any evaluation began; the zero time if none did.
	LastCall(ctx context.Context) (time.Time, error)
	Close() error
}

// Evaluation is an evaluation as stored in a results store.
type Evaluation struct {
	ID        eval.ID
	Plan      *eval.Evaluation
	Settings  record.Settings
	Phases    []record.Phase
	Created   time.Time
	Finished  time.Time // zero: not finished
	Cancelled time.Time // zero: not cancelled, or resumed
	Stopped   *Stop     // nil: not stopped, or resumed
	// OnPage counts what people said on the page where they vote. A results store sets it; PutEvaluation does not store it.
	OnPage VoteTotals
}

// Voted reports whether people have voted, in a file or on the page.
func (e Evaluation) Voted() bool { return e.Settings.Votes != "" || e.OnPage.Votes > 0 }

// Listed is one line of a list of evaluations.
type Listed struct {
	ID        eval.ID
	Name      string
	Created   time.Time
	Finished  time.Time // zero: not finished
	Cancelled time.Time // zero: not cancelled, or resumed
	Stopped   *Stop     // nil: not stopped, or resumed
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

// RunState is the state that Redis keeps of a run that has ended.
type RunState struct {
	Index      int
	State      eval.State
	Generation int
}

// RunRow is a run as it ended, with the usage of all its calls. Its verdict (Winner, Reason,
// Scores) is set only by Reader.Run and Reader.Search; other methods return it as PairwiseRow and
// SingleRow. Its answer (Answer, Answers, Finish) is set by those two and Reader.Responses, its
// fallbacks (Fell) by Reader.Run.
type RunRow struct {
	record.Run
	Used Usage
}

// Usage is the usage of calls. A call that may have been charged but reported no usage is counted
// separately, and never taken as 0.
type Usage struct {
	Calls      int
	FromCache  int   // reused answers, for which no call was made
	Input      int64 // tokens of the calls that reported them; so are the following
	Output     int64
	Cached     int64 // read from the provider's prompt cache
	Written    int64 // written to it
	Reasoning  int64
	Unreported int     // calls, possibly charged, without token counts
	CostUSD    float64 // of the calls that reported a cost
	SavedUSD   float64 // by prompt caches, of the calls whose cost was computed; below 0: they cost more than they saved
	Unpriced   int     // calls, possibly charged, without a cost
}

// CallTotal sums the calls made to one model in one stage.
type CallTotal struct {
	Model string // provider:model
	Stage string
	Usage
	Errors map[string]int // calls that failed, by class
}

// Wait is the time that one limit has cost: from the request for admission to the start of the
// call, including the wait for a slot of the worker.
type Wait struct {
	Limit string // id (ratelimit.Limit.ID); empty: no limit held these calls back
	Calls int
	Total time.Duration
}

// Pace says how many runs of a phase ended in a period. The period begins with the phase's first
// run, or at the time asked for if that is later. It ends with the last of the runs.
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
	Degree                 int // by how much the winner is better; 0: a tie, or the verdict has no degree
	Criteria               []record.Preference
	Chances                *eval.Chances // nil: not known
}

// The two orders in which a pair can be shown.
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
	Criterion    string  // of a rubric: eval.RubricID, or its text in tables
	Points       float64 // of a criterion of a rubric, in tables; 0: not one
	Score        float64
	Reason       string
	Timestamp    time.Time // when the run ended
	Item         string
	Judge        string
	AnsweredBy   string // provider:model that answered
	Candidate    string
}

// PanelRow is an agent's score for one document on one dimension.
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
