package call

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/trouble"
)

// open returns where this worker may make a step's call now: at the step's account, at accounts of the provider, or at the
// provider, which has none.
func (c *Calls) open(s Step) []string {
	at := []string{s.at()}
	if accounts := c.by.endpoint(s).Accounts; len(accounts) > 0 {
		at = slices.Clone(accounts)
	}
	return slices.DeleteFunc(at, func(at string) bool { return !c.by.Troubles.MayCall(at) })
}

// setAside keeps calls away from the account that failed the step's call, if another account of the provider may still
// answer, here or at another worker: one call at a time tries whether it answers again. The evaluation goes on at the others.
func (c *Calls) setAside(ctx context.Context, s Step, failed *providers.Error) bool {
	configured := slices.Clone(c.by.Worker.Endpoints[s.Target.Provider].Configured)
	others := slices.DeleteFunc(configured, func(at string) bool { return at == s.at() })
	if len(others) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.PauseTime)
	defer cancel()

	limiter := c.by.Worker.Limiter
	answers := func(at string) bool {
		out, err := limiter.Suspended(ctx, ratelimit.Scope{Provider: at})
		return err == nil && !out
	}
	first := answers(s.at())
	if err := limiter.Suspend(ctx, ratelimit.Scope{Provider: s.at()}); err != nil {
		c.by.Worker.Log.Warn().Err(err).Msg("cannot share the trouble of an account with other workers")
		return false
	}
	if !slices.ContainsFunc(others, answers) {
		return false
	}
	if first {
		c.by.Worker.Log.Warn().Str("account", s.at()).Str("class", string(failed.Class)).
			Msgf("account %s fails calls, %s: calls are made at the others, and one at a time tries it", s.at(), failed.Message)
	}
	c.found = trouble.Finding{Out: true, Since: time.Now()}
	return true
}

// pooled reports whether the provider has accounts by now, and the step, of a job, names none of them.
func (c *Caller) pooled(s Step) bool { return s.Account == "" && len(c.endpoint(s).Accounts) > 0 }

// awayFrom returns what becomes of a job at an account that cannot be called from here. It waits for a worker that can, and
// is lost once its time is over.
func (c *Calls) awayFrom(s Step, job record.Job, left time.Duration) (lost, back error) {
	where := s.at()
	if s.Account == "" {
		where += ", as it was before it had accounts"
	}
	if left <= 0 {
		return &providers.Error{Class: providers.Lost, MayBeBilled: true, Message: "it is at " + where + ", which no worker can call"}, nil
	}
	if _, said := c.by.said.away.LoadOrStore(job.ID, true); !said {
		c.run.Log().Warn().Str("job", job.ID).Time("ends", job.Ends).
			Msgf("a job or batch is at %s, which cannot be called from here: its runs wait for a worker that can", where)
	}
	return nil, &run.PutBack{Delay: nextPoll(job.Timeout()-left, left), Why: evaluations.ErrElsewhere.Error()}
}
