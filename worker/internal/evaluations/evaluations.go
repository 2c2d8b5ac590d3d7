// Package evaluations caches the evaluations whose runs a worker executes: their records and
// texts, and whether their calls may start.
package evaluations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// textCacheBytes bounds the document texts that a worker keeps in memory. The runs of a
// pair follow each other and share its texts. Pairs that follow each other have other texts, so if all texts of an
// evaluation are larger than this, workers read them again for many pairs.
const textCacheBytes = 64 << 20

// Cached is everything a worker needs to process an evaluation's runs.
type Cached struct {
	Record record.Evaluation
	Asked  *eval.Evaluation
	Plans  []*plan.Plan
	Read   time.Time // when it was read, on this process's clock; not before its last change
}

// Cache keeps the evaluations that it reads from Redis. It is safe for concurrent use.
type Cache struct {
	store   *store.Store
	reading singleflight.Group // at most one read of each evaluation at a time

	mu    sync.Mutex // guards all below; not held during I/O with Redis
	known map[eval.ID]*Cached
	texts map[string]string
	bytes int
}

// New returns an empty cache that reads from a store.
func New(s *store.Store) *Cache {
	return &Cache{store: s, known: map[eval.ID]*Cached{}, texts: map[string]string{}}
}

// Load returns an evaluation, from memory or from Redis. The error is store.ErrNoEvaluation if the evaluation was
// deleted.
func (c *Cache) Load(ctx context.Context, id eval.ID) (*Cached, error) {
	if e := c.remembered(id); e != nil {
		return e, nil
	}
	return c.readOnce(ctx, id, "")
}

// atRevision returns an evaluation whose revision was just read, as Load does. If the cached entry has another revision, at
// reads the evaluation again.
func (c *Cache) atRevision(ctx context.Context, id eval.ID, revision record.Revision) (*Cached, error) {
	if e := c.remembered(id); e != nil && e.Record.Revision == revision {
		return e, nil
	}
	return c.readOnce(ctx, id, revision)
}

// Look drops the cached evaluations among ids whose revision has changed, and returns them.
func (c *Cache) Look(ctx context.Context, ids ...eval.ID) (changed []eval.ID, err error) {
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
		if e := c.known[id]; e != nil && e.Record.Revision != revision {
			delete(c.known, id)
			changed = append(changed, id)
		}
	}
	return changed, nil
}

func (c *Cache) remembered(id eval.ID) *Cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

// readOnce reads an evaluation once for all handlers that ask at the same time, as they do for an evaluation's first
// tasks. A handler that saw a revision never shares a read that may have begun before it.
func (c *Cache) readOnce(ctx context.Context, id eval.ID, seen record.Revision) (*Cached, error) {
	read, err, _ := c.reading.Do(string(id)+" "+string(seen), func() (any, error) { return c.read(ctx, id) })
	if err != nil {
		return nil, err
	}
	return read.(*Cached), nil
}

func (c *Cache) read(ctx context.Context, id eval.ID) (*Cached, error) {
	r, asked, plans, err := enqueue.Read(ctx, c.store, id)
	if err != nil {
		return nil, err
	}
	e := &Cached{Record: r, Asked: asked, Plans: plans, Read: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[id] = e
	return e, nil
}

// Forget makes the next Load read the evaluation again, because its settings may have changed.
func (c *Cache) Forget(id eval.ID) {
	c.mu.Lock()
	delete(c.known, id)
	c.mu.Unlock()
}

// Created returns when the records of the cached evaluations among ids were made.
func (c *Cache) Created(ids []eval.ID) map[eval.ID]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[eval.ID]time.Time{}
	for _, id := range ids {
		if e := c.known[id]; e != nil {
			times[id] = e.Record.Created
		}
	}
	return times
}

// Keep drops every evaluation that is not among ids.
func (c *Cache) Keep(ids []eval.ID) {
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

// Texts returns the texts of documents and the images that they show, by hash, from memory if possible.
func (c *Cache) Texts(ctx context.Context, id eval.ID, documents ...eval.Document) (map[string]string, error) {
	texts := make(map[string]string, len(documents))
	var missing []string
	c.mu.Lock()
	for _, d := range documents {
		for _, hash := range d.Hashes() {
			if text, ok := c.texts[hash]; ok {
				texts[hash] = text
			} else {
				missing = append(missing, hash)
			}
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

// Find loads the evaluation of a task, whose revision was read with the task's check, and finds
// the task's place in its plan. It returns ErrNoRun when the evaluation has no such run.
func (c *Cache) Find(ctx context.Context, t record.Task, revision record.Revision) (*Cached, plan.Run, error) {
	e, err := c.atRevision(ctx, t.Evaluation, revision)
	if err != nil {
		return nil, plan.Run{}, err
	}
	if !e.has(t) {
		return nil, plan.Run{}, fmt.Errorf("task %s: %w", t.ID(), ErrNoRun)
	}
	return e, e.Plans[t.Phase].Run(t.Index), nil
}

// ErrNoRun means that a task names a run that its evaluation does not have.
var ErrNoRun = errors.New("its evaluation has no such run")

// has reports whether a task is one of the evaluation's runs.
func (e *Cached) has(t record.Task) bool {
	return t.Phase < len(e.Plans) && !e.Plans[t.Phase].Open() && t.Index < e.Plans[t.Phase].Runs() &&
		t.Kind == e.Record.Phases[t.Phase].Kind
}
