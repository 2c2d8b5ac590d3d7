// Package call makes the calls of runs: it waits for a lease, sends one request, settles the
// lease with what was used, and keeps the call's record.
//
// It decides nothing about the next call: package ask decides what follows from a failure.
package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/fallback"
	"github.com/evalfleet/evalfleet/worker/internal/prefixes"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/tokens"
	"github.com/evalfleet/evalfleet/worker/internal/trouble"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Purposes of a call.
const (
	StageAnswer   = "answer"   // in prose, of a listed run
	StageVerdict  = "verdict"  // the whole verdict
	StageGrounded = "grounded" // the verdict in prose
	StageJSON     = "json"     // the JSON of a verdict in prose
	StageRepair   = "repair"   // repairs an answer that was not a verdict
	StageBatch    = "batch"    // submits a batch; the calls that it answers have stages of their own
)

// Config holds what a Caller needs.
type Config struct {
	Worker    *run.Session
	Slots     int               // calls in flight in this process
	MaxAnswer int               // bytes of one answer
	Limits    []ratelimit.Limit // of the worker's own configuration
	Holder    string            // that the limiter knows Limits by
	Tokens    *tokens.Learnt
	Prefixes  *prefixes.Seen
	Cache     *Cache
	Asides    *Asides
	Troubles  *trouble.Troubles
}

// Caller has what the calls of a worker's session share.
type Caller struct {
	Config
	slots *semaphore.Weighted // calls in flight in this process
	rooms *semaphore.Weighted // bytes of long answers in this process
	said  said
	stops singleflight.Group // of evaluations whose budget is used up
}

// NewCaller returns a Caller without calls.
func NewCaller(cfg Config) *Caller {
	return &Caller{Config: cfg, slots: semaphore.NewWeighted(int64(cfg.Slots)), rooms: semaphore.NewWeighted(LongAnswers)}
}

// holders returns the names under which limits must be registered before this worker may call for the evaluation: the
// evaluation's, and the worker's own if its configuration has limits.
func (c *Caller) holders(id eval.ID) []string {
	if len(c.Limits) == 0 {
		return []string{string(id)}
	}
	return []string{string(id), c.Holder}
}

// Calls makes the calls of one run while one worker has it. It is used by one goroutine.
type Calls struct {
	by       *Caller
	run      *run.Execution
	chain    *fallback.Chain
	attempt  int             // see Attempt
	restored bool            // a call was under a budget or daily quota
	made     bool            // a call, or its lease taken
	found    trouble.Finding // whose fault the last call's failure was
	slot     bool            // the run holds one of this process's slots
	room     int64           // bytes that the run holds for a long answer
	flight   *flight         // the call in flight; nil: none
	alone    bool            // the cause of the last refusal concerns this run alone
}

// Of returns a Calls for a run.
func (c *Caller) Of(r *run.Execution, chain *fallback.Chain) *Calls {
	return &Calls{by: c, run: r, chain: chain}
}

// Made reports whether a call was made or its lease was acquired.
func (c *Calls) Made() bool { return c.made }

// Attempt returns the number of the last call, from 1. A call that the run is not charged for has the same number as
// the next one.
func (c *Calls) Attempt() int { return c.attempt }

// Step is one answer wanted from one model. It may take several calls.
type Step struct {
	Target  eval.Judge // who is called
	Account string     // of the target's provider where the call is made; empty: not known yet, or the provider has none
	Stage   string     // what for
	Request *providers.Request
	Lines   []Line // of a batch, whose first request is Request; nil: the step is none
}

// at returns where the call is made: the account, or the provider.
func (s Step) at() string { return cmp.Or(s.Account, s.Target.Provider) }

// requests returns the requests that the step sends.
func (s Step) requests() []*providers.Request {
	if s.Lines == nil {
		return []*providers.Request{s.Request}
	}
	all := make([]*providers.Request, len(s.Lines))
	for i, line := range s.Lines {
		all[i] = line.Request
	}
	return all
}

// Event returns an event about a call of the step.
func (s Step) Event(name string) observe.Event {
	return observe.Event{Event: name, Provider: s.Target.Provider, Account: s.Account, Model: s.Target.Model}
}

// Make makes one call under a lease, or answers it from the cache, and keeps its record. A call
// that failed is a *providers.Error; any other error means that no call was made, or that one
// continues as a job.
func (c *Calls) Make(ctx context.Context, s Step) (*providers.Result, error) {
	once := c.once
	if c.InBackground(s.Target) {
		once = c.job
	}
	key, err := c.key(s)
	if err != nil {
		return nil, err
	}
	if c.run.Progress.Job == nil {
		if result := c.fromCache(ctx, s, key); result != nil {
			return result, nil
		}
	}
	for {
		result, err := once(ctx, s, key)
		if !errors.Is(err, providers.ErrAgain) {
			return result, err
		}
	}
}

