package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/commandline"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/wording"
)

// estimateText is an estimate being written, in lines of at most 100 columns.
type estimateText struct{ bytes.Buffer }

func (t *estimateText) line(format string, args ...any) {
	t.WriteString(wording.Columns.Truncate(fmt.Sprintf(format, args...), commandline.HelpWidth, "…") + "\n")
}

// table lists the parts and their sum.
func (t *estimateText) table(e estimate.Estimate) {
	row := func(cells ...any) { t.line("%-9s %-29s %10s %10s %10s %13s %13s", cells...) }
	row("phase", "judge", "runs", "identical", "calls", "tokens in", "tokens out")
	part := func(phase, judge string, p estimate.Part) {
		row(phase, wording.Columns.Truncate(judge, 29, "…"), wording.Count(p.Runs), wording.Count(p.Identical), wording.Count(p.Calls),
			wording.Count(p.Input), wording.Count(p.Output))
	}
	for _, p := range e.Parts {
		part(string(p.Kind), p.Judge, p)
	}
	part("all", "", e.Total)
}

// assumptions say where the numbers of tokens come from.
func (t *estimateText) assumptions(e estimate.Estimate, tokensOut int) {
	t.line("tokens    in: one for %.1f bytes of prompt, measured on %s of the plan", estimate.BytesPerToken, wording.Counted(e.Prompts, "prompt"))
	from := "as short verdicts have"
	if slices.ContainsFunc(e.Parts, func(p estimate.Part) bool { return p.Kind == eval.KindRuns || p.Kind == eval.KindPrompts }) {
		from = fmt.Sprintf("%s for an answer in prose", wording.Count(estimate.TokensPerListedRun))
	}
	if tokensOut > 0 {
		from = "as --" + tokensOutFlag + " says"
	}
	bound := "max_completion_tokens would bound them"
	if e.Total.OutputBound > 0 {
		bound = fmt.Sprintf("max_completion_tokens allows %s", wording.Count(e.Total.OutputBound))
	}
	t.line("          out: %s, without reasoning; %s", from, bound)
	if e.Total.Identical > 0 {
		t.line("identical %s on two equal texts: ties without a call", wording.Counted(e.Total.Identical, "run"))
	}
}

// until says when the evaluation may end early.
func (t *estimateText) until(u *estimate.Until, runs int) {
	switch {
	case u == nil:
	case u.Runs >= runs:
		t.line("until     all runs come before the first check whether the best %s known", wording.Either(u.Top, "candidate is", "candidates are"))
	default:
		t.line("until     may end from %s (%s) on, once the best %s known", wording.Counted(u.Runs, "run"), wording.Counted(u.Pairs, "pair"),
			wording.Either(u.Top, "candidate is", "candidates are"))
	}
}

// savings name the settings that ask less.
func (t *estimateText) savings(e estimate.Estimate) {
	name := "fewer"
	for _, saving := range e.Savings {
		words := ""
		if saving.Setting == estimate.OneOrder {
			words = " (order: both doubles them)"
		}
		t.line("%-9s %s saves %s calls%s", name, saving.Setting, wording.Count(e.Total.Calls-saving.Calls), words)
		name = ""
	}
}

// duration names the shortest time, the limit that binds, and the next ones.
func (t *estimateText) duration(e estimate.Estimate, source string) {
	if e.Total.Calls == 0 {
		t.line("duration  none: no call is needed")
		return
	}
	t.line("duration  at least %s, at %s a call (%s)", roundTime(e.Seconds), roundTime(e.Latency), source)
	for i, b := range e.Bounds[:min(4, len(e.Bounds))] {
		if i > 0 {
			t.line("          then %s by %s", roundTime(b.Seconds), b.Limit)
			continue
		}
		t.line("bound by  %s", b.Limit)
		if b.Tokens > 0 {
			t.line("          which counts about %s tokens of these calls", wording.Count(b.Tokens))
		}
		t.line("          set by %s", b.Setting)
	}
}

// roundTime is a number of seconds as people read it: "820ms", "9.6s", "1h2m0s".
func roundTime(seconds float64) string {
	d := time.Duration(math.Min(seconds*float64(time.Second), math.MaxInt64/2))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%s days", wording.Count(int64(d.Hours()/24)))
}
