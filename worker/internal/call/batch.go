package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

const (
	// batchSubmit is how long the lease of a batch counts that is being submitted by a worker that dies. By then another
	// has found the batch, or submitted it.
	batchSubmit = 3 * AskTime
	// batchCancel is how long before the end of its time a batch is cancelled. Providers then finish what they have
	// begun, which takes up to ten minutes.
	batchCancel = 15 * time.Minute
	// batchLook is how long after a submission without an answer the batch is looked for: providers list what was
	// submitted with a delay.
	batchLook = time.Minute
	// batchTries is how often that is done before its lease is released.
	batchTries = 4
	// batchBefore is by how much the clock of a provider may be behind Redis's.
	batchBefore = 10 * time.Minute
)

// Line is one request of a batch, and the run that it is of.
type Line struct {
	Request    *providers.Request
	Index      int // of the run
	Generation int
	Position   int // of the run in its queue
}

// lineName returns what batches call the request of a run.
func lineName(phase, index, generation int) string {
	return fmt.Sprintf("r%d-%d-%d", phase, index, generation)
}

// Answer is how one line of a batch ended: with a result or an error.
type Answer struct {
	Result *providers.Result
	Err    error // an *providers.Error
}

// Batch is a batch that has ended.
type Batch struct {
	Job     record.Job
	answers map[string]Answer // by lineName
}

// Answer returns the answer to a run's request; false: there is none.
func (b *Batch) Answer(index, generation int) (Answer, bool) {
	answer, ok := b.answers[lineName(b.Job.Call.Phase, index, generation)]
	return answer, ok
}

// batches returns what submits batches to a step's model; nil: nothing does, or its account cannot be called from here.
func (c *Caller) batches(s Step) providers.Batches {
	endpoint := c.endpoint(s)
	if endpoint.Capabilities == nil || !endpoint.Capabilities(s.Target.Model).Batch {
		return nil
	}
	batches, _ := endpoint.Provider.(providers.Batches)
	return batches
}

// TakesBatches reports whether a model can be asked in batches from here.
func (c *Calls) TakesBatches(target eval.Judge) bool {
	return c.by.batches(Step{Target: target}) != nil
}

// InBatches returns a model as the target of a step that asks it in a batch: of the tier that batches have, so that their
// limits, cooldowns and prices are its own.
func InBatches(target eval.Judge) eval.Judge { return target.InTier(ratelimit.TierBatch) }

// Batch submits a batch of runs, or polls once the batch that this or another worker submitted, and returns its answers
// when it has ended. While it runs at the provider, the run that leads it is in its queue, like the run of a job.
//
// lines are asked for when a batch is to be submitted. Those that do not fit are not in it: the job says which are.
// Errors are those of Make. Once the batch has ended, its cost is counted, and Settle must record it.
func (c *Calls) Batch(ctx context.Context, s Step, lines func(context.Context) ([]Line, error)) (*Batch, error) {
	if job := c.run.Progress.Job; job != nil {
		return c.pollBatch(ctx, s, *job)
	}
	begun, same := c.run.Progress.Submitting, c.run.Progress.Lines
	if left := AskTime + AskTime/4 - c.run.Now().Sub(begun); !begun.IsZero() && left > 0 {
		// A worker that was frozen while it submitted can still record the batch.
		return nil, &run.PutBack{Delay: min(left, jobBack), Why: "another worker is submitting its batch"}
	}

	if !begun.IsZero() {
		if s.Account = c.run.Progress.Account; c.by.batches(s) == nil {
			return nil, &run.PutBack{Delay: batchLook, Why: evaluations.ErrElsewhere.Error()}
		}
	}

	all, err := lines(ctx)
	if err != nil {
		return nil, err
	}
	if s.Lines = all[:min(same, len(all))]; begun.IsZero() || same == 0 {
		s.Lines = c.fit(s, all)
	}
	if len(s.Lines) == 0 {
		return nil, &run.GaveUp{Class: providers.ContextLength, Message: "no request fits into a batch"}
	}

	for {
		s.Request = s.Lines[0].Request
		err := c.submitBatch(ctx, s)
		if !errors.Is(err, errTooLarge) {
			return nil, err
		}
		if !c.run.Progress.Submitting.IsZero() {
			if found, err := c.findUncounted(ctx, s); found || err != nil {
				return nil, err
			}
			continue
		}
		s.Lines = s.Lines[:(len(s.Lines)+1)/2]
	}
}

