package estimate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Sources says where what was assumed comes from, in words.
type Sources struct {
	Latency string
	Answers string // the length of answers; empty: it is assumed
	Known   string // what earlier evaluations have answered; empty: nothing
}

// Write writes an estimate as text, in lines of at most `columns` characters: first the ways in which the evaluation
// could be asked, and then what that was computed from.
func (e Estimate) Write(to io.Writer, columns int, from Sources) error {
	t := sheet{lines.New(to, columns, false)}
	calls := "no calls are needed"
	if e.Total.Calls > 0 {
		calls = fmt.Sprintf("at least %s, plus retries and repairs", wording.Counted(e.Total.Calls, "call"))
	}
	if e.LeastCalls > 0 {
		calls = fmt.Sprintf("%s calls, plus retries and repairs", span(e.LeastCalls, e.Total.Calls, " to "))
	}
	t.Line(fmt.Sprintf("%s (%s): %s, %s", harmless.Short(e.Name, 29), e.Evaluation, wording.Counted(e.Total.Runs, "run"), calls))
	t.Blank()
	t.ways(e.Ways)
	t.Blank()
	t.notes(e)
	t.money(e)
	t.known(e.Total, from.Known)
	t.duration(e, from.Latency)
	t.until(e.Until, e.Total.Runs)
	if e.LeastCalls > 0 {
		t.entry("escalate", "the fewest calls if no pair is contested, the most if all are")
	}

	t.Blank()
	t.table(e)
	t.Blank()
	t.assumptions(e, from.Answers)
	for _, prompts := range e.TooLarge {
		t.entry("too large", "%s", prompts)
	}
	return t.Flush()
}

// Summary returns the calls, their cost and the duration in a line.
func (e Estimate) Summary() string {
	cost := "at an unknown price"
	if e.CostUSD != nil {
		cost = "for about " + costSpan(e.LeastCostUSD, *e.CostUSD, " to ")
	}
	calls := "at least " + wording.Counted(e.Total.Calls, "call")
	if e.LeastCalls > 0 {
		calls = span(e.LeastCalls, e.Total.Calls, " to ") + " calls"
	}
	time := "in at least " + roundTime(e.Seconds)
	if e.Batch != nil {
		time = "in batches, which have " + roundTime(e.Batch.Deadline)
	}
	return fmt.Sprintf("%s %s, %s", calls, cost, time)
}

// sheet is an estimate that is being written.
type sheet struct{ *lines.Writer }

// entry writes a labelled text. Without a label, it belongs to the entry above.
func (t sheet) entry(label, format string, args ...any) {
	t.Wrap(fmt.Sprintf("%-10s", label), fmt.Sprintf(format, args...))
}

// shortNames are those of settings that are too long for the table of ways.
var shortNames = map[string]string{
	ScoreAll + ", " + BestOnly:       BestOnly + ", after scores",
	AllPairs + ", " + UntilBest:      UntilBest,
	"service_tier: flex, batch: off": "service_tier: flex",
	"batch: prefer, no service_tier": "batch: prefer",
}

// name returns what the table of ways calls a way: what to write to get it.
func (w Way) name() string {
	switch w.Way {
	case AsItIs:
		return "as it is now"
	case FromCaches:
		return "prompt caches, at best"
	case StrongAlone:
		return "no escalate"
	}
	if strings.HasPrefix(w.Setting, "escalate: ") {
		return "escalate: {to: …}"
	}
	return cmp.Or(shortNames[w.Setting], w.Setting)
}

// ways writes how the evaluation could be asked. The table fits into 80 columns.
func (t sheet) ways(ways []Way) {
	rows := append(lines.Table{{Head: "to write"}}, lines.Heads("calls", "cost", "at least")...)
	rows = append(rows, lines.Column{Head: "limited by", Flexible: true})
	for _, w := range ways {
		calls, cost, time, limit := span(w.LeastCalls, w.Calls, "–"), "unknown", "none", ""
		switch {
		case w.AtLeast:
			calls = "at least " + calls
		case w.Changed > 0 && w.Changed < w.Calls:
			calls = wording.Count(w.Changed) + " of " + wording.Count(w.Calls)
		}
		if w.CostUSD != nil {
			cost = costSpan(w.LeastCostUSD, *w.CostUSD, "–")
		}
		switch {
		case w.Deadline > 0:
			time, limit = "no promise", roundTime(w.Deadline)+" a batch"
		case w.Calls > 0:
			time, limit = roundTime(w.Seconds), cmp.Or(amountOf(w.Limit), "one call")
		}
		rows.Add(w.name(), calls, cost, time, limit)
	}
	rows.Write(t.Writer)
}

// amountOf returns a limit without the scope in front of it.
func amountOf(limit string) string {
	if _, amount, ok := strings.Cut(limit, ": "); ok {
		return amount
	}
	return limit
}

// notes writes what else to know about the ways, and where to write the settings.
func (t sheet) notes(e Estimate) {
	const width = 22
	keys := 0
	for _, w := range e.Ways {
		note := w.Note
		if w.Setting != w.name() && w.Setting != "" {
			note = w.Setting + "; " + note
		}
		if note != "" {
			t.Wrap(fmt.Sprintf("%-*s  ", width, w.name()), note)
		}
		if isKey := w.Setting != "" && !strings.HasPrefix(w.Setting, "--"); isKey && (e.flags || w.Way == AnotherDesign) {
			keys++
		}
	}

	switch {
	case keys > 0 && e.flags:
		t.entry("keys", "what is no flag is a key of an evaluation file, order and top_n of its pairwise")
	case keys > 0:
		t.entry("keys", "pairs, order and top_n are keys of pairwise")
	}
	if len(e.Ways) > 1 || e.Ways[0].Note != "" {
		t.Blank()
	}
}

