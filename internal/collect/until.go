package collect

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// until stops an evaluation as soon as its best candidates are known. Its finding depends only on
// the results store. Each look uses the verdicts of the first pairs of the plan, once all of their
// runs have ended. So the order in which runs end changes nothing, and processes that look at the
// same time agree.
type until struct {
	id       eval.ID
	reader   results.Reader
	enqueuer *enqueue.Enqueuer
	asks     *eval.Evaluation
	rule     rank.Until
	phase    int
	each     int // runs per pair
	before   int // runs of earlier phases
	looked   int // the last look
	last     time.Time
	known    *results.Known // nil: not yet
	// stopped says that the fleet has stopped the evaluation, and stored what was known then; nil:
	// the process that stopped it has not stored that.
	stopped bool
	noted   *results.Known
}

// newUntil returns nil if the evaluation does not end early, or if this program cannot end it.
func newUntil(ctx context.Context, s Settings) (*until, error) {
	how := s.Record.Settings.Until
	if how == nil {
		return nil, nil
	}
	e, err := s.Enqueuer.Store.Questions(ctx, s.Record.ID)
	if err != nil {
		return nil, err
	}

	phase := slices.Index(plan.Phases(e), eval.KindPairwise)
	if phase < 0 || phase >= len(s.Record.Phases) || !plan.Prefixes(e) {
		return nil, nil
	}
	u := &until{
		id: s.Record.ID, reader: s.Results, enqueuer: s.Enqueuer, asks: e, rule: how.Rule(e), phase: phase, each: plan.RunsOfPair(e, phase),
	}
	for _, earlier := range s.Record.Phases[:phase] {
		u.before += earlier.Runs
	}
	if u.stopped = s.Record.Stopped == record.StoppedByUntil; u.stopped {
		stored, err := s.Results.Evaluation(ctx, s.Record.ID)
		if err != nil {
			return nil, err
		}
		if stored.Stopped != nil {
			u.noted = stored.Stopped.Known
		}
	}

	return u, u.rule.Check()
}

// due reports whether a look may be due once that many runs of the evaluation have ended.
func (u *until) due(ended int) bool {
	return u.known == nil && ended >= u.before+u.each*u.rule.Pairs(u.looked+1) && time.Since(u.last) >= askEvery
}

// check finds out whether the best candidates are known, if a look is due. Calls that were in flight at
// the stop add pairs. So for a stopped evaluation, it finds what was known first, not what is known
// by now.
func (u *until) check(ctx context.Context) error {
	u.last = time.Now()
	if u.noted != nil {
		u.known = u.noted
		return nil
	}
	ended := 0
	for run, err := range u.reader.States(ctx, u.id, u.phase) {
		if err != nil {
			return err
		}
		if run.Index != ended || run.State == eval.StateNone {
			break
		}
		ended++
	}

	for last := u.rule.Look(ended / u.each); u.looked < last && u.known == nil; {
		look := last
		if u.stopped {
			look = u.looked + 1
		}
		known, err := results.Look(ctx, u.reader, u.id, u.asks, u.phase, u.each*u.rule.Pairs(look), u.rule, look)
		if err != nil {
			return err
		}
		u.looked, u.known = look, known
	}

	return nil
}

// stopKnown stops the evaluation if its best candidates are known.
func (e *ending) stopKnown(ctx context.Context) error {
	u := e.until
	if u == nil || !u.due(e.tally.now().Ended) {
		return nil
	}
	if err := u.check(ctx); err != nil || u.known == nil {
		return err
	}
	e.asked = time.Time{} // ask Redis at once
	_, err := u.enqueuer.Stop(ctx, u.id, record.StoppedByUntil)
	return err
}
