// Package ledger writes to Redis what must not be lost, and keeps it until a results store has
// it: outcomes, calls that were paid for, and jobs that run at a provider.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
)

const (
	// keptBytes bounds the outcomes that a worker keeps; the oldest go first.
	keptBytes = 16 << 20
	// goneFor is how long outcomes are kept of an evaluation that Redis does not
	// know any more: it may have been lost, and be submitted again.
	goneFor = 10 * time.Minute
	// verifiedFor is how long a stored outcome is checked for. An unnoticed failover loses only
	// what was written moments before it.
	verifiedFor = time.Minute
)

// Ledger has outcomes and calls that only Redis has, because no collector has moved them to a
// results store yet, and running jobs. When Redis loses its memory they are recorded again, so
// that answered calls are not repeated and paid calls stay known. It outlasts the sessions of a
// worker. It is safe for concurrent use, but for Look and Suspect, which are for one goroutine.
type Ledger struct {
	store   *store.Store
	limiter *ratelimit.Admin
	over    *stop.Signal // nothing can be written any more
	jobs    jobs
	suspect bool // the next look checks it: Redis was away, and may have lost its last writes

	mu       sync.Mutex     // guards all below
	outcomes []*keptOutcome // oldest first
	bytes    int
}

// keptOutcome is a recorded outcome of one run, or recorded calls of an unfinished one.
type keptOutcome struct {
	store.Outcome
	calls   *keptCalls // nil: it is an outcome
	created time.Time  // when the record that contains it was made; zero: none does
	// entry of the results stream is at or after the one that contains it; zero: unknown.
	entry store.Entry
	at    time.Time // when it was found there, on this process's clock
}

type keptCalls struct {
	evaluation eval.ID
	calls      []record.Call
	size       int
}

func (o *keptOutcome) evaluation() eval.ID {
	if o.calls != nil {
		return o.calls.evaluation
	}
	return o.Run().Evaluation
}

// Size is about how many bytes it takes.
func (o *keptOutcome) Size() int {
	if o.calls != nil {
		return o.calls.size
	}
	return o.Outcome.Size()
}

// again records it once more. entry is as in keptOutcome.
func (o *keptOutcome) again(ctx context.Context, s *store.Store) (entry store.Entry, err error) {
	if o.calls != nil {
		return s.AppendCalls(ctx, o.calls.evaluation, o.calls.calls)
	}
	done, err := s.Put(ctx, o.Outcome)
	return done.Entry, err
}

// New returns an empty ledger.
func New(s *store.Store, limiter *ratelimit.Admin) *Ledger {
	return &Ledger{store: s, limiter: limiter, over: stop.NewSignal()}
}

// ErrClosed is the cause with which writes end that could not be made until the ledger closed.
var ErrClosed = errors.New("the worker has ended")

// Close ends all writes, those under way, too.
func (k *Ledger) Close() { k.over.Give(ErrClosed) }

// Lasting returns a context with the values of ctx that ends when the ledger closes, and not
// with ctx.
func (k *Ledger) Lasting(ctx context.Context) (context.Context, func()) {
	return stop.Context(context.WithoutCancel(ctx), k.over)
}

// Closed is closed when the ledger is.
func (k *Ledger) Closed() <-chan struct{} { return k.over.Done() }

// Persist writes data to Redis that must not be lost, and waits while Redis is unreachable or
// full: until the ledger closes, also when ctx has ended.
func (k *Ledger) Persist(ctx context.Context, write func(context.Context) error) error {
	ctx, release := k.Lasting(ctx)
	defer release()
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		err := write(ctx)
		var answered redis.Error
		if err == nil || errors.Is(err, store.ErrNoEvaluation) || errors.Is(err, store.ErrTaken) || (errors.As(err, &answered) && !outage.Passes(err)) {
			return err
		}
		if outage.Pause(ctx, delay) != nil {
			return err
		}
	}
}

// Suspect has the next Look check everything: Redis was away, and may have lost its last writes.
func (k *Ledger) Suspect() { k.suspect = true }

// PutJob keeps a job that runs at a provider, of a run in the record made at a time.
func (k *Ledger) PutJob(id eval.ID, job record.Job, created time.Time) { k.jobs.put(id, job, created) }

// DropJob forgets a job that has ended.
func (k *Ledger) DropJob(id string) { k.jobs.drop(id) }

// PutCalls keeps calls of an unfinished run, which an entry has in the record made at a time.
func (k *Ledger) PutCalls(id eval.ID, calls []record.Call, created time.Time, entry store.Entry) {
	if len(calls) == 0 {
		return
	}
	size := 0
	for _, call := range calls {
		size += 500 + len(call.Text) + len(call.Reasoning) + len(call.Error)
	}
	k.put(keptOutcome{calls: &keptCalls{id, calls, size}, created: created, entry: entry})
}

// Kept returns how many outcomes and stored calls are kept, and about how many bytes they take.
func (k *Ledger) Kept() (outcomes, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.outcomes), k.bytes
}

// Put keeps an outcome that an entry has in the record made at a time; zero: in none.
func (k *Ledger) Put(o store.Outcome, created time.Time, entry store.Entry) {
	k.put(keptOutcome{Outcome: o, created: created, entry: entry})
}

