package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// showText is a run for reading. Texts of documents and judges stand whole, with
// their own line breaks.
func showText(r *shownRun, now time.Time) string {
	var out strings.Builder
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "  %-11s  %s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&out, "run %s of %s\n", r.ID, oneLine(r.Name))
	if r.RunID != "" {
		fact("own id", "%s", r.RunID)
	}
	fact("state", "%s", stateText(r))
	fact("kind", "%s, trial %d", r.Kind, r.Trial)
	if r.Item != "" {
		fact("item", "%s", r.Item)
	}
	for i, d := range r.Documents {
		name, candidate := "document", ""
		switch {
		case r.Kind == eval.KindPrompts:
			name = "row"
		case r.Kind == eval.KindRuns:
			name = []string{"file a", "file b"}[i]
		case len(r.Documents) == 2:
			name = []string{"shown first", "second"}[i]
		}
		if r.Candidates[i] != d && r.Candidates[i] != "" {
			candidate = " by " + r.Candidates[i]
		}
		fact(name, "%s%s", d, candidate)
	}
	switch judge := r.Judge; {
	case r.Kind == eval.KindRuns || r.Kind == eval.KindPrompts:
		fact("model", "%s", r.Model)
	case judge != r.Model:
		fact("judge", "%s (%s)", judge, r.Model)
	default:
		fact("judge", "%s", judge)
	}
	fact("queue", "%s", r.Queue)
	if r.Outcome != nil {
		writeOutcome(fact, r.Outcome)
	}
	if r.Waits != nil {
		writeWaits(fact, r.Waits, now)
	}
	writeRebuilt(&out, r)
	for i, call := range r.Calls {
		writeCall(&out, i+1, call)
	}
	return out.String()
}

func stateText(r *shownRun) string {
	words := r.State
	if r.State == eval.StateNone.String() {
		words = "not ended"
	}
	if r.Generation > 0 {
		words += fmt.Sprintf(", generation %d", r.Generation)
	}
	switch {
	case r.Outcome != nil && r.Outcome.Generation < r.Generation:
		words += fmt.Sprintf("; what follows is of generation %d, which %s", r.Outcome.Generation, r.Outcome.State)
	case r.Outcome != nil && r.Where == "redis":
		words += ", waits in Redis to be collected"
	}
	return words
}

func writeOutcome(fact func(name, format string, args ...any), o *record.Run) {
	if o.Winner != "" {
		fact("winner", "%s", o.Winner)
		fact("reason", "%s", o.Reason)
	}
	for _, s := range o.Scores {
		fact("score", "%s: %v. %s", s.Criterion, s.Score, s.Reason)
	}
	if o.Finish == string(providers.FinishTruncated) {
		fact("answer", "cut off where the model may write no more; max_completion_tokens in the run's overrides raises that")
	}
	if o.Class != "" {
		fact("failure", "%s: %s", o.Class, o.Error)
	}
	if o.AnsweredBy != "" && o.AnsweredBy != o.Model {
		fact("answered by", "%s", o.AnsweredBy)
	}
	attempts := "no call was made"
	if o.Attempts > 0 {
		attempts = plural(o.Attempts, "call")
	}
	fact("took", "%s, %s to %s (%s), the last by worker %s", attempts,
		clock(o.Started), clock(o.Ended), shortDuration(o.Ended.Sub(o.Started)), o.Worker)
}

func writeWaits(fact func(name, format string, args ...any), w *shownWait, now time.Time) {
	switch {
	case w.Task == nil && w.Check == "run":
		fact("task", "not in its queue yet; it is pushed when runs before it have gone")
	case w.Task == nil && w.Check == store.VerdictPaused:
		fact("task", "not in its queue; the evaluation, or the provider for it, is paused")
	case w.Task == nil:
		fact("task", "not in its queue; the evaluation is %s", w.Check)
	case w.Task.Next != nil:
		fact("task", "%s, next try in %s: %s", w.Task.State, shortDuration(max(0, w.Task.Next.Sub(now))), w.Task.Why)
	case w.Task.Worker != "":
		gone := ""
		if !w.Task.Alive {
			gone = "; it is silent, the run goes back"
		}
		fact("task", "%s", w.Task.State)
		fact("worker", "%s, for %s, since %s%s", w.Task.Worker,
			shortDuration(max(0, now.Sub(*w.Task.Since))), clock(*w.Task.Since), gone)
	default:
		fact("task", "%s", w.Task.State)
	}
	if w.Attempts > 0 || w.Deaths > 0 {
		fact("so far", "%s; %s died with it", plural(w.Attempts, "call"), plural(w.Deaths, "worker"))
	}
	if w.Job != nil {
		fact("job", "%s goes on at %s since %s, and is given up in %s", w.Job.ID, w.Job.Model, clock(w.Job.Started), shortDuration(w.Job.Ends.Sub(now)))
	}
	if w.NotBefore != nil && w.NotBefore.After(now) {
		fact("not before", "%s, in %s", clock(*w.NotBefore), shortDuration(w.NotBefore.Sub(now)))
	}
}

