package plain

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/rescue"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/view"
	"github.com/evalfleet/evalfleet/view/show"
)

// Limits draws limits as a table of at most Width columns.
func Limits(v view.Limits, now time.Time) string {
	if v.Ended {
		return endedLimitsText(v)
	}
	if len(v.Limits)+len(v.Cooldowns) == 0 && v.Evaluation == "" {
		return "no limits are in force\n"
	}
	var out strings.Builder
	if v.Evaluation != "" {
		what := "limits of its calls"
		if len(v.Limits) == 0 {
			what = "no limits apply to its calls"
		}
		behind := fmt.Sprintf("  %s  %s\n", v.Evaluation, what)
		out.WriteString(harmless.Short(harmless.OneLine(v.Name), Width+1-len(behind)) + behind)
	}
	if len(v.Limits)+len(v.Cooldowns) == 0 {
		return out.String()
	}
	line := func(words, inUse, allowed, waiting, next, state string) {
		out.WriteString(row(left(words, 42), right(inUse, 10), right(allowed, 17), right(waiting, 7), right(next, 9), state))
	}
	line("LIMIT", "IN USE", "ALLOWED", "WAITING", "NEXT", "")
	for _, l := range v.Limits {
		var next string
		inUse, allowed, state := "-", fmt.Sprint(l.Allowed), ""
		if l.InUse != nil {
			inUse = fmt.Sprint(*l.InUse)
		}
		switch {
		case l.Kind == ratelimit.Cost:
			inUse, allowed = "unknown", ratelimit.Dollars(l.Allowed)
			if l.SpentUSD != nil {
				inUse = view.Dollars(*l.SpentUSD)
			}
		case l.PeriodS > 0:
			allowed += "/" + show.ShortDuration(view.Seconds(l.PeriodS))
		case l.Resets != "":
			allowed += "/day"
		}
		switch {
		case l.NextS != nil:
			next = nextText(view.Seconds(*l.NextS))
		case l.Kind == ratelimit.Concurrency:
			next = "as 1 ends"
		default: // as many tokens as a call needs must leave the window
			next = "-"
		}
		if l.Binds {
			state = "binds"
		}
		words := l.Words
		if l.Resets != "" { // the zone is below
			words = strings.TrimSuffix(words, " ("+l.Resets+")")
		}
		line(harmless.OneLine(words), inUse, allowed, fmt.Sprint(l.Waiting), next, state)
		if l.Debt > 0 && l.Kind != ratelimit.Cost {
			out.WriteString(detail(fmt.Sprintf("%s above what is allowed: calls used more than was reserved", wording.Count(l.Debt))))
		}
		switch {
		case l.CutAt != nil:
			out.WriteString(detail(fmt.Sprintf("cut below its cap of %d, %s ago, as the provider refused calls; it grows while it is used up",
				l.Cap, show.ShortDuration(max(0, now.Sub(*l.CutAt))))))
		case l.Adaptive:
			out.WriteString(detail("adapts to what the provider takes, and is at its cap"))
		}
		if l.SendS != nil {
			out.WriteString(detail(fmt.Sprintf("keeps a measured margin of %s: %s until a call is sent, %s for the network path",
				milliseconds(*l.SendS+*l.PathS), milliseconds(*l.SendS), milliseconds(*l.PathS))))
		}
		if l.ResetsAt != nil {
			out.WriteString(detail(fmt.Sprintf("resets %s %s, in %s", l.ResetsAt.Format("2006-01-02 15:04"), l.Resets, show.ShortDuration(l.ResetsAt.Sub(now)))))
		}
		out.WriteString(detail("pinned by " + rescue.Pinners(l.PinnedBy)))
		if l.Shared != nil {
			out.WriteString(detail("redis_rate key " + harmless.OneLine(l.Shared.Key)))
			out.WriteString(detail(fmt.Sprintf("redis_rate.Limit{Rate: %d, Burst: %d, Period: %d * time.Microsecond}",
				l.Shared.Rate, l.Shared.Burst, l.Shared.Period.Microseconds())))
		}
	}
	for _, c := range v.Cooldowns {
		line(harmless.OneLine(c.Words), "-", "-", "-", nextText(view.Seconds(c.NextS)), "binds")
		after := c.Why
		if c.Parked {
			after += ": parked " + view.Until(now, view.Seconds(c.NextS))
		}
		out.WriteString(detail(after))
	}
	return out.String()
}

func milliseconds(s float64) string { return fmt.Sprintf("%.0f ms", 1000*s) }

func endedLimitsText(v view.Limits) string {
	var out strings.Builder
	calls := v.Free.Calls
	for _, l := range v.Limits {
		calls += l.Waited.Calls
	}
	behind := fmt.Sprintf("  %s  %s; not running, these limits applied\n", v.Evaluation, wording.Counted(calls, "call"))
	out.WriteString(harmless.Short(harmless.OneLine(v.Name), Width+1-len(behind)) + behind)
	line := func(words, held, share, total, mean string) {
		out.WriteString(row(left(words, 50), right(held, 15), right(share, 5), right(total, 12), right(mean, 9)))
	}
	line("LIMIT", "CALLS HELD BACK", "", "WAITED", "EACH")
	for _, l := range v.Limits {
		total, mean := "-", "-"
		if l.Waited.Calls > 0 {
			total = show.ShortDuration(view.Seconds(l.Waited.TotalS))
			mean = show.ShortDuration(view.Seconds(l.Waited.TotalS / float64(l.Waited.Calls)))
		}
		line(harmless.OneLine(l.Words), fmt.Sprint(l.Waited.Calls), view.Percent(l.Waited.Calls, calls), total, mean)
	}
	line("not held back", fmt.Sprint(v.Free.Calls), view.Percent(v.Free.Calls, calls), "", "")
	return out.String()
}

func nextText(wait time.Duration) string {
	if wait <= 0 {
		return "now"
	}
	return show.ShortDuration(wait)
}