func (k *Ledger) put(o keptOutcome) {
	o.at = time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outcomes = append(k.outcomes, &o)
	k.bytes += o.Size()
	drop := 0
	for ; k.bytes > keptBytes; drop++ {
		k.bytes -= k.outcomes[drop].Size()
	}
	clear(k.outcomes[:drop])
	k.outcomes = k.outcomes[drop:] // append moves the rest, when it must
}

// Look records again what Redis has lost, and drops what the results store has. It calls lost
// for an evaluation whose record is gone, or is not the record of an outcome, or not the one
// made at the time that held gives for it.
func (k *Ledger) Look(ctx context.Context, held map[eval.ID]time.Time, lost func(eval.ID)) error {
	ids := k.evaluations()
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
	for _, id := range ids {
		if err := k.lookAt(ctx, id, held[id], lost); err != nil {
			k.suspect = true
			return err
		}
	}
	k.suspect = false
	return nil
}

func (k *Ledger) lookAt(ctx context.Context, id eval.ID, before time.Time, lost func(eval.ID)) error {
	asked := time.Now()
	held, err := k.store.Held(ctx, id)
	if err != nil {
		return err
	}
	if err := k.jobs.restore(ctx, k.store, k.limiter, id, held.Created, k.suspect); err != nil {
		return err
	}
	if held.Created.IsZero() {
		lost(id)
		k.forget(func(o *keptOutcome) bool { return o.evaluation() == id && asked.Sub(o.at) > goneFor })
		return nil
	}
	again, replaced := k.missing(id, held.Created)
	if held.Status != record.StatusCancelled { // whose runs have no state
		gone, err := k.gone(ctx, id, held.Created)
		if err != nil {
			return err
		}
		again = append(again, gone...)
	}
	if replaced || !before.IsZero() && !before.Equal(held.Created) {
		lost(id)
	}
	for _, o := range again {
		entry, err := o.again(ctx, k.store)
		if errors.Is(err, store.ErrNoEvaluation) {
			return nil // gone again
		}
		if err != nil {
			return err
		}
		k.confirm(o, held.Created, entry)
	}
	k.forget(func(o *keptOutcome) bool {
		return o.evaluation() == id && o.created.Equal(held.Created) && o.at.Before(asked) && o.stored(held.Oldest)
	})
	return nil
}

// evaluations lists those with kept entries.
func (k *Ledger) evaluations() []eval.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []eval.ID
	for _, o := range k.outcomes {
		if !slices.Contains(ids, o.evaluation()) {
			ids = append(ids, o.evaluation())
		}
	}
	return ids
}

// missing are the outcomes that may be missing from the record made at a time. replaced: some
// were in another record.
func (k *Ledger) missing(id eval.ID, created time.Time) (outcomes []*keptOutcome, replaced bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.outcomes {
		other := !o.created.Equal(created)
		if o.evaluation() == id && (other || k.suspect) {
			outcomes = append(outcomes, o)
			replaced = replaced || other
		}
	}
	return outcomes, replaced
}

// gone are the outcomes of the last minute that were in the record made at a time and no longer
// are: after an unnoticed failover the last writes may be missing.
func (k *Ledger) gone(ctx context.Context, id eval.ID, created time.Time) ([]*keptOutcome, error) {
	byPhase := map[int][]*keptOutcome{}
	k.mu.Lock()
	if !k.suspect { // else all are recorded again
		for _, o := range k.outcomes {
			if o.calls == nil && o.Run().Evaluation == id && o.created.Equal(created) && time.Since(o.at) < verifiedFor {
				byPhase[o.Run().Phase] = append(byPhase[o.Run().Phase], o)
			}
		}
	}
	k.mu.Unlock()
	index := func(a, b *keptOutcome) int { return cmp.Compare(a.Run().Index, b.Run().Index) }
	var gone []*keptOutcome
	for phase, outcomes := range byPhase {
		first := slices.MinFunc(outcomes, index).Run().Index
		states, err := k.store.States(ctx, id, phase, first, slices.MaxFunc(outcomes, index).Run().Index)
		if err != nil {
			return nil, err
		}
		for _, o := range outcomes {
			state, generation := record.ParseStateByte(states[o.Run().Index-first])
			if state == eval.StateNone && generation <= o.Generation() { // a later one is a retry
				gone = append(gone, o)
			}
		}
	}
	return gone, nil
}

// confirm notes that an entry of the evaluation made at created has the outcome.
func (k *Ledger) confirm(o *keptOutcome, created time.Time, entry store.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o.created, o.entry, o.at = created, entry, time.Now()
}

// stored reports whether a results store has the outcome, as oldest is the first entry that
// waits for one; zero: none does. Entries leave their stream only once a store has them. Their
// age tells nothing: Redis's clock may have been set in between.
func (o *keptOutcome) stored(oldest store.Entry) bool {
	return oldest == (store.Entry{}) || o.entry != (store.Entry{}) && o.entry.Before(oldest)
}

func (k *Ledger) forget(these func(*keptOutcome) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outcomes = slices.DeleteFunc(k.outcomes, func(o *keptOutcome) bool {
		if !these(o) {
			return false
		}
		k.bytes -= o.Size()
		return true
	})
}
