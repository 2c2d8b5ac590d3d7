package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/rescue"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// inForce are the limits and cooldowns of a fleet at one moment.
type inForce struct {
	usage     []ratelimit.Usage
	cooldowns []ratelimit.Cooldown
	at        time.Time
}

func (f *fleet) readLimits(ctx context.Context) (*inForce, error) {
	usage, err := f.limits.Usage(ctx)
	if err != nil {
		return nil, err
	}
	cooldowns, err := f.limits.Cooldowns(ctx)
	return &inForce{usage, cooldowns, time.Now()}, err
}

func (f *fleet) allLimits(ctx context.Context) (*Limits, error) {
	limits, err := f.readLimits(ctx)
	if err != nil {
		return nil, err
	}
	l := &Limits{Live: true}
	l.Limits, l.Cooldowns = limits.view(func(ratelimit.Scope) bool { return true })
	l.Workers, err = f.workersAlive(ctx)
	return l, err
}

// keptBy says which scopes' limits an evaluation's calls keep. Whom they go to
// never changes, and is read once.
func (f *fleet) keptBy(ctx context.Context, r record.Evaluation) (func(ratelimit.Scope) bool, error) {
	f.mu.Lock()
	judges, known := f.judges[r.ID]
	f.mu.Unlock()
	if !known {
		e, err := f.store.Plan(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		judges = r.Settings.Everyone(e)
		f.mu.Lock()
		f.judges[r.ID] = judges
		f.mu.Unlock()
	}
	return func(of ratelimit.Scope) bool {
		return slices.ContainsFunc(judges, func(j eval.Judge) bool {
			return of.Matches(ratelimit.Scope{Provider: j.Provider, Model: j.Model, Evaluation: string(r.ID)})
		})
	}, nil
}

// boundBy says what an active evaluation's calls wait for, whoever's calls do.
func boundBy(limits []Limit, cooldowns []Cooldown) string {
	var words []string
	for _, c := range cooldowns {
		words = append(words, c.Words)
	}
	for _, l := range limits {
		if l.Binds {
			words = append(words, l.Words)
		}
	}
	return strings.Join(words, "; ")
}

// view are the limits and cooldowns of the scopes that are kept.
func (now *inForce) view(kept func(ratelimit.Scope) bool) (limits []Limit, cooldowns []Cooldown) {
	limits, cooldowns = []Limit{}, []Cooldown{}
	for _, u := range now.usage {
		if !kept(u.Limit.Scope) {
			continue
		}
		l := Limit{
			ID: u.Limit.ID(), Words: u.Limit.String(), Waiting: u.Waiting, Binds: u.Binds(),
			State: state(u, now.at), PinnedBy: u.Holders, Pinned: rescue.Pinners(u.Holders),
		}
		l.InUse, l.Share = used(u)
		limits = append(limits, l)
	}
	for _, c := range now.cooldowns {
		if scope, ok := ratelimit.CooldownScope(c.ID); ok && kept(scope) {
			cooldowns = append(cooldowns, Cooldown{ID: c.ID, Words: c.String(), Why: c.Why(), Left: clock(c.Wait), LeftS: c.Wait.Seconds()})
		}
	}
	return limits, cooldowns
}

// used says how much of a limit is used, in words and in percent.
func used(u ratelimit.Usage) (words string, share int) {
	switch {
	case u.Limit.Kind == ratelimit.Concurrency && u.Allowed == 0:
		return fmt.Sprintf("%d in flight", u.InUse), 100
	case u.Limit.Kind == ratelimit.Cost && u.Closed:
		return "unknown of " + ratelimit.Dollars(u.Allowed), 100
	case u.Limit.Kind == ratelimit.Cost:
		return ratelimit.Dollars(u.Spent) + " of " + ratelimit.Dollars(u.Allowed), int(min(100, 100*u.Spent/u.Allowed))
	case u.Allowed > 0:
		words = fmt.Sprintf("%d of %d", u.InUse, u.Allowed)
		if u.Limit.Window.Length > 0 {
			words += " in " + u.Limit.Window.Length.String()
		}
		return words, int(min(100, 100*int64(u.InUse)/u.Allowed))
	case u.Wait > 0: // a rate knows only when it admits the next call
		return "next in " + u.Wait.Round(time.Millisecond).String(), 100
	}
	return "free", 0
}

// state says what is to be known of a limit besides: that it binds, that it is
// cut, when it is reset.
func state(u ratelimit.Usage, now time.Time) string {
	var words []string
	if u.Binds() {
		words = append(words, "binds now")
	}
	switch {
	case u.Cap > 0:
		words = append(words, fmt.Sprintf("cut from %d, %s ago, as the provider refused calls", u.Cap, clock(now.Sub(u.Cut))))
	case u.Limit.Adaptive:
		words = append(words, "adapts, and is at its cap")
	}
	if u.Limit.Resets != "" && u.Wait > 0 {
		words = append(words, "resets in "+clock(u.Wait))
	}
	if u.Closed {
		words = append(words, "closed, until its evaluation is submitted again where its results can be read")
	}
	return strings.Join(words, "; ")
}
