// Package quarantine keeps an evaluation that a program cannot read from stopping the others. It
// distinguishes such a failure from one of Redis, and logs each once.
//
// Evaluations are tried again: once a record can be read, because the program was upgraded or the
// record was repaired, its evaluation is processed.
package quarantine

import (
	"errors"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// Quarantine holds the evaluations that a process cannot process. It is safe for concurrent use.
type Quarantine struct {
	log zerolog.Logger

	mu sync.Mutex // guards the fields below
	of map[eval.ID]string
}

// New returns an empty Quarantine.
func New(log zerolog.Logger) *Quarantine {
	return &Quarantine{log: log, of: map[eval.ID]string{}}
}

// Concerns reports whether err is the failure of one evaluation, so that others can continue: its
// record cannot be read, or Redis replies that one of its keys has the wrong type or content. It is
// false for an outage of Redis.
func Concerns(err error) bool {
	return errors.Is(err, store.ErrUnreadable) || outage.Refused(err)
}

// Takes reports whether err concerns one evaluation alone. It logs such an error once.
func (q *Quarantine) Takes(id eval.ID, err error) bool {
	if !Concerns(err) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if why := err.Error(); q.of[id] != why {
		q.of[id] = why
		q.log.Error().Err(err).Str("evaluation", string(id)).
			Msg("cannot read the evaluation; skipping it, the others continue")
	}
	return true
}

// Release notes that an evaluation can be processed.
func (q *Quarantine) Release(id eval.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, held := q.of[id]; held {
		delete(q.of, id)
		q.log.Info().Str("evaluation", string(id)).Msg("the evaluation can be read again; continuing with it")
	}
}

// Keep forgets evaluations that are not among ids.
func (q *Quarantine) Keep(ids []eval.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range q.of {
		if !slices.Contains(ids, id) {
			delete(q.of, id)
		}
	}
}
