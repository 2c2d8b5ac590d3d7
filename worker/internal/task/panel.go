package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// leads reports whether the run is the leader of its group. The leader makes the one call that asks its agent for all
// dimensions of its document, and pushes the runs that this call does not answer (enqueue.Together).
func (p *pull) leads() bool {
	return p.run.Place.Dimension == 0 && enqueue.Together(p.run.Evaluation.Asked, *p.run.Settings(), p.run.Plan(), p.run.Place)
}

// others returns the runs of the leader's group that have not ended. begun reports that some have ended, so their
// answer came earlier, or they are being retried.
func (p *pull) others(ctx context.Context) (open []enqueue.Pending, begun bool, err error) {
	group := p.run.Plan().Group(p.run.Place.Index)
	first, last := group[0], group[len(group)-1]
	states, err := p.by.Worker.Store.States(ctx, p.run.Task.Evaluation, p.run.Task.Phase, first, last)
	if err != nil {
		return nil, false, err
	}
	for _, index := range group[1:] {
		state, generation := record.ParseStateByte(states[index-first])
		if state != eval.StateNone {
			begun = true
			continue
		}
		open = append(open, enqueue.Pending{Run: p.run.Plan().Run(index), Generation: generation})
	}
	return open, begun, nil
}

// handOn pushes the open runs of the leader's group, except those that are about to be recorded. From then on they are
// ordinary runs.
func (p *pull) handOn(ctx context.Context, except []record.Run) error {
	if p.handedOn {
		return nil
	}
	open, _, err := p.others(ctx)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(pending enqueue.Pending) bool {
		return slices.ContainsFunc(except, func(run record.Run) bool { return run.Index == pending.Index })
	})
	err = p.push(ctx, open, nil)
	p.handedOn = err == nil
	return err
}

// askTogether makes the leader's call for all dimensions, takes the usable parts of the answer, and leaves the rest to
// be asked for one by one. over is false if the leader's own dimension is part of the rest, or there was nothing to ask
// together.
//
// If the worker dies before the answer is recorded, the call is repeated, like any other. The outcomes are recorded in
// one step. After that the call is never repeated: the leader is recorded, or other runs of the group are, or the
// leader's progress says so.
func (p *pull) askTogether(ctx context.Context) (over bool, err error) {
	open, begun, err := p.others(ctx)
	if err != nil || len(open) == 0 {
		return false, err
	}
	if _, words := p.by.wordsOnly.Load(p.run.Judge.Target()); begun || words || p.run.Progress.Taken {
		p.takenOnce()
		return false, p.handOn(ctx, nil)
	}
	together := append([]enqueue.Pending{{Run: p.run.Place, Generation: p.run.Task.Generation}}, open...)
	answer, err := p.answerTo(ctx, together)
	var gave *run.GaveUp
	switch {
	case errors.As(err, &gave) && !singly(gave.Class):
		return true, p.fail(ctx, gave)
	case err != nil && gave == nil:
		return true, err
	case gave != nil && gave.NoJSON:
		p.sayWordsOnly()
	}

	var taken []record.Run
	if answer != nil {
		taken = p.outcomesOf(together, *answer)
	}
	if len(taken) > 0 && taken[0].Index == p.run.Place.Index {
		return true, p.succeed(ctx, taken[0], taken[1:]...)
	}
	err = p.run.Persist(ctx, func(ctx context.Context) error { return p.handOn(ctx, taken) })
	if err == nil {
		err = p.recordOthers(ctx, taken)
	}
	return false, err
}

// answerTo asks for several dimensions together and returns the answer: a score for each dimension that could be used.
func (p *pull) answerTo(ctx context.Context, together []enqueue.Pending) (*record.Run, error) {
	positions, ids := make([]int, len(together)), make([]string, len(together))
	for i, run := range together {
		positions[i], ids[i] = run.Dimension, p.run.Evaluation.Asked.Panel.Dimensions[run.Dimension].ID
	}
	own := p.run.Dimension
	p.run.Dimension = strings.Join(ids, ",")
	defer func() { p.run.Dimension = own }()
	return p.asker.AskTogether(ctx, positions)
}

// sayWordsOnly remembers that the agent's model has no JSON mode, so that no further leader asks it for several
// dimensions together, and logs that once.
func (p *pull) sayWordsOnly() {
	if _, said := p.by.wordsOnly.LoadOrStore(p.run.Judge.Target(), true); !said {
		p.by.Worker.Log.Warn().Str("provider", p.run.Judge.Provider).Str("model", p.run.Judge.Model).
			Msg("batching is on, but the model has no JSON mode; asking for each dimension separately")
	}
}

// singly reports whether to ask for each dimension by itself after a call for all of them has failed for good. That is
// useless if each of those calls would fail for the same reason.
func singly(class providers.Class) bool {
	switch class {
	case providers.Auth, providers.QuotaBilling, providers.QuotaDaily, providers.ModelUnavailable, providers.Lost, providers.Cancelled:
		return false
	}
	return true
}

// outcomesOf returns the outcomes of those runs for which an answer has a score.
func (p *pull) outcomesOf(together []enqueue.Pending, answer record.Run) []record.Run {
	var outcomes []record.Run
	for _, run := range together {
		id := p.run.Evaluation.Asked.Panel.Dimensions[run.Dimension].ID
		at := slices.IndexFunc(answer.Scores, func(s record.Score) bool { return s.Criterion == id })
		if at < 0 {
			continue
		}
		outcomes = append(outcomes, record.Run{
			Index: run.Index, Generation: run.Generation, Dimension: id,
			AnsweredBy: answer.AnsweredBy, Scores: answer.Scores[at : at+1],
		})
	}
	return outcomes
}

// recordOthers records outcomes of other runs of the leader's group, or notes that there are none.
func (p *pull) recordOthers(ctx context.Context, outcomes []record.Run) error {
	p.takenOnce()
	if len(outcomes) > 0 {
		return p.run.Record(ctx, eval.StateSucceeded, outcomes)
	}
	return p.run.Save(ctx)
}

// takenOnce records that the answer to all dimensions was taken. Its stored parts do not answer the leader's own
// dimension, and failed calls for all dimensions do not count as attempts at it.
func (p *pull) takenOnce() {
	if !p.run.Progress.Taken {
		p.run.Progress.Fallen.Spent += p.run.Failures()
		p.run.Progress.Taken, p.run.Progress.Answer, p.run.Progress.AnswerBy, p.run.Progress.Unusable = true, "", "", 0
	}
}

// argumentOf returns the text that replaces the argument of a failed run.
func (p *pull) argumentOf(class providers.Class) string {
	switch class {
	case providers.RateLimited, providers.Overloaded, providers.Transient, providers.Timeout,
		providers.Malformed, providers.Ungrounded, providers.Unreasoned: // asked as often as allowed
		return fmt.Sprintf("Evaluation failed after %d retries", p.run.Settings().Retry.MaxAttempts)
	}
	return "Evaluation failed: " + string(class)
}
