package view

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Looks reads evaluations repeatedly. It remembers their progress, to compute their rates, and the results of expensive
// reads. It is safe for concurrent use; set Open and Brief before.
type Looks struct {
	// Open opens the results store of an evaluation for reading. It returns nil if that is not possible from here,
	// which it logs. If Open is nil, no results store is read.
	Open func(context.Context, record.Evaluation) results.Reader
	// Rank ranks what a results store has of an evaluation, for an evaluation whose record in Redis has no result. It is
	// called for at most MostRanked runs. nil: no such evaluation has a result.
	Rank func(context.Context, results.Reader, eval.ID) (record.Result, error)
	// Brief omits the queues in lists, and everything in results stores except failures and usage.
	Brief bool

	log zerolog.Logger

	mu     sync.Mutex // guards judges and paces
	judges map[eval.ID][]eval.Judge
	paces  map[phaseKey]*Pace

	reading sync.Mutex // guards stored; held while one results store is read
	stored  map[eval.ID]*storedNumbers
}

type phaseKey struct {
	evaluation eval.ID
	phase      int
}

// NewLooks returns Looks that have read nothing yet.
func NewLooks(log zerolog.Logger) *Looks {
	return &Looks{log: log, judges: map[eval.ID][]eval.Judge{}, paces: map[phaseKey]*Pace{}, stored: map[eval.ID]*storedNumbers{}}
}

// InRedis reads evaluations from Redis. It omits those that have expired or were deleted.
func (l *Looks) InRedis(ctx context.Context, f Redis, ids []eval.ID, now time.Time) ([]Evaluation, error) {
	all, err := f.Store.Standings(ctx, ids)
	if err != nil {
		return nil, err
	}
	in, err := f.inForce(ctx)
	if err != nil {
		return nil, err
	}

	alive, err := f.WorkersAlive(ctx)
	if err != nil {
		return nil, err
	}
	list := []Evaluation{}
	for _, id := range ids {
		e, r, err := l.read(ctx, f, id, all[id], in, now)
		switch {
		case errors.Is(err, store.ErrNoEvaluation):
			continue
		case err != nil && quarantine.Concerns(err):
			e = Evaluation{ID: id, Name: r.Name, Status: StatusUnreadable, Created: r.Created, Phases: []Phase{}, Unreadable: err.Error()}
		case err != nil:
			return nil, err
		case !l.Brief && e.UnderWay():
			if e.Queues, err = f.queuesOf(ctx, r); err != nil {
				return nil, err
			}
		}
		e.Workers = &alive
		list = append(list, e)
	}

	return list, nil
}

// One reads an evaluation from Redis with its queues and the limits on its calls.
func (l *Looks) One(ctx context.Context, f Redis, id eval.ID, now time.Time) (Evaluation, Limits, error) {
	standings, err := f.Store.Standings(ctx, []eval.ID{id})
	if err != nil {
		return Evaluation{}, Limits{}, err
	}
	in, err := f.inForce(ctx)
	if err != nil {
		return Evaluation{}, Limits{}, err
	}

	e, r, err := l.read(ctx, f, id, standings[id], in, now)
	if err != nil {
		return e, Limits{}, err
	}
	alive, err := f.WorkersAlive(ctx)
	if err != nil {
		return e, Limits{}, err
	}

	e.Workers = &alive
	if e.Queues, err = f.queuesOf(ctx, r); err != nil {
		return e, Limits{}, err
	}
	kept, err := l.Kept(ctx, f, r)
	if err != nil {
		return e, Limits{}, err
	}

	limits, err := f.limits(ctx, in, kept, now)
	return e, limits, err
}

// unattended is how long results may wait for a collecting process before a missing controller is worth a word.
const unattended = time.Minute

