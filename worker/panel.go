package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// leads reports whether the run makes the one call that asks its agent for all dimensions of
// its document, and pushes the runs that this call does not answer (enqueue.Together).
func (r *run) leads() bool {
	return r.place.Dimension == 0 && enqueue.Together(r.evaluation.asked, r.evaluation.record.Settings, r.plan(), r.place)
}

// others reads which runs of the leader's group have not ended. begun: some have, so their
// answer came before, or they are being retried.
func (r *run) others(ctx context.Context) (open []enqueue.Pending, begun bool, err error) {
	group := r.plan().Group(r.place.Index)
	first, last := group[0], group[len(group)-1]
	states, err := r.store.States(ctx, r.task.Evaluation, r.task.Phase, first, last)
	if err != nil {
		return nil, false, err
	}
	for _, index := range group[1:] {
		state, generation := record.ParseStateByte(states[index-first])
		if state != eval.StateNone {
			begun = true
			continue
		}
		open = append(open, enqueue.Pending{Run: r.plan().Run(index), Generation: generation})
	}
	return open, begun, nil
}

// handOn pushes the runs that the leader leads and that have not ended, except
// those that are about to be recorded. From then on they are runs like any.
func (r *run) handOn(ctx context.Context, except []record.Run) error {
	if r.handedOn {
		return nil
	}
	open, _, err := r.others(ctx)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(p enqueue.Pending) bool {
		return slices.ContainsFunc(except, func(run record.Run) bool { return run.Index == p.Index })
	})
	q := &enqueue.Enqueuer{Store: r.store, Log: r.log, Queued: r.queued()}
	err = q.Push(ctx, r.evaluation.record, r.evaluation.asked, r.task.Phase, open)
	r.handedOn = err == nil
	return err
}

// askTogether makes the leader's call for all dimensions, takes the usable parts of the answer,
// and leaves the rest to be asked for singly. over is false when the leader's own dimension is
// part of the rest, or there was nothing to ask together.
//
// Killed before the answer is recorded, the call is repeated, like any other. Its answers are
// recorded in one step; after that it is never repeated: the leader is recorded, or other runs
// of the group are, or its progress says so.
func (r *run) askTogether(ctx context.Context) (over bool, err error) {
	open, begun, err := r.others(ctx)
	if err != nil || len(open) == 0 {
		return false, err
	}
	if _, words := r.wordsOnly.Load(r.judge.Target()); begun || words || r.progress.Taken {
		r.takenOnce()
		return false, r.handOn(ctx, nil)
	}
	together := append([]enqueue.Pending{{Run: r.place, Generation: r.task.Generation}}, open...)
	answer, err := r.answerTo(ctx, together)
	var gave *gaveUp
	switch {
	case errors.As(err, &gave) && !singly(gave.class):
		return true, r.fail(gave)
	case err != nil && gave == nil:
		return true, err
	case gave != nil && gave.noJSON:
		r.sayWordsOnly()
	}
	var taken []record.Run
	if answer != nil {
		taken = r.outcomesOf(together, *answer)
	}
	if len(taken) > 0 && taken[0].Index == r.place.Index {
		return true, r.succeed(taken[0], taken[1:]...)
	}
	err = r.life.persist(func(ctx context.Context) error { return r.handOn(ctx, taken) })
	if err == nil {
		err = r.take(taken)
	}
	return false, err
}

// answerTo is the answer to several dimensions: a score of each that could be used.
func (r *run) answerTo(ctx context.Context, together []enqueue.Pending) (*record.Run, error) {
	positions := make([]int, len(together))
	dimensions := make([]eval.Dimension, len(together))
	ids := make([]string, len(together))
	for i, run := range together {
		positions[i], dimensions[i] = run.Dimension, r.evaluation.asked.Panel.Dimensions[run.Dimension]
		ids[i] = dimensions[i].ID
	}
	own := r.dimension
	r.dimension = strings.Join(ids, ",")
	defer func() { r.dimension = own }()
	q, err := r.questionOf(ctx, positions...)
	if err != nil {
		return nil, err
	}
	q.read = func(text string) (record.Run, error) { // unusable parts are asked for singly, not repaired
		scores, corrupt := verdict.Batch(text, dimensions, r.evaluation.asked.Panel.Scale)
		if len(corrupt) > 0 {
			r.logger().Warn().Strs("raw", corrupt).Msg("part of an answer to several dimensions is invalid; asking for these dimensions separately")
		}
		return record.Run{Scores: scoresOf(scores)}, nil
	}
	q.enforced = true
	return r.askAny(ctx, q)
}

// sayWordsOnly notes that the agent's model has no JSON mode, so that no further leader
// asks it for several dimensions, and says so once.
func (r *run) sayWordsOnly() {
	if _, said := r.wordsOnly.LoadOrStore(r.judge.Target(), true); !said {
		r.log.Warn().Str("provider", r.judge.Provider).Str("model", r.judge.Model).
			Msg("the model has no JSON mode: asking for each dimension separately although batching is on")
	}
}

// singly reports whether dimensions are asked for by themselves after a call for all of
// them has failed for good: unless each of those calls would fail for the same reason.
func singly(class providers.Class) bool {
	switch class {
	case providers.Auth, providers.QuotaBilling, providers.QuotaDaily, providers.ModelUnavailable, providers.Lost, providers.Cancelled:
		return false
	}
	return true
}

// outcomesOf are the outcomes of those runs that an answer has a score for.
func (r *run) outcomesOf(together []enqueue.Pending, answer record.Run) []record.Run {
	var outcomes []record.Run
	for _, run := range together {
		id := r.evaluation.asked.Panel.Dimensions[run.Dimension].ID
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

// take records outcomes of runs that the leader leads, without its own, or notes
// that there are none.
func (r *run) take(outcomes []record.Run) error {
	r.takenOnce()
	if len(outcomes) > 0 {
		return r.recordAll(eval.StateSucceeded, outcomes)
	}
	return r.save()
}

// takenOnce notes that the answer to all dimensions was taken: its kept parts are no answer to
// the leader's own dimension, and failed calls for all dimensions are no attempts at it.
func (r *run) takenOnce() {
	if !r.progress.Taken {
		r.progress.Fallen.Spent += r.failures()
		r.progress.Taken, r.progress.Answer, r.progress.AnswerBy, r.progress.Unusable = true, "", "", 0
	}
}

func (r *run) readPanel(text string) (record.Run, error) {
	panel := r.evaluation.asked.Panel
	scores, err := verdict.Panel(text, panel.Dimensions[r.place.Dimension:r.place.Dimension+1], panel.Scale)
	return record.Run{Scores: scoresOf(scores)}, err
}

// argumentOf replaces the argument of a failed run.
func (r *run) argumentOf(class providers.Class) string {
	switch class {
	case providers.RateLimited, providers.Overloaded, providers.Transient, providers.Timeout,
		providers.Malformed, providers.Ungrounded, providers.Unreasoned: // asked as often as it may be
		return fmt.Sprintf("Evaluation failed after %d retries", r.evaluation.record.Settings.Retry.MaxAttempts)
	}
	return "Evaluation failed: " + string(class)
}
