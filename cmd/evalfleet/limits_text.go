package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/rescue"
	"github.com/evalfleet/evalfleet/internal/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// limitsText is a view as a table of at most lookWidth columns.
func limitsText(view limitsView, now time.Time) string {
	if view.Ended {
		return endedLimitsText(view)
	}
	if len(view.Limits)+len(view.Cooldowns) == 0 && view.Evaluation == "" {
		return "no limits are in force\n"
	}
	var out strings.Builder
	if view.Evaluation != "" {
		what := "limits of its calls"
		if len(view.Limits) == 0 {
			what = "no limits apply to its calls"
		}
		behind := fmt.Sprintf("  %s  %s\n", view.Evaluation, what)
		out.WriteString(clipMiddle(oneLine(view.Name), lookWidth+1-len(behind)) + behind)
	}
	if len(view.Limits)+len(view.Cooldowns) == 0 {
		return out.String()
	}
	line := func(words, inUse, allowed, waiting, next, state string) {
		out.WriteString(row(left(words, 42), right(inUse, 10), right(allowed, 17), right(waiting, 7), right(next, 9), state))
	}
	line("LIMIT", "IN USE", "ALLOWED", "WAITING", "NEXT", "")
	for _, l := range view.Limits {
		var next string
		inUse, allowed, state := "-", fmt.Sprint(l.Allowed), ""
		if l.InUse != nil {
			inUse = fmt.Sprint(*l.InUse)
		}
		switch {
		case l.Kind == ratelimit.Cost:
			inUse, allowed = "unknown", ratelimit.Dollars(l.Allowed)
			if l.SpentUSD != nil {
				inUse = dollars(*l.SpentUSD)
			}
		case l.PeriodS > 0:
			allowed += "/" + show.ShortDuration(seconds(l.PeriodS))
		case l.Resets != "":
			allowed += "/day"
		}
		switch {
		case l.NextS != nil:
			next = nextText(seconds(*l.NextS))
		case l.Kind == ratelimit.Concurrency:
			next = "as 1 ends"
		default: // as many tokens as a call needs must leave the window
			next = "-"
		}
		if l.Binds {
			state = "binds"
		}
		words := l.Words
		if l.Resets != "" { // the zone stands below
			words = strings.TrimSuffix(words, " ("+l.Resets+")")
		}
		line(oneLine(words), inUse, allowed, fmt.Sprint(l.Waiting), next, state)
		if l.Debt > 0 && l.Kind != ratelimit.Cost {
			out.WriteString(detail(fmt.Sprintf("%s above what is allowed: calls used more than was reserved", thousands(l.Debt))))
		}
		switch {
		case l.CutAt != nil:
			out.WriteString(detail(fmt.Sprintf("cut below its cap of %d, %s ago, as the provider refused calls; it grows while it is used up",
				l.Cap, show.ShortDuration(max(0, now.Sub(*l.CutAt))))))
		case l.Adaptive:
			out.WriteString(detail("adapts to what the provider takes, and is at its cap"))
		}
		if l.ResetsAt != nil {
			out.WriteString(detail(fmt.Sprintf("resets %s %s, in %s", l.ResetsAt.Format("2006-01-02 15:04"), l.Resets, show.ShortDuration(l.ResetsAt.Sub(now)))))
		}
		out.WriteString(detail("pinned by " + rescue.Pinners(l.PinnedBy)))
		if l.Shared != nil {
			out.WriteString(detail("redis_rate key " + oneLine(l.Shared.Key)))
			out.WriteString(detail(fmt.Sprintf("redis_rate.Limit{Rate: %d, Burst: %d, Period: %d * time.Microsecond}",
				l.Shared.Rate, l.Shared.Burst, l.Shared.Period.Microseconds())))
		}
	}
	for _, c := range view.Cooldowns {
		line(oneLine(c.Words), "-", "-", "-", nextText(seconds(c.NextS)), "binds")
		after := c.Why
		if c.Parked {
			after += ": parked " + untilText(now, seconds(c.NextS))
		}
		out.WriteString(detail(after))
	}
	return out.String()
}

func endedLimitsText(view limitsView) string {
	var out strings.Builder
	calls := view.Free.Calls
	for _, l := range view.Limits {
		calls += l.Waited.Calls
	}
	behind := fmt.Sprintf("  %s  %d calls; not running, these limits applied\n", view.Evaluation, calls)
	out.WriteString(clipMiddle(oneLine(view.Name), lookWidth+1-len(behind)) + behind)
	line := func(words, held, share, total, mean string) {
		out.WriteString(row(left(words, 50), right(held, 15), right(share, 5), right(total, 12), right(mean, 9)))
	}
	line("LIMIT", "CALLS HELD BACK", "", "WAITED", "EACH")
	for _, l := range view.Limits {
		total, mean := "-", "-"
		if l.Waited.Calls > 0 {
			total = show.ShortDuration(seconds(l.Waited.TotalS))
			mean = show.ShortDuration(seconds(l.Waited.TotalS / float64(l.Waited.Calls)))
		}
		line(oneLine(l.Words), fmt.Sprint(l.Waited.Calls), percent(l.Waited.Calls, calls), total, mean)
	}
	line("not held back", fmt.Sprint(view.Free.Calls), percent(view.Free.Calls, calls), "", "")
	return out.String()
}

// percent is a share that is 100 % only when it is all, and 0 % only when it is
// none.
func percent(part, whole int) string {
	switch {
	case whole == 0:
		return "-"
	case part == whole:
		return "100 %"
	case part > 0 && 100*part < whole:
		return "<1 %"
	}
	return fmt.Sprintf("%d %%", int(100*int64(part)/int64(whole)))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func nextText(wait time.Duration) string {
	if wait <= 0 {
		return "now"
	}
	return show.ShortDuration(wait)
}
