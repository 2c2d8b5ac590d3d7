package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
)

// textCacheBytes bounds the document texts that a worker remembers. Plans are
// tiled, so that neighbouring runs share documents.
const textCacheBytes = 64 << 20

// evaluation is everything a worker needs to carry out an evaluation's runs.
type evaluation struct {
	record record.Evaluation
	asked  *eval.Evaluation
	plans  []*plan.Plan
}

// evaluations remembers what was read from Redis. It is safe for concurrent
// use.
type evaluations struct {
	store   *store.Store
	reading singleflight.Group // one reader of each evaluation

	mu    sync.Mutex // guards all below; not held while Redis is asked
	known map[eval.ID]*evaluation
	texts map[string]string
	bytes int
}

func newEvaluations(s *store.Store) *evaluations {
	return &evaluations{store: s, known: map[eval.ID]*evaluation{}, texts: map[string]string{}}
}

// load reads an evaluation, or remembers it. store.ErrNoEvaluation when it was
// deleted.
func (c *evaluations) load(ctx context.Context, id eval.ID) (*evaluation, error) {
	c.mu.Lock()
	e, ok := c.known[id]
	c.mu.Unlock()
	if ok {
		return e, nil
	}
	// Handlers of a new evaluation's first tasks all come here at once.
	read, err, _ := c.reading.Do(string(id), func() (any, error) { return c.read(ctx, id) })
	if err != nil {
		return nil, err
	}
	return read.(*evaluation), nil
}

func (c *evaluations) read(ctx context.Context, id eval.ID) (*evaluation, error) {
	r, err := c.store.WithChoices(ctx, id)
	if err != nil {
		return nil, err
	}
	asked, err := c.store.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	plans, err := enqueue.Plans(asked, r)
	if err != nil {
		return nil, err
	}
	e := &evaluation{record: r, asked: asked, plans: plans}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[id] = e
	return e, nil
}

// forget makes the next load read the evaluation again; its settings may have
// changed.
func (c *evaluations) forget(id eval.ID) {
	c.mu.Lock()
	delete(c.known, id)
	c.mu.Unlock()
}

// created says when the records were made of those of ids that are remembered.
func (c *evaluations) created(ids []eval.ID) map[eval.ID]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[eval.ID]time.Time{}
	for _, id := range ids {
		if e := c.known[id]; e != nil {
			times[id] = e.record.Created
		}
	}
	return times
}

// keep forgets every evaluation that is not among ids.
func (c *evaluations) keep(ids []eval.ID) {
	wanted := make(map[eval.ID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.known {
		if !wanted[id] {
			delete(c.known, id)
		}
	}
}

// textsOf reads the texts of documents, from memory where it can.
func (c *evaluations) textsOf(ctx context.Context, id eval.ID, documents ...eval.Document) (map[string]string, error) {
	texts := make(map[string]string, len(documents))
	var missing []string
	c.mu.Lock()
	for _, d := range documents {
		if text, ok := c.texts[d.Hash]; ok {
			texts[d.Hash] = text
		} else {
			missing = append(missing, d.Hash)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return texts, nil
	}
	read, err := c.store.Documents(ctx, id, missing...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for hash, text := range read {
		if _, known := c.texts[hash]; !known {
			if c.bytes += len(text); c.bytes > textCacheBytes {
				c.texts, c.bytes = map[string]string{}, len(text)
			}
			c.texts[hash] = text
		}
		texts[hash] = text
	}
	return texts, nil
}

// find reads or remembers a task's evaluation and finds the task's place in its plan. A
// task that is not of the plan remembered may be of a phase that was chosen since; one
// that is not of the evaluation as it stands now is refused with errNoRun.
func (c *evaluations) find(ctx context.Context, t record.Task) (*evaluation, plan.Run, error) {
	e, err := c.load(ctx, t.Evaluation)
	if err == nil && !e.has(t) {
		c.forget(t.Evaluation)
		c.reading.Forget(string(t.Evaluation)) // what is being read may be as old
		e, err = c.load(ctx, t.Evaluation)
	}
	if err != nil {
		return nil, plan.Run{}, err
	}
	if !e.has(t) {
		return nil, plan.Run{}, fmt.Errorf("task %s: %w", t.ID(), errNoRun)
	}
	return e, e.plans[t.Phase].Run(t.Index), nil
}

var errNoRun = errors.New("its evaluation has no such run")

// has reports whether a task is one of the evaluation's runs.
func (e *evaluation) has(t record.Task) bool {
	return t.Phase < len(e.plans) && !e.plans[t.Phase].Open() && t.Index < e.plans[t.Phase].Runs()
}
