// Package ledger writes to Redis what must not be lost, and keeps it until a results store has it: outcomes, calls that
// were paid for, the progress of unfinished runs, and jobs that run at a provider.
package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
)

const (
	// keptBytes bounds the outcomes, calls and progress that a worker keeps; the oldest are dropped first.
	keptBytes = 16 << 20
	// goneFor is how long outcomes are kept for an evaluation that Redis no longer knows: Redis may have lost it, and
	// it may be submitted again.
	goneFor = 10 * time.Minute
	// owedFor is how long an ended call waits to be stored together with its run's next record. After that it is stored
	// without one.
	owedFor = time.Second
	// owedBytes is about the size of one stored entry of such calls.
	owedBytes = 1 << 20
)

// Ledger keeps what would be lost with Redis's memory: outcomes and calls that no collector has moved to a results
// store yet, calls that Redis does not have yet, the progress of unfinished runs, and running jobs. When Redis loses its
// memory the ledger records them again, so that answered calls are not repeated and paid calls stay known. It outlasts
// the sessions of a worker. It is safe for concurrent use, except for Look, which one goroutine may call.
type Ledger struct {
	store   *store.Store
	limiter *ratelimit.Admin
	over    *stop.Signal // given when the ledger is closed
	jobs    jobs

	confirmed chan struct{} // holds one

	mu       sync.Mutex     // guards all below
	outcomes []*keptOutcome // oldest first
	progress map[eval.RunID]*keptOutcome
	bytes    int
	owed     map[string]owedCall // by the call's id
	recorded recorded
	agreed   map[eval.ID]agreement
	lost     []eval.ID // see Lost; replaced, never changed
}

// keptOutcome is a recorded outcome of one run, or of an unfinished one recorded calls or the saved progress.
type keptOutcome struct {
	store.Outcome
	calls    *keptCalls    // nil: it is not calls
	progress *keptProgress // nil: it is not progress
	created  time.Time     // when the record that contains it was made; zero: none does
	// entry is the entry of the results stream that contains it, or an earlier one; none: unknown. Its memory is that
	// of the server that acknowledged it.
	entry store.Entry
	at    time.Time // when it was found there, on this process's clock
}

type keptCalls struct {
	evaluation eval.ID
	calls      []record.Call
	size       int
}

func (o *keptOutcome) evaluation() eval.ID {
	switch {
	case o.calls != nil:
		return o.calls.evaluation
	case o.progress != nil:
		return o.progress.task.Evaluation
	}
	return o.Run().Evaluation
}

// Size returns about how many bytes the kept item takes.
func (o *keptOutcome) Size() int {
	switch {
	case o.calls != nil:
		return o.calls.size
	case o.progress != nil:
		return o.progress.size
	}
	return o.Outcome.Size()
}

// again records an item once more. entry is as in keptOutcome.
func (k *Ledger) again(ctx context.Context, o *keptOutcome) (entry store.Entry, err error) {
	switch {
	case o.calls != nil:
		return k.store.AppendCalls(ctx, o.calls.evaluation, o.calls.calls)
	case o.progress != nil:
		return k.restoreProgress(ctx, o.progress)
	}
	done, err := k.store.Put(ctx, o.Outcome)
	if err == nil && done.Job != nil { // another worker has given the run back its job, which counts under the limits
		if !o.Has(done.Job.Call.ID) {
			err = k.orphan(ctx, o.evaluation(), *done.Job)
		} else {
			err = k.limiter.EndBackground(ctx, done.Job.ID, nil)
		}
	}
	return done.Entry, err
}

// New returns an empty ledger.
func New(s *store.Store, limiter *ratelimit.Admin) *Ledger {
	return &Ledger{
		store: s, limiter: limiter, over: stop.NewSignal(), confirmed: make(chan struct{}, 1),
		progress: map[eval.RunID]*keptOutcome{}, owed: map[string]owedCall{}, agreed: map[eval.ID]agreement{},
	}
}

// ErrClosed is the cause with which pending writes end when the ledger closes.
var ErrClosed = errors.New("the worker has ended")

// Close ends all writes, including those under way.
func (k *Ledger) Close() { k.over.Give(ErrClosed) }

// Lasting returns a context with the values of ctx that ends when the ledger closes, and not
// with ctx.
func (k *Ledger) Lasting(ctx context.Context) (context.Context, func()) {
	return stop.Context(context.WithoutCancel(ctx), k.over)
}