// findUncounted looks for a batch that may have been submitted by a worker whose lease still counts it, so that the limits
// have no room for a second one. If it exists, the run has it; if not, the run may submit a smaller one.
func (c *Calls) findUncounted(ctx context.Context, s Step) (found bool, err error) {
	call := c.newCall(s, "")
	call.Started, call.Account = call.Asked, s.Account
	asking, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	c.run.Calls(AskTime)

	id, err := c.find(asking, s, c.batchName(call))
	switch {
	case err != nil:
		return false, c.run.GoBack(ctx, batchLook, "its batch may have been submitted")
	case id == "":
		c.notSubmitting()
		return false, nil
	}

	c.run.Progress.Job = c.submitted(s, call, id)
	if err := c.run.SaveJob(ctx); err != nil {
		return true, err
	}
	return true, c.run.GoBack(ctx, firstPoll, "its batch is running at the provider")
}

// submitted returns the job of a batch that the provider has. The run submits it no longer.
func (c *Calls) submitted(s Step, call *record.Call, id string) *record.Job {
	c.notSubmitting()
	return &record.Job{
		ID: id, Ends: call.Started.Add(c.run.Settings().Batch.Deadline + batchCancel), Call: *call,
		Runs: len(s.Lines), To: s.Lines[len(s.Lines)-1].Position + 1,
	}
}

// notSubmitting notes that no job or batch of the run is being submitted.
func (c *Calls) notSubmitting() {
	c.run.Progress.Submitting, c.run.Progress.Lines, c.run.Progress.Account = time.Time{}, 0, ""
}

// errTooLarge means that a limit, or what is left of a budget, is smaller than a batch.
var errTooLarge = errors.New("the batch is larger than its limits")

// fit returns the first of the lines that one batch may have: by the provider's bounds, and by the limits of enqueued
// tokens.
func (c *Calls) fit(s Step, lines []Line) []Line {
	bounds, scope := c.by.batches(s).BatchBounds(), c.run.Scope(s.Target).At(s.at())
	tokens := int64(0)
	for _, limits := range [][]ratelimit.Limit{c.by.Limits, c.run.Settings().Limits} {
		for _, limit := range limits {
			if limit.Kind == ratelimit.EnqueuedTokens && limit.Matches(scope) && (tokens == 0 || limit.Max < tokens) {
				tokens = limit.Max
			}
		}
	}

	bytes, whole, enqueued := int64(0), int64(0), int64(0)
	for i, line := range lines {
		for _, message := range line.Request.Messages {
			bytes += int64(len(message.Content))
			for _, image := range message.Images {
				whole += int64(len(image.Data) + len(image.URL))
			}
		}
		if line.Request.Schema != nil {
			bytes += int64(len(line.Request.Schema.Schema))
		}
		input, _ := c.by.Tokens.Reserve(s.Target.Target(), line.Request, false)
		enqueued += input
		// JSON makes a text up to twice as long, unless it consists of control characters. It leaves images as they are.
		if i == bounds.Requests || 2*bytes+whole > bounds.Bytes || tokens > 0 && enqueued > tokens {
			return lines[:i]
		}
	}
	return lines
}

// submitBatch submits a batch under a lease that counts all its lines. As with a job, that it is being submitted is
// recorded first. If its worker dies in between, the next one looks for the batch under its name.
func (c *Calls) submitBatch(ctx context.Context, s Step) error {
	call := c.newCall(s, "")
	lease, err := c.begin(ctx, call, &s, batchSubmit, true)
	if err != nil {
		return err
	}
	id, err := c.findOrSubmit(ctx, s, call)
	for tries := 0; mayExist(err) && tries < batchTries; tries++ { // under the lease, which counts the batch
		if err := c.awaitBatch(ctx); err != nil {
			c.landUnused(ctx)
			return err
		}
		id, err = c.findOrSubmit(ctx, s, call)
	}

	var failed *providers.Error
	switch {
	case err == nil:
		c.noteTrouble(ctx, s, lease, nil) // the provider answers
		return c.runs(ctx, lease, c.submitted(s, call, id))
	case mayExist(err):
		c.landUnused(ctx)
		return c.run.GoBack(ctx, batchLook, "its batch may have been submitted")
	case !errors.As(err, &failed): // nothing was sent
		c.landUnused(ctx)
		return err
	}

	if !errors.Is(err, errNotLooked) {
		c.notSubmitting()
	}
	c.noteTrouble(ctx, s, lease, err)
	return c.end(ctx, s, call, lease, nil, err, AskTime)
}

// errNotLooked means that the account was refused when a batch was looked for: waiting does not help, and whether the
// batch exists is as unknown as before.
var errNotLooked = errors.New("cannot look for a batch that may have been submitted")

// mayExist reports whether a batch may have been submitted although err says nothing of it.
func mayExist(err error) bool {
	var failed *providers.Error
	if errors.Is(err, errNotLooked) {
		return false
	}
	return errors.Is(err, providers.ErrUndecided) || errors.As(err, &failed) && failed.MayBeBilled
}

