package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/queue/rescue"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func (f *fleet) allLimits(ctx context.Context) (*Limits, error) {
	now := time.Now()
	limits, err := f.LimitsInForce(ctx, view.AllLimits, nil, now)
	if err != nil {
		return nil, err
	}
	l := &Limits{Live: true, HeldBy: strings.Join(limits.HeldBy, "; ")}
	l.Limits, l.Cooldowns = shownLimits(limits, now)
	l.Workers, err = f.WorkersAlive(ctx)
	return l, err
}

// shownLimits adds words to limits and cooldowns.
func shownLimits(of view.Limits, now time.Time) ([]Limit, []Cooldown) {
	limits, cooldowns := []Limit{}, []Cooldown{}
	for _, l := range of.Limits {
		shown := Limit{Limit: l}
		shown.Shown.InUse, shown.Shown.Share = used(l.Usage)
		shown.Shown.State, shown.Shown.Pinned = state(l.Usage, now), rescue.Pinners(l.PinnedBy)
		limits = append(limits, shown)
	}
	for _, c := range of.Cooldowns {
		if trouble := c.Trouble(); trouble != "" {
			c.Why += "; " + trouble
		}
		cooldowns = append(cooldowns, Cooldown{Cooldown: c, Left: clock(view.Seconds(c.NextS))})
	}
	return limits, cooldowns
}

// used returns how much of a limit is used, in words and in percent.
func used(u ratelimit.Usage) (words string, share int) {
	switch {
	case u.Limit.Kind == ratelimit.Concurrency && u.Allowed == 0:
		return wording.Count(u.InUse) + " in flight", 100
	case u.Limit.Kind == ratelimit.Cost && u.Closed:
		return "unknown of " + ratelimit.Dollars(u.Allowed), 100
	case u.Limit.Kind == ratelimit.Cost:
		return ratelimit.Dollars(u.Spent) + " of " + ratelimit.Dollars(u.Allowed), int(min(100, 100*u.Spent/u.Allowed))
	case u.Allowed > 0:
		words = wording.Short(int64(u.InUse)) + " of " + ratelimit.Amount(u.Allowed)
		if u.Limit.Window.Length > 0 {
			words += ratelimit.Per(u.Limit.Window.Length)
		}
		return words, int(min(100, 100*int64(u.InUse)/u.Allowed))
	case u.Wait > 0: // for a rate, only the time of the next call is known
		return "next in " + u.Wait.Round(time.Millisecond).String(), 100
	}
	return "free", 0
}

// state describes a limit's state: that it limits calls now, that it is cut, when it is reset.
func state(u ratelimit.Usage, now time.Time) string {
	var words []string
	if u.Binds() {
		words = append(words, "limiting now")
	}
	switch {
	case u.Cap > 0:
		words = append(words, fmt.Sprintf("reduced from %d, %s ago, after the provider refused calls", u.Cap, clock(now.Sub(u.Cut))))
	case u.Limit.Adaptive:
		words = append(words, "adapts; now at its cap")
	}
	if u.Limit.Resets != "" && u.Wait > 0 {
		words = append(words, "resets in "+clock(u.Wait))
	}
	if u.Closed {
		words = append(words, "closed, until its evaluation is submitted again where its results can be read")
	}
	return strings.Join(words, "; ")
}