func (c *Calls) once(ctx context.Context, s Step, key string) (*providers.Result, error) {
	call, timeout := c.newCall(s, key), c.run.Settings().Timeout(s.Target)
	lease, err := c.begin(ctx, call, &s, timeout, false)
	if err != nil {
		return nil, err
	}
	c.run.Calls(timeout)
	limited, cancel := lease.Context(ctx)
	ended := c.by.Worker.Doubts.Calls(c.run.Task.Evaluation, s.at())
	prefixes := c.prefixes(s)
	result, err := c.provider(s).Call(limited, s.Request)
	if err == nil {
		prefixes.Answered(result.Usage)
	}
	err = failureOf(limited, err)
	if c.noteTrouble(ctx, s, lease, err); !c.found.Own {
		err = c.doubted(s, err)
	}
	ended()
	cancel()
	return result, c.end(ctx, s, call, lease, result, err, timeout)
}

// newCall returns the record of a call that is about to be asked for.
func (c *Calls) newCall(s Step, key string) *record.Call {
	c.attempt, c.found, c.alone = c.run.Progress.Attempts+1, trouble.Finding{}, false
	return &record.Call{
		ID:    c.nextCallID(),
		Phase: c.run.Task.Phase, Index: c.run.Task.Index, Generation: c.run.Task.Generation,
		Stage: s.Stage, Model: s.Target.Target(), Attempt: c.attempt,
		Asked: c.run.Now().UTC(), Worker: c.by.Worker.ID, Key: key,
	}
}

// nextCallID names a call, or another attempt to acquire a lease for it. No name is used twice. After Redis has
// forgotten that a run was pulled, the same worker may have it a second time, and two calls under one lease would count
// as one.
func (c *Calls) nextCallID() string {
	return fmt.Sprintf("%s.%d-%s", c.run.Task.RunID().Short(), c.run.Task.Generation, c.by.Worker.Name())
}

// provider returns the provider that takes the step's request to its model.
func (c *Calls) provider(s Step) providers.Provider {
	endpoint := c.by.endpoint(s)
	if c.run.Task.Kind == eval.KindPrompts && endpoint.Prompts != nil {
		return endpoint.Prompts
	}
	return endpoint.Provider
}

// endpoint returns the endpoint where a step's call is made.
func (c *Caller) endpoint(s Step) providers.Endpoint { return c.Worker.Endpoints[s.at()] }

// begin waits for the lease of a call, or of a job that continues at its provider, and notes in the step at which account
// it is made. The caller must send the request at once.
func (c *Calls) begin(ctx context.Context, call *record.Call, s *Step, timeout time.Duration, isJob bool) (*ratelimit.Lease, error) {
	open := c.open(*s)
	if len(open) == 0 {
		return nil, c.leaveToOthers(ctx)
	}
	c.LeaveRoom() // waiting for a lease must not block readers
	c.run.Move(share.Ready)
	c.run.EmitQueueing(s.Target)
	lease, err := c.admit(ctx, call, *s, open, timeout, isJob)
	for held := (*cooled)(nil); errors.As(err, &held); {
		if err := c.stepAside(ctx, *s, held.wait); err != nil {
			return nil, err
		}
		c.run.Move(share.Ready)
		lease, err = c.admit(ctx, call, *s, open, timeout, isJob)
	}

	if err != nil {
		c.run.SayPutBack(s.Target, err)
		return nil, err
	}
	if lease.Provider() != s.Target.Provider {
		s.Account, call.Account = lease.Provider(), lease.Provider()
		call.ID = strings.TrimPrefix(lease.ID(), string(c.run.Task.Evaluation)+".") // by which budgets and quotas know it
	}
	c.run.Move(share.Flying)
	c.made, c.flight = true, &flight{call, lease, time.Now()}
	c.by.Worker.Observer.Spending(observe.Spending{Evaluation: c.run.Task.Evaluation, Nano: lease.Reserved().Cost})
	c.run.EmitSlots(s.Event(observe.EventAcquired), lease, 0)
	c.run.See(lease.Now())
	call.Started = c.run.Now().UTC()
	if call.Asked.After(call.Started) { // Redis's clock was set back
		call.Asked = call.Started
	}
	c.by.Worker.Observer.Begun(observe.Begun{Call: lease.ID(), Target: call.CalledAt(), At: call.Started})
	for _, request := range s.requests() {
		request.Key = c.by.endpoint(*s).Key
	}
	s.Request.IdempotencyID, s.Request.Ready, s.Request.Connected = call.ID, lease.Check, lease.Connected
	return lease, nil
}

// end releases a call's lease and keeps the call's record.
func (c *Calls) end(
	ctx context.Context, s Step, call *record.Call, lease *ratelimit.Lease, result *providers.Result, err error,
	timeout time.Duration,
) error {
	c.run.Steps()
	defer c.by.Worker.Ledger.Ending()()
	call.Ended = c.run.Now().UTC()
	used := c.settle(ctx, lease, s, call, lease.Reserved(), result, err)
	lease.Settle(settlementOf(used, result, err))
	c.chain.NoteRefusal(s.Target, err) // before another takes the slot
	// Before another can be told that it has the slot.
	c.run.EmitSlots(s.Event(observe.EventReleased), lease, 1)
	release(lease, err)
	c.freeSlot()
	c.run.Move(share.Resting)
	c.counted(ctx, lease)
	c.restored = c.restored || lease.Restored()
	err = c.note(ctx, s, call, result, err, timeout)
	c.flight = nil
	return err
}
