package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// Every loop in which a run makes calls is bounded by counts that are stored with
// its progress, because the run may have another worker each time:
//
//	calls that failed           Attempts − Answers − Fallen.Spent ≤ max_attempts
//	answers of no use           Unusable ≤ maxRepairs, for each model asked
//	refusals (429)              Cooled ≤ maxCooled, then they count as attempts;
//	                            with a fallback, Fallen.Refused ≤ max_retries
//	models in its place         Fallen.Asked < their number
//	calls cut off               Cut ≤ record.MaxCut
//	failures of this program    Faults ≤ record.MaxFaults
//	workers that died           Deaths ≤ record.MaxDeaths
//	turns, and the prose that
//	JSON is made of             Said and Answer: each is kept before the next call
//	dimensions asked together   Taken: from then on they are asked for singly
//	jobs at the provider        Job: one at a time, and each counts as a call
//
// A handler saves them whenever it lets go of a run that is not recorded. One that
// cannot, because its process has ended, is counted as a death.

// panicked is a panic of a handler.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// survive runs f and returns its panic as an error.
func survive(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return f()
}

// flight is a call in flight: what a handler that panics must give back and record.
type flight struct {
	call  *record.Call
	lease *ratelimit.Lease
}

// land ends the call that a panic has interrupted, if there is one.
func (r *run) land(cause error) {
	r.freeSlot()
	f := r.flight
	if f == nil {
		return
	}
	r.flight = nil
	f.lease.End(abandonedKeep)
	if job := r.progress.Job; job != nil && job.Call.ID == f.call.ID {
		return // it continues at the provider
	}
	call := *f.call
	call.Ended, call.Class, call.Error, call.MaybeBill = time.Now().UTC(), providers.Lost, cause.Error(), true
	r.progress.Attempts++
	r.calls = append(r.calls, call)
}

// landUnused gives back what a call has that was not sent.
func (r *run) landUnused() {
	_ = r.flight.lease.Release(r.life.lasting) // expires by itself where that fails
	r.flight = nil
	r.freeSlot()
}

// freeSlot gives back the slot of this process that the run has, if it has one.
func (r *run) freeSlot() {
	if r.slot {
		r.slot = false
		r.slots.Release(1)
	}
}

// faulted counts a failure of the program itself, caused by cause, and ends the run when it has
// reached the maximum. Before that the run goes back to its queue. A task whose count cannot be
// stored is archived: it would be retried without end.
func (r *run) faulted(cause error) error {
	r.land(cause)
	r.progress.Faults++
	log := r.logger().Error().Err(cause).Int("faults", r.progress.Faults)
	var p *panicked
	if errors.As(cause, &p) {
		log = log.Bytes("stack", p.stack)
	}
	log.Msg("this program failed at a run")
	if r.evaluation != nil && r.usedUp() {
		err := survive(func() error { return r.giveUp(r.lost(cause)) })
		var back *putBack
		if err == nil || errors.As(err, &back) {
			return err
		}
		cause = err
	}
	switch err := r.save(); {
	case errors.Is(err, store.ErrNoEvaluation):
		return asynq.RevokeTask
	case err != nil && !errors.Is(err, store.ErrTaken), r.progress.Faults > record.MaxFaults:
		return fmt.Errorf("%w: %w", cause, asynq.SkipRetry)
	}
	return &putBack{delay: time.Second, cause: cause}
}

// usedUp reports whether failures of the program have used up what the run may have.
func (r *run) usedUp() bool {
	most := min(record.MaxFaults, r.evaluation.record.Settings.Retry.MaxAttempts)
	return r.progress.Faults >= most || r.failures() >= most
}

// lost is how a run ends at which the program failed.
func (r *run) lost(cause error) *gaveUp {
	return &gaveUp{class: providers.Lost, message: fmt.Sprintf("evalfleet failed %d times at this run: %v", r.progress.Faults, cause)}
}