// money writes by which prices the cost is computed, and what the budget covers.
func (t sheet) money(e Estimate) {
	label := "prices"
	say := func(format string, args ...any) {
		t.entry(label, format, args...)
		label = ""
	}
	if len(e.Unpriced) > 0 {
		say("unknown for %s; set prices, with tiers if a tier is named", listed(e.Unpriced))
	}
	if e.PricesAsOf != "" {
		say("list prices of %s where none are configured", e.PricesAsOf)
	}
	if old := AboutOldPrices(e.OldPrices); old != "" {
		say("%s", old)
	}
	if e.BudgetUSD > 0 && e.CostUSD != nil && *e.CostUSD > e.BudgetUSD {
		t.entry("budget", "%s, less than the cost: the evaluation stops when the rest does not cover another call",
			ratelimit.USD(e.BudgetUSD))
	}
}

// known writes which runs are not asked.
func (t sheet) known(total Part, answered string) {
	if total.Recorded > 0 {
		t.entry("recorded", "%s of this evaluation, which `run` does not ask again", wording.Counted(total.Recorded, "run"))
	}
	if answered != "" {
		t.entry("known", "%s: `run` does not ask them again", answered)
	}
}

// table writes the parts and their sum.
func (t sheet) table(e Estimate) {
	known := e.Total.Recorded+e.Total.Answered > 0
	counts := lines.Heads("runs", "no call", "known", "calls", "tokens in", "tokens out")
	if !known {
		counts = slices.Delete(counts, 2, 3)
	}
	rows := append(lines.Table{{Head: "phase"}, {Head: "judge", Flexible: true}}, counts...)

	part := func(phase, judge string, p Part) {
		cells := []string{
			phase, judge, wording.Count(p.Runs), wording.Count(p.Identical), wording.Count(p.Recorded + p.Answered),
			wording.Count(p.Calls), wording.Count(p.Input), wording.Count(p.Output),
		}
		if !known {
			cells = slices.Delete(cells, 4, 5)
		}
		rows.Add(cells...)
	}

	for _, p := range e.Parts {
		phase := string(p.Kind)
		if p.Anchors {
			phase = "anchors"
		}
		part(phase, harmless.OneLine(p.Judge), p)
	}
	part("all", "", e.Total)
	rows.WriteStacked(t.Writer, func(int) {})
}

// assumptions writes how tokens were estimated.
func (t sheet) assumptions(e Estimate, answersFrom string) {
	t.entry("tokens", "in: one per %.1f bytes of prompt, measured on %s of the plan", BytesPerToken, wording.Counted(e.Prompts, "prompt"))
	from := "typical of short verdicts"
	if slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Kind == eval.KindRuns || p.Kind == eval.KindPrompts }) {
		from = fmt.Sprintf("%s for an answer in prose", wording.Count(TokensPerListedRun))
	}
	if answersFrom != "" {
		from = answersFrom
	}
	bound := "set max_completion_tokens to bound them"
	if e.Total.OutputBound > 0 {
		bound = fmt.Sprintf("max_completion_tokens allows %s", wording.Count(e.Total.OutputBound))
	}
	t.entry("", "out: %s, without reasoning; %s", from, bound)
	if e.Total.Identical > 0 {
		t.entry("no call", "%s on two equal texts, or on one that fails a gate", wording.Counted(e.Total.Identical, "run"))
	}
}

// until writes when the evaluation may end early.
func (t sheet) until(u *Until, runs int) {
	switch {
	case u == nil:
	case u.Runs >= runs:
		t.entry(
			"until", "has no effect: all runs end before it is first checked whether the best %s known",
			wording.Either(u.Top, "candidate is", "candidates are"),
		)
	default:
		t.entry("until", "may end after %s (%s) or later, once the best %s known", wording.Counted(u.Runs, "run"),
			wording.Counted(u.Pairs, "pair"),
			wording.Either(u.Top, "candidate is", "candidates are"))
	}
}

// duration writes the shortest duration, the limit that causes it, and the next limits.
func (t sheet) duration(e Estimate, source string) {
	if e.Seconds == 0 {
		return // no call is needed, or all are in batches
	}
	t.entry("duration", "at least %s, at %s per call (%s)", roundTime(e.Seconds), roundTime(e.Latency), source)
	for i, b := range e.Bounds[:min(4, len(e.Bounds))] {
		if i > 0 {
			t.entry("", "then %s by %s", roundTime(b.Seconds), b.Limit)
			continue
		}
		t.entry("limit", "%s", b.Limit)
		if b.Tokens > 0 {
			t.entry("", "these calls use about %s of its tokens", wording.Count(b.Tokens))
		}
		t.entry("", "set by %s", b.Setting)
	}
}

// roundTime formats a number of seconds: "820ms", "9.6s", "1h2m0s", "3 days".
func roundTime(seconds float64) string {
	d := time.Duration(math.Min(seconds*float64(time.Second), math.MaxInt64/2))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d%time.Hour == 0 && d < 48*time.Hour:
		return wording.Counted(int(d.Hours()), "hour")
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%s days", wording.Count(int64(d.Hours()/24)))
}
