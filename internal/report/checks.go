package report

import (
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// CheckResult holds the results of one check.
type CheckResult struct {
	eval.Check
	Candidates []Share // in the order of Report.candidates
}

// finishChecks counts the texts that pass each check, by candidate.
func (b *builder) finishChecks() {
	plan := b.report.Evaluation.Plan
	for k, check := range plan.Checks {
		one := CheckResult{Check: check}
		for _, documents := range b.documents {
			passing := newSharing()
			for _, d := range documents {
				passed := 1.0
				if slices.ContainsFunc(plan.Documents[d].Failed, func(f eval.FailedCheck) bool { return f.Check == k }) {
					passed = 0
				}
				passing.add(b.itemOf(d), passed, 1)
			}
			one.Candidates = append(one.Candidates, passing.share())
		}
		b.report.Checks = append(b.report.Checks, one)
	}
}

// checkSection returns a table of the share of texts that pass each check, with at most `most` candidates each. ok is false
// without checks.
func (r *Report) checkSection(most int) (s section, ok bool) {
	var rows []sharedBy
	for _, check := range r.Checks {
		rows = append(rows, sharedBy{check.Label(), check.Candidates})
	}
	return r.shareSection("Checks", "check", "pass", "scores.csv", rows, most), len(rows) > 0
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
				r.candidates[i], of.Of, of.Met, number(of.Share), number(of.Low), number(of.High),
			})
		}
		all = append(all, one)
	}
	return all
}