// Closed returns a channel that is closed when the ledger is.
func (k *Ledger) Closed() <-chan struct{} { return k.over.Done() }

// persistWaits are the waits between the tries of Persist.
var persistWaits = backoff.Waits{First: 50 * time.Millisecond, Longest: time.Second, Factor: 2}

// Persist makes a write to Redis that must not be lost. It retries while Redis is unreachable or full, until the ledger
// closes, even if ctx has ended.
func (k *Ledger) Persist(ctx context.Context, write func(context.Context) error) error {
	ctx, release := k.Lasting(ctx)
	defer release()
	for failed := 0; ; failed++ {
		err := write(ctx)
		if err == nil || errors.Is(err, store.ErrNoEvaluation) || errors.Is(err, store.ErrTaken) || outage.Final(err) {
			return err
		}
		if outage.Pause(ctx, persistWaits.After(failed)) != nil {
			return err
		}
	}
}

// PutJob keeps a job that runs at a provider for at most as long as left. It belongs to a run in the record made at
// created.
func (k *Ledger) PutJob(id eval.ID, job record.Job, created time.Time, left time.Duration) {
	k.jobs.put(id, job, created, left)
}

// DropJob forgets a job that has ended.
func (k *Ledger) DropJob(id string) { k.jobs.drop(id) }

// Orphans returns the jobs that no run has and that may go on at their providers.
func (k *Ledger) Orphans() []Orphan { return k.jobs.orphans() }

// OrphanEnded notes that an orphan has ended and that the limits do not count it. Its run still gets it back where its
// evaluation is submitted again, so that its answer is not paid twice.
func (k *Ledger) OrphanEnded(id string) { k.jobs.change(id, func(job *keptJob) { job.over = true }) }

// PutCalls keeps calls of an unfinished run. entry contains them, in the record made at created.
func (k *Ledger) PutCalls(id eval.ID, calls []record.Call, created time.Time, entry store.Entry) {
	if len(calls) == 0 {
		return
	}
	size := 0
	for _, call := range calls {
		size += sizeOf(call)
	}
	k.Stored(calls)
	k.put(keptOutcome{calls: &keptCalls{id, calls, size}, created: created, entry: entry})
}

// sizeOf returns about how many bytes a call takes.
func sizeOf(call record.Call) int {
	return 500 + len(call.Text) + len(call.Reasoning) + len(call.Error)
}

// Kept returns how many outcomes and stored calls are kept, and about how many bytes they take.
func (k *Ledger) Kept() (outcomes, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.outcomes), k.bytes
}

// Put keeps an outcome. entry contains it, in the record made at created; zero: no record has it. The progress of its
// run is not needed any more.
func (k *Ledger) Put(o store.Outcome, created time.Time, entry store.Entry) {
	k.DropProgress(o.Run())
	k.put(keptOutcome{Outcome: o, created: created, entry: entry})
}

func (k *Ledger) put(o keptOutcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep(&o)
}

// keep keeps an item, and drops the oldest ones if they take too much memory by now. The caller has mu.
func (k *Ledger) keep(o *keptOutcome) {
	o.at = time.Now()
	if k.agreed[o.evaluation()].created != o.created.UnixMilli() {
		delete(k.agreed, o.evaluation())
	}
	k.outcomes = append(k.outcomes, o)
	k.bytes += o.Size()
	drop := 0
	for ; k.bytes > keptBytes; drop++ {
		k.dropped(k.outcomes[drop])
	}
	clear(k.outcomes[:drop])
	k.outcomes = k.outcomes[drop:] // append frees the dropped part when it grows the slice
}

