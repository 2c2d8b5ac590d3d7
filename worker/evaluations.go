package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// textCacheBytes bounds the document texts that a worker remembers. Plans are
// tiled, so that neighbouring runs share documents.
const textCacheBytes = 64 << 20

// evaluation is everything a worker needs to process an evaluation's runs.
type evaluation struct {
	record record.Evaluation
	asked  *eval.Evaluation
	plans  []*plan.Plan
}

// evaluations caches what it reads from Redis. It is safe for concurrent use.
type evaluations struct {
	store   *store.Store
	reading singleflight.Group // one reader of each evaluation

	mu    sync.Mutex // guards all below; not held during I/O with Redis
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
	if e := c.remembered(id); e != nil {
		return e, nil
	}
	return c.readOnce(ctx, id, "")
}

// at is load for an evaluation whose revision was just read: a cached entry of another revision
// is read again.
func (c *evaluations) at(ctx context.Context, id eval.ID, revision record.Revision) (*evaluation, error) {
	if e := c.remembered(id); e != nil && e.record.Revision == revision {
		return e, nil
	}
	return c.readOnce(ctx, id, revision)
}

// look drops the cached evaluations among ids whose revision has changed, and returns them.
func (c *evaluations) look(ctx context.Context, ids ...eval.ID) (changed []eval.ID, err error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id eval.ID) bool { return c.remembered(id) == nil })
	if len(ids) == 0 {
		return nil, nil
	}
	revisions, err := c.store.Revisions(ctx, ids)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, revision := range revisions {
		if e := c.known[id]; e != nil && e.record.Revision != revision {
			delete(c.known, id)
			changed = append(changed, id)
		}
	}
	return changed, nil
}

func (c *evaluations) remembered(id eval.ID) *evaluation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

// readOnce shares a reading among handlers, which all come at once with an evaluation's
// first tasks. Those that saw a revision share none that may have begun before it.
func (c *evaluations) readOnce(ctx context.Context, id eval.ID, seen record.Revision) (*evaluation, error) {
	read, err, _ := c.reading.Do(string(id)+" "+string(seen), func() (any, error) { return c.read(ctx, id) })
	if err != nil {
		return nil, err
	}
	return read.(*evaluation), nil
}

func (c *evaluations) read(ctx context.Context, id eval.ID) (*evaluation, error) {
	r, asked, plans, err := enqueue.Read(ctx, c.store, id)
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

// find loads the evaluation of a task, whose revision was read with the task's check, and finds
// the task's place in its plan. It returns errNoRun when the evaluation has no such run.
func (c *evaluations) find(ctx context.Context, t record.Task, revision record.Revision) (*evaluation, plan.Run, error) {
	e, err := c.at(ctx, t.Evaluation, revision)
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
	return t.Phase < len(e.plans) && !e.plans[t.Phase].Open() && t.Index < e.plans[t.Phase].Runs() &&
		t.Kind == e.record.Phases[t.Phase].Kind
}
