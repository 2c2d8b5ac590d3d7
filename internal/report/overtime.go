package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// OverTime says what each judge said about anchors, at this evaluation and before.
type OverTime struct {
	Evaluation eval.ID // that asked about the anchors
	Anchors    int
	Judges     []JudgeOverTime // in the order of the plan
}

// JudgeOverTime is one judge at each time that it was asked, oldest first. The last time is that of the evaluation, unless
// it gave no verdict then.
type JudgeOverTime struct {
	Name, Model string
	Times       []JudgeAt
	absent      bool
}

// JudgeAt says how a judge was at one time. Shares are over verdicts, with limits by anchor.
type JudgeAt struct {
	Evaluation eval.ID
	Name       string // of that evaluation
	At         time.Time
	Named      []string // what the provider called the model; empty: unknown
	Before     []string // the same at the time before, if it has none of some name in Named; empty: nothing new
	Same       Share    // the same verdicts as at the time before
	SameFirst  Share    // as at the first time
	Right      Share    // those that are known to be right
	First      Share    // for the text shown first, of those that prefer one
	Missing    int      // verdicts that it did not give
	rank.Drift
}

// anchorsOf returns the evaluation that asked the judges of another one about anchors; ok is false if there is none. An
// evaluation of anchors is its own.
func anchorsOf(ctx context.Context, source Source, e results.Evaluation) (of results.Evaluation, ok bool, err error) {
	if e.Plan.Anchors != nil {
		return e, true, nil
	}
	if e.Plan.Pairwise == nil || e.Plan.Given != nil || e.Plan.Board != nil {
		return of, false, nil
	}

	first := e.ID
	if e.Plan.Answered != nil {
		first = e.Plan.Answered.Evaluation
	}
	listed, err := source.Evaluations(ctx)
	if err != nil {
		return of, false, err
	}

	for _, one := range listed {
		if one.Name != e.Plan.Name+eval.AnchorsSuffix {
			continue
		}
		if of, err = source.Evaluation(ctx, one.ID); err != nil {
			return of, false, err
		}
		if of.Plan.Anchors != nil && of.Plan.Anchors.Of == first {
			return of, true, nil
		}
	}
	return of, false, nil
}

// readOverTime reads what judges said about anchors; nil: the evaluation has none.
func readOverTime(ctx context.Context, source Source, e results.Evaluation) (*OverTime, error) {
	of, ok, err := anchorsOf(ctx, source, e)
	if !ok || err != nil {
		return nil, err
	}
	now, err := reuse.Heard(ctx, of, source)
	if err != nil {
		return nil, err
	}

	history := of.Plan.Anchors.History
	askings := append(history[:len(history):len(history)], now)
	var said [][]string
	for _, asking := range askings {
		letters := make([]string, len(of.Plan.Judges))
		for k := range letters {
			if k < len(asking.Judges) && len(asking.Judges[k].Said) == 2*len(of.Plan.Items) {
				letters[k] = asking.Judges[k].Said
			}
		}
		said = append(said, letters)
	}

	drifts := rank.Drifts(said)
	o := &OverTime{Evaluation: of.ID, Anchors: len(of.Plan.Items)}
	for k, judge := range of.Plan.Judges {
		j := JudgeOverTime{Name: judge.Name, Model: judge.Target(), absent: said[len(said)-1][k] == ""}
		var times []string
		for t, asking := range askings {
			if said[t][k] == "" {
				continue
			}
			at := JudgeAt{Evaluation: asking.Evaluation, Name: asking.Name, At: asking.At, Named: asking.Judges[k].Named, Drift: drifts[t][k]}
			at.Before = newlyNamed(j.Times, at.Named)
			times = append(times, said[t][k])
			at.compare(times, of.Plan.Items)
			j.Times = append(j.Times, at)
		}
		o.Judges = append(o.Judges, j)
	}
	return o, nil
}