// Look records again what Redis has lost, stores calls that have waited too long, and drops what the results store has.
// held gives, by evaluation, when the record was made whose runs are held here.
//
// Look calls lost for an evaluation whose record is gone, is not the record of an outcome, or is not the one made at
// the time in held. It also does so for an evaluation whose runs it has recorded again. memory names the memory of the
// limits that the worker has reported its leases to: see Recorded.
func (k *Ledger) Look(ctx context.Context, memory string, held map[eval.ID]time.Time, lost func(eval.ID)) error {
	all, seen := k.recordFor(memory)
	kept := k.evaluations()
	ids := slices.Clone(kept)
	for id := range held {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, job := range k.jobs.all() {
		if !slices.Contains(ids, job.evaluation) {
			ids = append(ids, job.evaluation)
		}
	}
	k.keepAgreed(held)

	var failed error
	var gone []eval.ID
	for _, id := range ids {
		is, err := k.lookAt(ctx, id, all, held[id], lost)
		failed = errors.Join(failed, err)
		if !is && slices.Contains(kept, id) {
			gone = append(gone, id)
		}
		if outage.Temporary(err) { // for the others as well
			break
		}
	}
	k.setLost(gone)
	seen(failed == nil)
	return failed
}

// lookAt does the work of Look for one evaluation. all: calls that have just ended are stored as well. before is the
// time that Look's held gives. is reports whether Redis has everything that is kept of the evaluation.
func (k *Ledger) lookAt(ctx context.Context, id eval.ID, all bool, before time.Time, lost func(eval.ID)) (is bool, err error) {
	asked := time.Now()
	held, err := k.store.Held(ctx, id)
	if err != nil {
		return false, err
	}
	if err := k.restoreJobs(ctx, id, held); err != nil {
		return false, err
	}
	if held.Created.IsZero() {
		lost(id)
		k.forget(func(o *keptOutcome) bool { return o.evaluation() == id && asked.Sub(o.at) > goneFor })
		k.forgetOwed(id, asked.Add(-goneFor))
		return false, nil
	}

	if held.Status == record.StatusDone || held.Status == record.StatusCancelled {
		k.forget(func(o *keptOutcome) bool { return o.progress != nil && o.evaluation() == id })
	}
	k.mu.Lock()
	again, replaced := k.missing(id, held)
	k.mu.Unlock()
	if replaced || !before.IsZero() && !before.Equal(held.Created) {
		lost(id)
	}
	err = k.storeOwed(ctx, id, all, held.Created)
	for _, o := range again {
		if err != nil {
			break
		}
		var entry store.Entry
		if entry, err = k.again(ctx, o); err == nil {
			k.confirm(o, held.Created, entry)
		}
	}
	if errors.Is(err, store.ErrNoEvaluation) {
		return false, nil // gone again
	}
	if err != nil {
		return false, err
	}
	if len(again) > 0 {
		lost(id) // their tasks may be back too, pulled by now, and wait for calls
	}

	k.forget(func(o *keptOutcome) bool {
		return o.evaluation() == id && o.created.Equal(held.Created) && o.at.Before(asked) && o.stored(held.Oldest)
	})
	return true, nil
}

// evaluations returns the evaluations of which outcomes or calls are kept.
func (k *Ledger) evaluations() []eval.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []eval.ID
	for _, o := range k.outcomes {
		if !slices.Contains(ids, o.evaluation()) {
			ids = append(ids, o.evaluation())
		}
	}
	for _, o := range k.owed {
		if !slices.Contains(ids, o.evaluation) {
			ids = append(ids, o.evaluation)
		}
	}
	return ids
}

// missing returns the outcomes that may be missing from an evaluation: they were acknowledged in another record or
// memory. replaced: some were in another record. The caller has mu.
func (k *Ledger) missing(id eval.ID, held store.Held) (outcomes []*keptOutcome, replaced bool) {
	for _, o := range k.outcomes {
		other := !o.created.Equal(held.Created)
		if o.evaluation() == id && (other || o.entry.Memory != held.Oldest.Memory) {
			outcomes = append(outcomes, o)
			replaced = replaced || other
		}
	}
	return outcomes, replaced
}

// confirm records that entry, in the evaluation's record made at created, contains the outcome.
func (k *Ledger) confirm(o *keptOutcome, created time.Time, entry store.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o.created, o.entry, o.at = created, entry, time.Now()
}

// stored reports whether a results store has the outcome. oldest is the first entry that waits to be moved there; none:
// no entry waits. Entries leave their stream only once a store has them. Only the memory that acknowledged the outcome
// proves this: another may never have had its entry. Its age proves nothing: Redis's clock may have been set in
// between.
func (o *keptOutcome) stored(oldest store.Entry) bool {
	if o.progress != nil {
		return false
	}
	return o.entry.Memory == oldest.Memory && (oldest.None() || !o.entry.None() && o.entry.Before(oldest))
}

func (k *Ledger) forget(these func(*keptOutcome) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outcomes = slices.DeleteFunc(k.outcomes, func(o *keptOutcome) bool {
		if !these(o) {
			return false
		}
		k.dropped(o)
		return true
	})
}

// dropped notes that an item is kept no longer. The caller has mu.
func (k *Ledger) dropped(o *keptOutcome) {
	k.bytes -= o.Size()
	if o.progress != nil {
		delete(k.progress, o.progress.task.RunID())
	}
}
