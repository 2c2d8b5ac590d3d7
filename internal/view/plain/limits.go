package plain

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/queue/rescue"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Limits returns the limits as a table in lines of at most columns.
func Limits(v view.Limits, now time.Time, columns int) string {
	return written(columns, func(out *lines.Writer) {
		switch {
		case v.Ended:
			writeEndedLimits(out, v)
			return
		case len(v.Limits)+len(v.Cooldowns) > 0 && v.Evaluation != "":
			title(out, v.Name, string(v.Evaluation)+"  limits of its calls")
		case len(v.Limits)+len(v.Cooldowns) > 0:
		case v.Evaluation != "":
			title(out, v.Name, string(v.Evaluation)+"  no limits apply to its calls")
		default:
			out.Line("no limits are in force")
		}
		for _, by := range v.HeldBy {
			detail(out, "waiting for "+by)
		}
		if len(v.Limits)+len(v.Cooldowns) > 0 {
			writeLimits(out, v, now)
		}
	})
}

func writeLimits(out *lines.Writer, v view.Limits, now time.Time) {
	t := append(append(lines.Table{{Head: "LIMIT", Flexible: true}}, lines.Heads("IN USE", "ALLOWED", "WAITING", "NEXT")...), lines.Column{})
	for _, l := range v.Limits {
		words := l.Words
		if l.Resets != "" { // the zone is below
			words = strings.TrimSuffix(words, " ("+l.Resets+")")
		}
		inUse, allowed := useText(l)
		state := ""
		if l.Binds {
			state = "limiting"
		}
		t.Add(harmless.OneLine(words), inUse, allowed, wording.Count(l.Waiting), nextOf(l), state)
	}

	for _, c := range v.Cooldowns {
		t.Add(harmless.OneLine(c.Words), "-", "-", "-", nextText(view.Seconds(c.NextS)), "limiting")
	}
	t.WriteStacked(out, func(row int) {
		if row < len(v.Limits) {
			for _, text := range about(v.Limits[row], now) {
				detail(out, text)
			}
			return
		}
		c := v.Cooldowns[row-len(v.Limits)]
		after := c.Why
		if c.Parked {
			after += ": parked " + view.Until(now, view.Seconds(c.NextS))
		}
		detail(out, after)
		if trouble := c.Trouble(); trouble != "" {
			detail(out, trouble)
		}
	})
}

// useText returns how much of a limit is in use, and how much it allows, both as text.
func useText(l view.Limit) (inUse, allowed string) {
	inUse, allowed = "-", ratelimit.Amount(l.Allowed)
	if l.InUse != nil {
		inUse = wording.Count(*l.InUse)
	}
	switch {
	case l.Kind == ratelimit.Cost:
		inUse, allowed = "unknown", ratelimit.Dollars(l.Allowed)
		if l.SpentUSD != nil {
			inUse = ratelimit.USD(*l.SpentUSD)
		}
	case l.PeriodS > 0:
		allowed += ratelimit.Per(view.Seconds(l.PeriodS))
	case l.Resets != "":
		allowed += "/day"
	}
	return inUse, allowed
}

// nextOf returns when the next call under the limit may start, as text; "-" if that cannot be known.
func nextOf(l view.Limit) string {
	switch {
	case l.NextS != nil:
		return nextText(view.Seconds(*l.NextS))
	case l.Kind == ratelimit.Concurrency || l.Kind == ratelimit.EnqueuedTokens:
		return "as 1 ends"
	}
	return "-" // known only once as many tokens as the call needs leave the window
}

// about returns the details of a limit in force, one per line.
func about(l view.Limit, now time.Time) []string {
	var texts []string
	switch {
	case l.Debt == 0 || l.Kind == ratelimit.Cost:
	case l.Kind == ratelimit.EnqueuedTokens:
		texts = append(texts, fmt.Sprintf("%s above the limit, which was higher when batches started", wording.Count(l.Debt)))
	default:
		texts = append(texts, fmt.Sprintf("%s above the limit: calls used more than they reserved", wording.Count(l.Debt)))
	}

	switch {
	case l.CutAt != nil:
		texts = append(texts, fmt.Sprintf("reduced below its cap of %d, %s ago, after the provider refused calls; grows while it is fully used",
			l.Cap, show.ShortDuration(max(0, now.Sub(*l.CutAt)))))
	case l.Adaptive:
		texts = append(texts, "adapts to the provider; now at its cap")
	}

	if l.SendS != nil {
		texts = append(texts, fmt.Sprintf("keeps a measured margin of %s: %s until a call is sent, %s for the network path",
			milliseconds(*l.SendS+*l.PathS), milliseconds(*l.SendS), milliseconds(*l.PathS)))
	}
	if l.ResetsAt != nil {
		texts = append(
			texts,
			fmt.Sprintf("resets %s %s, in %s", l.ResetsAt.Format("2006-01-02 15:04"), l.Resets, show.ShortDuration(l.ResetsAt.Sub(now))),
		)
	}
	texts = append(texts, "in force for "+rescue.Pinners(l.PinnedBy))
	if l.Shared != nil {
		texts = append(texts, fmt.Sprintf("other programs can share it through redis_rate: key %s, rate %d per %s, burst %d",
			l.Shared.Key, l.Shared.Rate, l.Shared.Period, l.Shared.Burst))
	}

	return texts
}

func milliseconds(s float64) string { return fmt.Sprintf("%.0f ms", 1000*s) }

func writeEndedLimits(out *lines.Writer, v view.Limits) {
	calls := v.Free.Calls
	for _, l := range v.Limits {
		calls += l.Waited.Calls
	}
	title(out, v.Name, fmt.Sprintf("%s  %s; ended, these limits applied", v.Evaluation, wording.Counted(calls, "call")))
	t := append(lines.Table{{Head: "LIMIT", Flexible: true}}, lines.Heads("CALLS THAT WAITED", "", "WAITED", "EACH")...)
	for _, l := range v.Limits {
		total, mean := "-", "-"
		if l.Waited.Calls > 0 {
			total = show.ShortDuration(view.Seconds(l.Waited.TotalS))
			mean = show.ShortDuration(view.Seconds(l.Waited.TotalS / float64(l.Waited.Calls)))
		}
		t.Add(harmless.OneLine(l.Words), wording.Count(l.Waited.Calls), view.Percent(l.Waited.Calls, calls), total, mean)
	}
	t.Add("did not wait", wording.Count(v.Free.Calls), view.Percent(v.Free.Calls, calls), "", "")
	t.WriteStacked(out, func(int) {})
}

func nextText(wait time.Duration) string {
	if wait <= 0 {
		return "now"
	}
	return show.ShortDuration(wait)
}