// awaitBatch waits until a batch whose submission was not answered can be found at its provider.
func (c *Calls) awaitBatch(ctx context.Context) error {
	for range batchLook / run.InPlace {
		if err := c.run.Pause(ctx, run.InPlace, "its batch may have been submitted"); err != nil {
			return err
		}
	}
	return nil
}

// findOrSubmit returns the ID of the batch that an earlier worker submitted, or of a new one.
func (c *Calls) findOrSubmit(ctx context.Context, s Step, call *record.Call) (string, error) {
	batches, key, name, phase := c.by.batches(s), c.by.endpoint(s).Key, c.batchName(call), c.run.Task.Phase
	lasting, release := c.by.Worker.Ledger.Lasting(ctx)
	defer release()
	limited, cancel := context.WithTimeout(lasting, AskTime)
	defer cancel()
	c.run.Calls(AskTime)

	if !c.run.Progress.Submitting.IsZero() {
		if id, err := c.find(limited, s, name); id != "" || err != nil {
			return id, err
		}
	}

	c.run.Progress.Submitting, c.run.Progress.Lines, c.run.Progress.Account = c.run.Now(), len(s.Lines), s.Account
	if err := c.run.Save(ctx); err != nil {
		return "", err
	}
	requests := make([]providers.BatchRequest, len(s.Lines))
	for i, line := range s.Lines {
		requests[i] = providers.BatchRequest{ID: lineName(phase, line.Index, line.Generation), Request: line.Request}
	}
	return batches.SubmitBatch(limited, key, name, requests)
}

// batchName returns the name under which a batch is submitted and looked for.
func (c *Calls) batchName(call *record.Call) string {
	task := c.run.Task
	return fmt.Sprintf("%s-%d-%d-%d-%d", task.Evaluation, task.Phase, task.Index, task.Generation, call.Attempt)
}

// find looks for the batch that may have been submitted. If that fails, whether it exists is as unknown as before, and it
// is looked for again: a minute later, or if the account was refused, when its provider is resumed.
func (c *Calls) find(ctx context.Context, s Step, name string) (id string, err error) {
	since := c.run.Progress.Submitting.Add(-batchBefore)
	id, err = c.by.batches(s).FindBatch(c.withOthers(ctx), c.by.endpoint(s).Key, name, since, len(s.Lines))
	if record.PausesProvider(providers.ClassOf(err)) {
		return "", fmt.Errorf("%w: %w", errNotLooked, err)
	}
	if err != nil {
		c.run.Log().Info().Err(err).Str("name", name).Msg("cannot look for a batch that may have been submitted; retrying")
		return "", fmt.Errorf("%w: %w", providers.ErrUndecided, err)
	}
	return id, nil
}

// withOthers tells FindBatch which batches are known to be others of the evaluation, as far as Redis knows them.
func (c *Calls) withOthers(ctx context.Context) context.Context {
	jobs, err := c.by.Worker.Store.Jobs(ctx, c.run.Task.Evaluation)
	if err != nil {
		return ctx
	}
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return providers.WithOtherBatches(ctx, ids...)
}

// pollBatch asks once how far a batch is. A batch that has not ended in its time is cancelled, and what it has answered
// by then is taken.
func (c *Calls) pollBatch(ctx context.Context, s Step, job record.Job) (*Batch, error) {
	left, err := c.stillCounts(ctx, job)
	if err != nil {
		return nil, err
	}
	s.Account = job.Call.Account
	batches, key := c.by.batches(s), c.by.endpoint(s).Key
	if batches == nil || c.by.pooled(s) {
		lost, back := c.awayFrom(s, job, left)
		if back == nil {
			return nil, c.failBatch(ctx, s, job, lost)
		}
		return nil, back
	}
	asking, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	c.run.Calls(AskTime)

	state, err := batches.PollBatch(asking, key, job.ID)
	switch {
	case providers.ClassOf(err) == providers.Lost:
		return nil, c.failBatch(ctx, s, job, err)
	case err == nil && state.Failure != nil:
		return nil, c.failBatch(ctx, s, job, state.Failure)
	case err == nil && state.Ended:
		return c.readBatch(asking, batches, key, job)
	case left <= 0:
		if err := batches.CancelBatch(asking, key, job.ID); err != nil {
			c.run.Log().Warn().Err(err).Str("batch", job.ID).Msg("cannot cancel a batch that took too long")
		}
		return nil, c.failBatch(ctx, s, job, &providers.Error{Class: providers.Timeout, MayBeBilled: true,
			Message: fmt.Sprintf("the batch %s has not ended in %s", job.ID, job.Timeout().Round(time.Second))})
	case err == nil && left <= batchCancel:
		err = batches.CancelBatch(asking, key, job.ID)
	}

	if err != nil && ctx.Err() == nil {
		c.run.Log().Info().Err(err).Str("batch", job.ID).Msg("cannot poll a batch; retrying")
	}
	return nil, &run.PutBack{Delay: nextPoll(job.Timeout()-left, left), Why: "its batch is running at the provider"}
}