// newlyNamed returns what a provider called a model the last time that it is known, if it uses another name now.
func newlyNamed(times []JudgeAt, named []string) []string {
	for _, before := range slices.Backward(times) {
		if len(before.Named) == 0 {
			continue
		}
		if slices.ContainsFunc(named, func(name string) bool { return !slices.Contains(before.Named, name) }) {
			return before.Named
		}
		return nil
	}
	return nil
}

// compare fills in the shares by the letters of all times so far.
func (a *JudgeAt) compare(times []string, items []eval.Item) {
	now := times[len(times)-1]
	same, sameFirst, right, first := newSharing(), newSharing(), newSharing(), newSharing()
	add := func(to sharing, anchor int, met bool) { to.add(anchor, float64(one(met)), 1) }
	for i := range len(now) {
		letter, anchor := now[i], i/2
		if letter == eval.SaidNothing {
			a.Missing++
			continue
		}

		if letter != eval.SaidTie {
			shownFirst := byte(eval.SaidFirst)
			if i%2 == 1 {
				shownFirst = eval.SaidSecond
			}
			add(first, anchor, letter == shownFirst)
		}
		switch items[anchor].Facts[eval.WinnerFact] {
		case "":
		case eval.Tie:
			add(right, anchor, letter == eval.SaidTie)
		case eval.AnchorDocument(items[anchor].ID, 0):
			add(right, anchor, letter == eval.SaidFirst)
		default:
			add(right, anchor, letter == eval.SaidSecond)
		}
		if len(times) < 2 {
			continue
		}
		if before := times[len(times)-2][i]; before != eval.SaidNothing {
			add(same, anchor, letter == before)
		}
		if before := times[0][i]; before != eval.SaidNothing {
			add(sameFirst, anchor, letter == before)
		}
	}
	a.Same, a.SameFirst, a.Right, a.First = same.share(), sameFirst.share(), right.share(), first.share()
}

// Warnings says which judges have changed since earlier evaluations, and which models have other names. nil: no judge has,
// as far as is known.
func (o *OverTime) Warnings() []string {
	if o == nil {
		return nil
	}
	var all []string
	for _, j := range o.Judges {
		if len(j.Times) == 0 || j.absent {
			continue
		}
		last := j.Times[len(j.Times)-1]
		if last.State == rank.DriftChanged {
			all = append(all, fmt.Sprintf("%s has changed: %s of its verdicts on anchors differ from earlier ones, usually %s (p %s).",
				called(j.Name), percent(last.Now), percent(last.Usual), pValue(last.Adjusted)))
		}
		if len(last.Before) > 0 {
			all = append(all, fmt.Sprintf("The provider of %s names another model than before: %s instead of %s.",
				called(j.Name), nameList(last.Named), nameList(last.Before)))
		}
	}
	return all
}

// nameList lists names that a provider gave a model, the first three.
func nameList(names []string) string {
	const most = 3
	var words []string
	for _, name := range names[:min(most, len(names))] {
		words = append(words, "“"+harmless.Line(name)+"”")
	}
	if more := len(names) - most; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}

// pValue formats a probability.
func pValue(p float64) string {
	if p < 0.001 {
		return "below 0.001"
	}
	return fmt.Sprintf("= %.3f", p)
}

// Line sums up in one line what anchors say; empty: there are none.
func (o *OverTime) Line() string {
	if o == nil {
		return ""
	}
	if warnings := o.Warnings(); len(warnings) > 0 {
		return strings.Join(warnings, " ")
	}
	counts := map[rank.DriftState]int{}
	for _, j := range o.Judges {
		state := rank.DriftUnknown
		if len(j.Times) > 0 && !j.absent {
			state = j.Times[len(j.Times)-1].State
		}
		counts[state]++
	}
	var words []string
	if n := counts[rank.DriftSteady]; n > 0 {
		words = append(words, fmt.Sprintf("%s as before", wording.Counted(n, "judge")))
	}
	if n := counts[rank.DriftUnknown]; n > 0 {
		words = append(words, fmt.Sprintf("unknown whether %s changed", wording.Counted(n, "judge")))
	}
	return strings.Join(words, ", ") + ", by " + wording.Counted(o.Anchors, "anchor") + "."
}
