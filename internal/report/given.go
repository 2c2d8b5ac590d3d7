package report

import (
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// orderUnknown explains what is missing if the order of texts was not recorded.
const orderUnknown = "The files do not say which text was shown first, so preferences for a position are neither estimated nor removed."

// given reports whether the verdicts were given elsewhere and read from files.
func (r *Report) given() bool { return r.Evaluation.Plan != nil && r.Evaluation.Plan.Given != nil }

// votedOnly reports whether all verdicts are votes of people, which were read from files.
func (r *Report) votedOnly() bool { return r.given() && r.Evaluation.Plan.Given.People }

const people = "people"

// raters returns who gave the verdicts, in a sentence.
func (r *Report) raters() string {
	if r.votedOnly() {
		return people
	}
	return "judges"
}

// rater returns one of them.
func (r *Report) rater() string {
	if r.votedOnly() {
		return "person"
	}
	return "judge"
}

// ordered reports whether it is known which of two texts was shown first.
func (r *Report) ordered() bool {
	plan := r.Evaluation.Plan
	return plan == nil || plan.Pairwise == nil || plan.Pairwise.Order != eval.OrderUnknown
}

// inOrders returns words about the two orders of texts; empty if the order is not known.
func (r *Report) inOrders(words string) string {
	if !r.ordered() {
		return ""
	}
	return words
}

// separate reports whether nothing says which verdicts are on the same question.
func (r *Report) separate() bool { return r.given() && r.Evaluation.Plan.Given.Separate }

// repeated returns how many rows of the files repeat an earlier one and name no question.
func (r *Report) repeated() int {
	if !r.given() {
		return 0
	}
	return r.Evaluation.Plan.Given.Repeated
}

func repeatedWords(rows int) string {
	return wording.Either(rows, "row names no question and repeats an earlier one", "rows name no question and repeat earlier ones")
}

// byPosition formats a number of verdicts for the text shown first or second; "–" if the order is not known.
func (r *Report) byPosition(n int) string {
	if !r.ordered() {
		return "–"
	}
	return wording.Count(n)
}

// longerOf returns the relative difference in length of two documents (rank.Relative); 0 if the text of either is not
// known, or is more than a text.
func longerOf(first, second eval.Document) float64 {
	if first.Hash == "" || second.Hash == "" || first.Turns || second.Turns {
		return 0
	}
	return rank.Relative(first.Bytes, second.Bytes)
}

// eachAlone appends the verdicts of o, each in a cluster of its own. Clusters are numbered by the length of out.
func eachAlone(out []rank.Observed, o rank.Observed) []rank.Observed {
	one := rank.Observed{Judge: o.Judge, First: o.First, Second: o.Second, Longer: o.Longer}
	if n := o.FirstWins + o.SecondWins + o.Ties; n > 0 {
		one.Soft = o.Soft / float64(n) // the mean: their probabilities are not kept one by one
	}
	for _, kind := range []struct {
		n   int32
		set func(*rank.Observed)
	}{
		{o.FirstWins, func(v *rank.Observed) { v.FirstWins = 1 }},
		{o.SecondWins, func(v *rank.Observed) { v.SecondWins = 1 }},
		{o.Ties, func(v *rank.Observed) { v.Ties = 1 }},
	} {
		for range kind.n {
			alone := one
			alone.Cluster = int32(len(out))
			kind.set(&alone)
			out = append(out, alone)
		}
	}
	return out
}

// givenWords says in one sentence what was read.
func (r *Report) givenWords() string {
	files := r.Evaluation.Plan.Given.Files
	rows, verdicts, skipped := 0, 0, 0
	for _, file := range files {
		rows, verdicts = rows+file.Rows, verdicts+file.Verdicts
		for _, one := range file.Skipped {
			skipped += one.Count
		}
	}

	words := fmt.Sprintf("%s from %s of %s", wording.Counted(verdicts, "verdict"), wording.Counted(rows, "row"),
		wording.Counted(len(files), "file"))
	if skipped > 0 {
		words += fmt.Sprintf("; %s skipped, see the notes", wording.Count(skipped))
	}
	return words + "; no model was asked"
}

// givenNotes say what was not read as it was written, and what the files do not tell.
func (r *Report) givenNotes() []string {
	if !r.given() {
		return nil
	}
	var notes []string
	given := r.Evaluation.Plan.Given
	if given.Separate && r.Verdicts > 0 {
		notes = append(notes, "The files do not say which verdicts are on the same question, so each counts as independent "+
			"of all others. If several are on one question, intervals are too narrow.")
	}

	if n := given.Repeated; n > 0 {
		notes = append(notes, capital(repeatedWords(n))+" in every field, so nothing tells them from copies: they count as verdicts on the "+
			"same question, not as independent ones. If they are on other questions, add a column item that names these.")
	}

	if n := given.Pooled; n > 0 {
		notes = append(notes, fmt.Sprintf("%s with few verdicts each are treated as one, called %s: what a judge does is "+
			"not estimated for each of them.",
			wording.Counted(n, "judge"), called(r.Judges[len(r.Judges)-1].Name)))
	}
	switch {
	case given.Column != nil:
		notes = append(notes, "Candidates keep to one column of the files, so a preference for the text shown first could look "+
			"like a lead. If the first column was shown first, say `--order shown`; if texts were shown in random order, `--order random`.")
	case !r.ordered():
		notes = append(notes, orderUnknown)
	}
	for _, file := range given.Files {
		for _, one := range file.Skipped {
			notes = append(notes, fmt.Sprintf("%s: %s skipped: %s.", harmless.Line(file.Name), wording.Count(one.Count), harmless.Line(one.What)))
		}
		for _, one := range file.Read {
			notes = append(notes, fmt.Sprintf("%s: %s %s.", harmless.Line(file.Name), wording.Count(one.Count), harmless.Line(one.What)))
		}
	}
	return notes
}

// givenSettings list the files that were read.
func (r *Report) givenSettings() []setting {
	var all []setting
	for _, file := range r.Evaluation.Plan.Given.Files {
		words := fmt.Sprintf("%s, %s, %s", file.Format, wording.Counted(file.Rows, "row"), wording.Counted(file.Verdicts, "verdict"))
		for _, one := range append(file.Skipped, file.Read...) {
			words += fmt.Sprintf(", %s %s", wording.Count(one.Count), one.What)
		}
		all = append(all, setting{"file " + file.Name, words})
	}
	var judges []string
	for _, j := range r.Evaluation.Plan.Judges {
		judges = append(judges, j.Name)
	}
	all = append(all, setting{"judges", strings.Join(judges, ", ")})
	if r.Evaluation.Plan.Pairwise != nil {
		all = append(all, setting{"order", string(r.Evaluation.Plan.Pairwise.Order)})
	}
	return append(all, setting{"read", dateTime(r.Evaluation.Created)})
}

func (r *Report) givenJSON() *givenJSON {
	if !r.given() {
		return nil
	}
	out := &givenJSON{Separate: r.separate(), Repeated: r.repeated(), Files: r.Evaluation.Plan.Given.Files}
	if r.Evaluation.Plan.Pairwise != nil {
		out.Order = r.Evaluation.Plan.Pairwise.Order
	}
	return out
}