// batches returns an evaluation's batches that run at the providers; nil: there are none.
func (f Redis) batches(ctx context.Context, r record.Evaluation) (*Batches, error) {
	if r.Settings.Batch == nil {
		return nil, nil
	}
	jobs, err := f.Store.Jobs(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	var b Batches
	for _, job := range jobs {
		if job.Runs == 0 {
			continue
		}
		b.Batches, b.Runs = b.Batches+1, b.Runs+job.Runs
		if b.Oldest.IsZero() || job.Call.Started.Before(b.Oldest) {
			b.Oldest = job.Call.Started
		}
	}
	if b.Batches == 0 {
		return nil, nil
	}
	return &b, nil
}

func (l *Looks) read(
	ctx context.Context, f Redis, id eval.ID, at store.Standing, in inForce, now time.Time,
) (Evaluation, record.Evaluation, error) {
	r, err := f.Store.Evaluation(ctx, id)
	if err == nil {
		err = at.Unreadable
	}
	if err != nil {
		return Evaluation{}, r, err
	}

	e := inRecord(r, at)
	e.Budget = budgetOf(r, in.usage)
	if at.Waiting > 0 {
		if e.Unattended, err = f.Store.Unattended(ctx, id, unattended); err != nil {
			return e, r, err
		}
	}
	held := false // no runs can end, so a rate would be outdated
	if e.Status == record.StatusActive {
		kept, err := l.Kept(ctx, f, r)
		if err != nil {
			return e, r, err
		}
		paused, all, err := gate.HoldPaused(ctx, f.Store.Client(), r.QueueNames())
		if err != nil {
			return e, r, err
		}
		e.BoundBy = slices.Concat(in.holds, paused, in.binding(kept, now))
		held = len(in.holds) > 0 || all
		if e.Batches, err = f.batches(ctx, r); err != nil {
			return e, r, err
		}
	}

	l.addStored(ctx, &e, r, now)
	if !slices.ContainsFunc(e.Phases, func(p Phase) bool { return p.RatePerS != nil }) {
		e.addWholeRate(now)
	}
	l.notePace(&e, now)
	for i := range e.Phases {
		if held {
			e.Phases[i].setPerSecond(0, false)
		}
	}

	return e, r, nil
}

// InFolder reads the evaluations in a results store. status returns the status of an evaluation.
func (l *Looks) InFolder(
	ctx context.Context, reader results.Reader, only eval.ID, status func(results.Listed) record.Status, now time.Time,
) ([]Evaluation, error) {
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Evaluation, 0, len(listed))
	for _, of := range listed {
		if only != "" && of.ID != only {
			continue
		}
		counts, err := reader.Counts(ctx, of.ID)
		if err != nil {
			return nil, err
		}
		e := Evaluation{ID: of.ID, Name: of.Name, Created: of.Created, Status: status(of)}
		if e.Status == StatusStopped {
			e.Stopped = of.Stopped
		}
		for _, phase := range counts {
			of := Phase{Kind: phase.Kind, Runs: phase.Runs, Succeeded: phase.Succeeded, Failed: phase.Failed}
			if e.Status == record.StatusCancelled { // a results store has no rows of cancelled runs
				of.Cancelled = phase.Runs - phase.Succeeded - phase.Failed
			}
			e.Phases = append(e.Phases, of)
		}
		if stored, err := reader.Evaluation(ctx, of.ID); err == nil {
			for i := range min(len(e.Phases), len(stored.Phases)) {
				e.Phases[i].Strong, e.Phases[i].Open = stored.Phases[i].Strong, stored.Phases[i].Open
			}
			e.Fallback = stored.Settings.Fallback
			e.Budget = budgetOf(record.Evaluation{ID: of.ID, Settings: stored.Settings}, nil)
		}
		l.addStored(ctx, &e, record.Evaluation{ID: of.ID, Name: of.Name}, now)
		l.notePace(&e, now)
		list = append(list, e)
	}

	return list, nil
}

// inRecord returns the progress of an evaluation according to its record in Redis.
func inRecord(r record.Evaluation, at store.Standing) Evaluation {
	e := Evaluation{
		ID: r.ID, Name: r.Name, Status: at.Status, Created: r.Created, Fallback: r.Settings.Fallback, Uncollected: at.Waiting,
		Paused: at.Paused, Result: r.Result,
	}
	if e.Status == record.StatusPaused && record.HasEnded(at.Status, at.Stopped) {
		e.Status = StatusStopped
	}
	for i, phase := range r.Phases {
		of := Phase{Kind: phase.Kind, Runs: phase.Runs, Strong: phase.Strong, Open: phase.Open}
		for queue := range phase.Queues {
			of.Succeeded += at.Counts[record.CountField(i, eval.StateSucceeded, queue)]
			of.Failed += at.Counts[record.CountField(i, eval.StateFailed, queue)]
			of.Cancelled += at.Counts[record.CountField(i, eval.StateCancelled, queue)]
		}
		e.Phases = append(e.Phases, of)
	}
	return e
}

// Kept returns a function that selects the limits on an evaluation's calls. It reads the plan, which is large and never
// changes, once, and fails if a program of this version cannot process the plan.
func (l *Looks) Kept(ctx context.Context, f Redis, r record.Evaluation) (func(ratelimit.Limit) bool, error) {
	l.mu.Lock()
	judges, known := l.judges[r.ID]
	l.mu.Unlock()
	if !known {
		_, e, _, err := enqueue.Read(ctx, f.Store, r.ID)
		if err != nil {
			return nil, err
		}
		judges = r.Settings.Everyone(e)
		for _, j := range slices.Clone(judges) {
			if batch := r.Settings.Batch; batch != nil && slices.Contains(batch.Models, j.Target()) {
				judges = append(judges, j.InTier(ratelimit.TierBatch))
			}
		}
		l.mu.Lock()
		l.judges[r.ID] = judges
		l.mu.Unlock()
	}

	return func(limit ratelimit.Limit) bool {
		return slices.ContainsFunc(judges, func(j eval.Judge) bool {
			return limit.Concerns(ratelimit.Scope{Provider: j.Provider, Model: j.Model, Evaluation: string(r.ID), Tier: j.Tier()})
		})
	}, nil
}

// notePace records the progress of each phase. From the second read on, the rate is computed from the recorded
// progress.
func (l *Looks) notePace(e *Evaluation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range e.Phases {
		phase, key := &e.Phases[i], phaseKey{e.ID, i}
		if !e.Active() {
			delete(l.paces, key)
			continue
		}
		pace := l.paces[key]
		if pace == nil {
			pace = &Pace{}
			l.paces[key] = pace
		}
		pace.Note(now, phase.Ended())
		if rate, known := pace.PerSecond(); known && phase.Ended() < phase.Runs {
			phase.setPerSecond(rate, true)
		}
	}
}