func writeRebuilt(out *strings.Builder, r *shownRun) {
	if len(r.Prompt) == 0 {
		out.WriteString("\nNo prompt: both documents have the same text, or none could be made.\n")
		return
	}
	out.WriteString("\nprompt, rebuilt from the plan and the documents:\n")
	writeTurns(out, r.Prompt)
}

func writeTurns(out *strings.Builder, turns []shownTurn) {
	for _, turn := range turns {
		fmt.Fprintf(out, "  %s:\n", turn.Role)
		writeText(out, turn.Content)
	}
}

// writeText indents somebody else's text.
func writeText(out *strings.Builder, text string) {
	for line := range strings.Lines(strings.TrimRight(harmless(text), "\n") + "\n") {
		out.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
}

func writeCall(out *strings.Builder, n int, c shownCall) {
	fmt.Fprintf(out, "\ncall %d: %s of %s, attempt %d (%s)\n", n, c.Stage, oneLine(c.Model), c.Attempt, c.ID)
	if c.Cached {
		fmt.Fprintf(out, "  not made: the same was answered before, found %s\n", clock(c.Ended))
	} else {
		writeMade(out, c)
	}
	if c.Error != "" {
		fmt.Fprintf(out, "  error: %s\n", oneLine(c.Error))
	}
	writeEvidence(out, c.Call)
	writeSent(out, c)
	if c.Text != "" {
		out.WriteString("  answer:\n")
		writeText(out, c.Text)
	}
}

// writeMade tells how a call went that was made.
func writeMade(out *strings.Builder, c shownCall) {
	waited := "admitted at once"
	if wait := c.Started.Sub(c.Asked); c.BoundBy != "" {
		words := c.Bound
		if words == "" {
			words = ratelimit.WaitedFor(c.BoundBy)
		}
		waited = fmt.Sprintf("waited %s for %s", shortDuration(wait), oneLine(words))
	} else if wait >= time.Millisecond {
		waited = fmt.Sprintf("admitted after %s", shortDuration(wait))
	}
	fmt.Fprintf(out, "  asked %s, %s, ended after %s\n", clock(c.Asked), waited, shortDuration(c.Ended.Sub(c.Started)))
	facts := []string{fmt.Sprintf("status %d", c.Status)}
	if c.Status == 0 {
		facts[0] = "no response"
	}
	if c.Class != "" {
		facts = append(facts, string(c.Class))
	}
	if c.Finish != "" {
		facts = append(facts, "finish "+oneLine(c.Finish))
	}
	if c.RequestID != "" {
		facts = append(facts, "request "+oneLine(c.RequestID))
	}
	facts = append(facts, usageText(c.Call))
	fmt.Fprintf(out, "  %s\n", strings.Join(facts, ", "))
}

// writeEvidence shows what an answer shows of searches and reasoning.
func writeEvidence(out *strings.Builder, c record.Call) {
	if g := c.Grounding; g != nil {
		fmt.Fprintf(out, "  searches: %d\n", g.Searches)
		for _, query := range g.Queries {
			fmt.Fprintf(out, "    for %s\n", oneLine(query))
		}
		for _, source := range g.Sources {
			fmt.Fprintf(out, "    %s\n", strings.TrimSpace("source "+oneLine(source.URL)+" "+oneLine(source.Title)))
		}
	}
	if c.Usage.Reasoning > 0 {
		fmt.Fprintf(out, "  reasoned: %s\n", plural(int(c.Usage.Reasoning), "token"))
	}
	if c.Reasoning != "" {
		out.WriteString("  reasoning shown:\n")
		writeText(out, c.Reasoning)
	}
}

func usageText(c record.Call) string {
	charged := c.Class == "" || c.MaybeBill
	switch {
	case c.Usage.Reported && c.Usage.CostUSD != nil:
		return fmt.Sprintf("%d tokens in, %d out, $%.6f", c.Usage.Input, c.Usage.Output, *c.Usage.CostUSD)
	case c.Usage.Reported && c.MostUSD != nil:
		return fmt.Sprintf("%d tokens in, %d out reported, at most %s", c.Usage.Input, c.Usage.Output, dollars(*c.MostUSD))
	case c.Usage.Reported:
		return fmt.Sprintf("%d tokens in, %d out, cost unknown", c.Usage.Input, c.Usage.Output)
	case charged && c.MostUSD != nil:
		return "possibly charged, at most " + dollars(*c.MostUSD)
	case charged:
		return "possibly charged, tokens and cost unknown"
	}
	return "not charged"
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }
