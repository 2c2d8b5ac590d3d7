package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// CheckResult holds the results of one check.
type CheckResult struct {
	eval.Check
	Candidates []CheckShare // in the order of Report.candidates
}

// CheckShare holds the results of a check on one candidate's texts.
type CheckShare struct {
	Texts, Passed int
	// Share is Passed of Texts. Limits are those of Share, by item; NaN with fewer than two items.
	Share float64
	rank.Limits
}

// finishChecks counts the texts that pass each check, by candidate.
func (b *builder) finishChecks() {
	plan := b.report.Evaluation.Plan
	for k, check := range plan.Checks {
		one := CheckResult{Check: check, Candidates: make([]CheckShare, len(b.report.candidates))}
		for i, documents := range b.documents {
			of := &one.Candidates[i]
			sums, counts := map[int]float64{}, map[int]float64{} // by item
			for _, d := range documents {
				of.Texts++
				counts[b.itemOf(d)]++
				if !slices.ContainsFunc(plan.Documents[d].Failed, func(f eval.FailedCheck) bool { return f.Check == k }) {
					of.Passed++
					sums[b.itemOf(d)]++
				}
			}

			var passed, texts []float64
			for _, item := range slices.Sorted(maps.Keys(counts)) {
				passed, texts = append(passed, sums[item]), append(texts, counts[item])
			}
			of.Share, of.Limits = rank.MeanOf(passed, texts, 0, 1)
		}
		b.report.Checks = append(b.report.Checks, one)
	}
}

// checkSection returns a table of the share of texts that pass each check, with at most `most` candidates each, in the
// order of the ranking. ok is false without checks.
func (r *Report) checkSection(most int) (s section, ok bool) {
	if len(r.Checks) == 0 {
		return section{}, false
	}
	t := lines.Table{{Head: "check", Flexible: true}, {Head: "candidate", Flexible: true}}
	t = append(t, lines.Heads("pass", "of", "share", "95 % interval")...)
	order := r.inOrder()
	for _, check := range r.Checks {
		name := harmless.Line(check.Label())
		for _, c := range order[:min(most, len(order))] {
			of := check.Candidates[c.Candidate]
			interval := "–"
			if of.Low < of.High {
				interval = outOfHundred(of.Low) + " – " + outOfHundred(of.High) + " %"
			}
			t.Add(name, harmless.Line(c.Name), wording.Count(of.Passed), wording.Count(of.Texts), percent(of.Share), interval)
		}
	}

	s = section{title: "Checks", table: t}
	if left := len(order) - most; left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more candidate")+" in scores.csv.")
	}
	return s, true
}

// gateNotes says how many texts fail a gate, and what follows.
func (r *Report) gateNotes() []string {
	plan := r.Evaluation.Plan
	failed, verdicts := 0, 0
	for _, d := range plan.Documents {
		if _, barred := plan.Barred(d); barred {
			failed++
		}
	}
	for _, j := range r.Judges {
		verdicts += j.Gated
	}
	if failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"%s of %s failed a gate. Without a judge, such a text loses to each that passes, and ties with others that fail: %s.",
		wording.Count(failed), wording.Counted(len(plan.Documents), "text"), wording.Counted(verdicts, "verdict"),
	)}
}

// failedWords says which checks a document fails, and why.
func (r *Report) failedWords(d eval.Document) string {
	words := ""
	for _, failed := range d.Failed {
		if words != "" {
			words += "; "
		}
		words += "fails " + r.Evaluation.Plan.Checks[failed.Check].Name
		if failed.Why != "" {
			words += ": " + failed.Why
		}
	}
	return words
}

type checkJSON struct {
	Name       string                `json:"name"`
	Kind       eval.CheckKind        `json:"kind"`
	Gate       bool                  `json:"gate"`
	Candidates array[checkShareJSON] `json:"candidates"`
}

type checkShareJSON struct {
	Candidate string `json:"candidate"`
	Texts     int    `json:"texts"`
	Passed    int    `json:"passed"`
	Share     number `json:"share"`
	Low       number `json:"share_low"`
	High      number `json:"share_high"`
}

func (r *Report) checksJSON() []checkJSON {
	var all []checkJSON
	for _, check := range r.Checks {
		one := checkJSON{Name: check.Name, Kind: check.Kind, Gate: check.Gate}
		for i, of := range check.Candidates {
			one.Candidates = append(one.Candidates, checkShareJSON{
				r.candidates[i], of.Texts, of.Passed, number(of.Share), number(of.Low), number(of.High),
			})
		}
		all = append(all, one)
	}
	return all
}
