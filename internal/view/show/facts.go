package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// Fact is one named fact about a run, in words.
type Fact struct{ Name, Text string }

type facts []Fact

func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, Fact{name, fmt.Sprintf(format, args...)})
}

// Facts returns the facts about a run besides its prompt and its calls. Names and reasons in the texts are as they were
// given, so they must be made harmless before they are shown.
func (r *Run) Facts(now time.Time) []Fact {
	var f facts
	if r.RunID != "" {
		f.add("own id", "%s", r.RunID)
	}
	f.add("state", "%s", r.standing())
	f.add("kind", "%s, trial %d", r.Kind, r.Trial)
	if r.Item != "" {
		f.add("item", "%s", r.Item)
	}
	for i, d := range r.Documents {
		candidate := ""
		if r.Candidates[i] != d && r.Candidates[i] != "" {
			candidate = " by " + r.Candidates[i]
		}
		f.add(r.place(i), "%s%s", d, candidate)
	}

	switch {
	case r.Kind == eval.KindRuns || r.Kind == eval.KindPrompts:
		f.add("model", "%s", r.Model)
	case r.Judge != r.Model && !r.Given:
		f.add("judge", "%s (%s)", r.Judge, r.Model)
	default:
		f.add("judge", "%s", r.Judge)
	}

	if !r.Given {
		f.add("queue", "%s", r.Queue)
	}
	if r.Outcome != nil {
		if r.Outcome.Winner != "" {
			f.verdict(r.Outcome, r.compared)
		}
		f.outcome(r.Outcome, r.Given)
	}
	if r.Waits != nil {
		f.waits(r.Waits, now)
	}
	return f
}

// place returns the role of the run's i-th document.
func (r *Run) place(i int) string {
	switch {
	case r.Kind == eval.KindPrompts:
		return "row"
	case r.Kind == eval.KindRuns:
		return []string{"file a", "file b"}[i]
	case r.Unordered:
		return "document"
	case len(r.Documents) == 2 && len(r.ShownAs) == 2 && r.ShownAs[i] != r.Documents[i]:
		return []string{"A, shown first", "B, second"}[i]
	case len(r.Documents) == 2:
		return []string{"shown first", "second"}[i]
	}
	return "document"
}

func (r *Run) standing() string {
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

// verdict adds the verdict on a pair, overall and by criterion. question is nil unless the run compares two texts.
func (f *facts) verdict(o *record.Run, question *eval.Pairwise) {
	if question == nil {
		question = &eval.Pairwise{}
	}
	better := func(winner string, degree int) string {
		if word := eval.DegreeWord(degree, question.Degrees); word != "" {
			return winner + ", " + word
		}
		return winner
	}

	f.add("winner", "%s", better(o.Winner, o.Degree))
	if c := o.Chances; c != nil {
		f.add("probabilities", "%s: %.3g, %s: %.3g", o.Documents[0], c.First, o.Documents[1], c.Second)
		if question.Ties {
			f.add("probabilities", "tie: %.3g", c.Tie)
		}
	} else if question.Soft && o.AnsweredBy != "" {
		f.add("probabilities", "not known: the tokens of the answer do not tell them")
	}
	for _, c := range question.Criteria {
		words := "missing: the judge left it out"
		if at := slices.IndexFunc(o.Criteria, func(p record.Preference) bool { return p.Criterion == c.Name }); at >= 0 {
			words = better(o.Criteria[at].Winner, o.Criteria[at].Degree)
		}
		if o.AnsweredBy != "" {
			f.add("by criterion", "%s: %s", c.Name, words)
		}
	}
	f.add("reason", "%s", o.Reason)
}

func (f *facts) outcome(o *record.Run, given bool) {
	for _, s := range o.Scores {
		f.add("score", "%s: %v. %s", s.Criterion, s.Score, s.Reason)
	}
	if o.Finish == string(providers.FinishTruncated) {
		f.add("answer", "cut off at the token limit; raise it with max_completion_tokens in the run's overrides")
	}
	if o.Class != "" {
		f.add("failure", "%s: %s", o.Class, o.Error)
	}
	if o.AnsweredBy != "" && o.AnsweredBy != o.Model {
		f.add("answered by", "%s", o.AnsweredBy)
	}

	if given {
		if !o.Ended.IsZero() {
			f.add("given", "%s", clock(o.Ended))
		}
		return
	}
	attempts := "no call was made"
	if o.Attempts > 0 {
		attempts = wording.Counted(o.Attempts, "call")
	}
	f.add("took", "%s, %s to %s (%s), the last by worker %s", attempts,
		clock(o.Started), clock(o.Ended), ShortDuration(o.Ended.Sub(o.Started)), o.Worker)
}

func (f *facts) waits(w *Wait, now time.Time) {
	switch {
	case w.Task == nil && w.Check == "run":
		f.add("task", "not in its queue yet; it is pushed when earlier runs have ended")
	case w.Task == nil && w.Check == store.VerdictPaused:
		f.add("task", "not in its queue; the evaluation or its provider is paused")
	case w.Task == nil:
		f.add("task", "not in its queue; the evaluation is %s", w.Check)
	case w.Task.Next != nil:
		f.add("task", "%s, next try in %s: %s", w.Task.State, ShortDuration(max(0, w.Task.Next.Sub(now))), w.Task.Why)
	case w.Task.Worker != "":
		gone := ""
		if !w.Task.Alive {
			gone = "; no heartbeat, so the run returns to its queue"
		}
		f.add("task", "%s", w.Task.State)
		f.add("worker", "%s, for %s, since %s%s", w.Task.Worker,
			ShortDuration(max(0, now.Sub(*w.Task.Since))), clock(*w.Task.Since), gone)
	default:
		f.add("task", "%s", w.Task.State)
	}

	if w.Attempts > 0 || w.Deaths > 0 {
		f.add("so far", "%s; %s died while running it", wording.Counted(w.Attempts, "call"), wording.Counted(w.Deaths, "worker"))
	}
	if w.Job != nil {
		f.add(
			"job", "%s running at %s since %s, times out in %s", w.Job.ID, w.Job.Model, clock(w.Job.Started),
			ShortDuration(w.Job.Ends.Sub(now)),
		)
	}
	if w.NotBefore != nil && w.NotBefore.After(now) {
		f.add("not before", "%s, in %s", clock(*w.NotBefore), ShortDuration(w.NotBefore.Sub(now)))
	}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// ShortDuration returns a duration in two or three digits: "40ms", "1.5s", "1m", "26h".
func ShortDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return trimmed(d.Round(time.Second).String(), "m0s")
	}
	d = d.Round(time.Minute)
	return trimmed(fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60), "h0m")
}

// trimmed drops a unit that is zero from the end of a text: with zero "h0m", "5h0m" becomes "5h".
func trimmed(text, zero string) string {
	if strings.HasSuffix(text, zero) {
		return strings.TrimSuffix(text, zero[1:])
	}
	return text
}
