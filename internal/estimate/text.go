package estimate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Write writes an estimate as text, in lines of at most `columns` characters. latencyFrom says where the latency
// comes from. answersFrom says where the length of answers comes from; empty if it is assumed.
func (e Estimate) Write(to io.Writer, columns int, latencyFrom, answersFrom string) error {
	t := sheet{lines.New(to, columns, false)}
	t.Line(fmt.Sprintf("%s (%s): %s, at least %s, plus retries and repairs", harmless.Short(e.Name, 29), e.Evaluation,
		wording.Counted(e.Total.Runs, "run"), wording.Counted(e.Total.Calls, "call")))
	t.Blank()
	t.table(e)
	t.Blank()
	t.assumptions(e, answersFrom)

	for _, prompts := range e.TooLarge {
		t.entry("too large", "%s", prompts)
	}
	switch {
	case e.CostUSD == nil:
		t.entry("cost", "unknown: not every judge has a price")
	case e.PricesAsOf != "":
		t.entry("cost", "%s, at list prices of %s where none are configured", ratelimit.USD(*e.CostUSD), e.PricesAsOf)
	default:
		t.entry("cost", "%s", ratelimit.USD(*e.CostUSD))
	}
	if b := e.Batch; b != nil {
		t.entry("batches", "%s through batch endpoints, at their prices; what is not answered within %s is asked alone, at the full price",
			wording.Counted(b.Calls, "call"), roundTime(b.Deadline))
	}

	t.duration(e, latencyFrom)
	t.until(e.Until, e.Total.Runs)
	t.savings(e)
	return t.Flush()
}

// Summary returns the calls, their cost and the duration in a line.
func (e Estimate) Summary() string {
	cost := "at an unknown price"
	if e.CostUSD != nil {
		cost = "for about " + ratelimit.USD(*e.CostUSD)
	}
	return fmt.Sprintf("at least %s %s, in at least %s", wording.Counted(e.Total.Calls, "call"), cost, roundTime(e.Seconds))
}

// sheet is an estimate that is being written.
type sheet struct{ *lines.Writer }

// entry writes a labelled text. Without a label, it belongs to the entry above.
func (t sheet) entry(label, format string, args ...any) {
	t.Wrap(fmt.Sprintf("%-10s", label), fmt.Sprintf(format, args...))
}

// table writes the parts and their sum.
func (t sheet) table(e Estimate) {
	rows := append(lines.Table{{Head: "phase"}, {Head: "judge", Flexible: true}}, lines.Heads("runs", "no call", "calls",
		"tokens in", "tokens out")...)
	part := func(phase, judge string, p Part) {
		rows.Add(
			phase, judge, wording.Count(p.Runs), wording.Count(p.Identical), wording.Count(p.Calls), wording.Count(p.Input),
			wording.Count(p.Output),
		)
	}
	for _, p := range e.Parts {
		part(string(p.Kind), harmless.OneLine(p.Judge), p)
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

// savings writes the designs that need fewer calls.
func (t sheet) savings(e Estimate) {
	switch {
	case len(e.Savings) == 0:
	case e.flags:
		t.entry("cheaper", "for the same question; what is no flag is a key of an evaluation file, order and top_n of its pairwise")
	default:
		t.entry("cheaper", "for the same question; pairs, order and top_n are keys of pairwise")
	}
	for _, saving := range e.Savings {
		calls := wording.Counted(saving.Calls, "call")
		if saving.AtLeast {
			calls = "at least " + calls
		}
		if saving.CostUSD != nil {
			calls += ", " + ratelimit.USD(*saving.CostUSD)
		}
		t.entry("", "%s needs %s; %s", saving.Setting, calls, saving.Loses)
	}
}

// duration writes the shortest duration, the limit that causes it, and the next limits.
func (t sheet) duration(e Estimate, source string) {
	if e.Total.Calls == 0 {
		t.entry("duration", "none: no calls are needed")
		return
	}
	if e.Batch != nil && e.Batch.Calls == e.Total.Calls {
		return // the entry about batches says it
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