// failBatch ends a batch of which nothing was answered, as a failed call.
func (c *Calls) failBatch(ctx context.Context, s Step, job record.Job, failure error) error {
	s.Request = &providers.Request{Model: s.Target.Model} // only its usage would matter, and there is none
	_, err := c.endJob(ctx, s, job, nil, failure)
	return err
}

// readBatch reads the answers of a batch that has ended. Of two with one name the first counts. Answers to nobody's
// requests change nothing, and are bounded in number.
func (c *Calls) readBatch(ctx context.Context, batches providers.Batches, key string, job record.Job) (*Batch, error) {
	b := &Batch{Job: job, answers: make(map[string]Answer, job.Runs)}
	prefix := fmt.Sprintf("r%d-", job.Call.Phase)
	err := batches.BatchAnswers(ctx, key, job.ID, func(name string, result *providers.Result, err error) error {
		c.run.Steps()
		_, twice := b.answers[name]
		if twice || !strings.HasPrefix(name, prefix) || len(b.answers) == 2*job.Runs {
			return nil
		}
		if result != nil {
			result.Raw = nil
		}
		b.answers[name] = Answer{result, err}
		return nil
	})
	switch {
	case providers.ClassOf(err) == providers.Malformed:
		c.run.Log().Warn().Err(err).Str("batch", job.ID).Msg("some answers of a batch cannot be read; asking for these again")
	case err != nil:
		c.run.Log().Info().Err(err).Str("batch", job.ID).Msg("cannot read the answers of a batch; retrying")
		return nil, &run.PutBack{Delay: lastPoll, Why: "the answers of its batch cannot be read"}
	}
	return b, nil
}

// Settle makes the limits and the budget count what a batch has used, and ends its lease. If one of its answers does not
// tell its cost, the batch is counted as reserved. It may be repeated, also by another worker: that the limits need not
// count the batch again is saved first.
func (c *Calls) Settle(ctx context.Context, b *Batch) error {
	used := ratelimit.Used{Input: b.Job.Input, Output: b.Job.Output, Cost: b.Job.Cost}
	if cost, known := c.costOf(b); known {
		used.Cost = cost
	}
	settled := b.Job
	settled.Lease.Limits = nil
	c.run.Progress.Job = &settled
	if err := c.run.Save(ctx); err != nil {
		return err
	}
	c.by.Worker.Ledger.DropJob(b.Job.ID) // first: a look must not count it again
	err := c.run.Persist(ctx, func(ctx context.Context) error { return c.by.Worker.Admin.EndBackground(ctx, b.Job.ID, &used) })
	if err == nil {
		c.run.Progress.Job = nil
	}
	return err
}

// costOf returns the cost of a batch's answers, in nano-USD; false: an answer does not tell it.
func (c *Calls) costOf(b *Batch) (total int64, known bool) {
	known = true
	for _, answer := range b.answers {
		c.believe(b.Job.Call.Model, answer.Result, answer.Err)
		priced := answer.Result
		if priced != nil {
			own := *priced // price notes the cost in it, which is for the record of the call
			priced = &own
		}
		cost := c.price(&record.Call{Model: b.Job.Call.Model}, 0, priced, answer.Err)
		known = known && cost != unknownCost
		total += cost
	}
	return total, known
}

// Take keeps the record of the run's call in a batch that was settled. leads says that the run leads the batch, and its
// record is that of the batch's job, too. The error is the call's failure.
func (c *Calls) Take(ctx context.Context, s Step, job record.Job, answer Answer, leads bool) error {
	key, err := c.key(s)
	if err != nil {
		return err
	}
	call := c.newCall(s, key)
	call.Account = job.Call.Account
	call.Asked, call.Started, call.Ended, call.Worker = job.Call.Asked, job.Call.Started, c.run.Now().UTC(), job.Call.Worker
	if call.ID = job.Call.ID; !leads {
		call.ID = fmt.Sprintf("%s.%d-in-%s", c.run.Task.RunID().Short(), c.run.Task.Generation, job.Call.ID)
	}
	if answer.Err == nil && readReported(answer.Result.Usage) {
		c.by.Tokens.Settled(call.Model, s.Request, answer.Result.Usage)
	}
	c.price(call, c.mostCost(s, s.Request), answer.Result, answer.Err)
	return c.note(ctx, s, call, answer.Result, answer.Err, job.Timeout())
}
