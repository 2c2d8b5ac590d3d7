package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/store"
)

const (
	// keptBytes bounds the outcomes that a worker keeps; the oldest go first.
	keptBytes = 16 << 20
	// goneFor is how long outcomes are kept of an evaluation that Redis does not
	// know any more: it may have been lost, and be submitted again.
	goneFor = 10 * time.Minute
	// clockStep is what Redis's clock may be set forward by unnoticed.
	clockStep = time.Second
)

// kept are outcomes that stand in Redis alone, because no collector has them in
// a sink yet. When Redis loses its memory they are recorded again, so that what
// was answered is not asked again. put is safe for concurrent use; look is for
// one goroutine.
type kept struct {
	store   *store.Store
	suspect bool // whoever looks has it: Redis was away, and may have lost the last it was told

	mu       sync.Mutex     // guards all below
	outcomes []*keptOutcome // oldest first
	bytes    int
}

// keptOutcome is what was recorded of one run.
type keptOutcome struct {
	store.Outcome
	created time.Time // of the record in which it stands; zero: in none
	at      time.Time // when it stood there
}

func newKept(s *store.Store) *kept { return &kept{store: s} }

// put keeps an outcome.
func (k *kept) put(o keptOutcome) {
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

// look records again what Redis has lost, and forgets what is in a sink. It
// calls lost for an evaluation whose record is gone, or is another than before:
// than that of an outcome, or than the one made at the time that held says of it.
func (k *kept) look(ctx context.Context, held map[eval.ID]time.Time, lost func(eval.ID)) error {
	ids := k.evaluations()
	for id := range held {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
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

func (k *kept) lookAt(ctx context.Context, id eval.ID, before time.Time, lost func(eval.ID)) error {
	asked := time.Now()
	held, err := k.store.Held(ctx, id)
	if err != nil {
		return err
	}
	if held.Created.IsZero() {
		lost(id)
		k.forget(func(o *keptOutcome) bool { return o.Run().Evaluation == id && asked.Sub(o.at) > goneFor })
		return nil
	}
	again, replaced := k.missing(id, held.Created)
	if replaced || !before.IsZero() && !before.Equal(held.Created) {
		lost(id)
	}
	for _, o := range again {
		_, err := k.store.Put(ctx, o.Outcome)
		if errors.Is(err, store.ErrNoEvaluation) {
			return nil // gone again
		}
		if err != nil {
			return err
		}
		k.stands(o, held.Created)
	}
	k.forget(func(o *keptOutcome) bool {
		return o.Run().Evaluation == id && o.created.Equal(held.Created) && o.at.Before(asked) &&
			(held.Since < 0 || asked.Sub(o.at) > held.Since+clockStep)
	})
	return nil
}

// evaluations lists those of which something is kept.
func (k *kept) evaluations() []eval.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []eval.ID
	for _, o := range k.outcomes {
		if !slices.Contains(ids, o.Run().Evaluation) {
			ids = append(ids, o.Run().Evaluation)
		}
	}
	return ids
}

// missing are the outcomes that may not stand in the record made at a time.
// replaced: some stood in another.
func (k *kept) missing(id eval.ID, created time.Time) (outcomes []*keptOutcome, replaced bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.outcomes {
		other := !o.created.Equal(created)
		if o.Run().Evaluation == id && (other || k.suspect) {
			outcomes = append(outcomes, o)
			replaced = replaced || other
		}
	}
	return outcomes, replaced
}

func (k *kept) stands(o *keptOutcome, created time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o.created, o.at = created, time.Now()
}

func (k *kept) forget(these func(*keptOutcome) bool) {
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
