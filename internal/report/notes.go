package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Notes returns sentences about the limits of the numbers: missing and excluded data, assumptions, and biases of judges.
// Those that change most what the ranking means come first. All are safe to print on a terminal.
func (r *Report) Notes() []string {
	var notes, leave, judges []string
	for _, j := range r.Judges {
		judges = append(judges, j.notes(r.rater(), r.Options)...)
		if j.Card != nil && j.Card.Drop != "" {
			leave = append(leave, "Leave "+r.rater()+" "+called(j.Name)+" out: "+j.Card.Drop+".")
		}
	}
	for _, some := range [][]string{
		r.OverTime.Warnings(), r.rankingNotes(), r.escalationNotes(), r.criteriaNotes(), r.softNotes(),
		r.groupNotes(), r.opponentNotes(), r.scoreNotes(), r.missingNotes(), leave, r.failureNotes(), r.intervalNotes(), judges,
		r.givenNotes(), r.priorNotes(), r.gateNotes(), r.listedNotes(), r.askedNotes(),
	} {
		notes = append(notes, some...)
	}
	if r.Answers != nil {
		notes = append(notes, r.Answers.notes()...)
	}
	return notes
}

// rankingNotes says why there is no ranking, or no certain one.
func (r *Report) rankingNotes() []string {
	var notes []string
	if why := r.Evaluation.Stopped; why != nil {
		notes = append(notes, fmt.Sprintf("The evaluation has stopped: %s.", harmless.Line(why.String())))
	}
	switch {
	case r.PanelOnly() && len(r.byPanel()) > 1:
		notes = append(notes, "Nothing is ranked, so there is no line of trust: a panel's agents have different roles, and need not agree. "+
			"Differences between means are not tested.")
	case r.ListedOnly() || r.PanelOnly() || r.Evaluation.Plan.Anchors != nil: // these rank nothing
	case r.Verdicts == 0 && r.Scored == 0:
		notes = append(notes, "There is no verdict yet, so there is no ranking.")
	case r.unfitted != nil:
		notes = append(notes, fmt.Sprintf(
			"More than %s candidates: ranked by win rate, without strengths and intervals.", wording.Count(rank.MaxCandidates),
		))
	}
	return notes
}

// failureNotes says which runs have no result.
func (r *Report) failureNotes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	planned, succeeded, failed, cancelled := r.runs()
	switch missing := planned - succeeded - failed - cancelled; {
	case missing <= 0 || r.known():
	case r.cancelled():
		note("The evaluation was cancelled: %s of %s %s no result.", wording.Count(missing), wording.Counted(planned, "run"), have(missing))
	default:
		note("Preliminary: %s of %s %s no result yet.", wording.Count(missing), wording.Counted(planned, "run"), have(missing))
	}

	switch {
	case failed > 0 && r.ListedOnly():
		note("%s of %s failed and %s no answer.", wording.Count(failed), wording.Counted(planned, "run"), have(failed))
	case failed > 0:
		note(
			"%s of %s failed. Failed runs are ignored: they do not count as a loss, a tie or a score of 0.",
			wording.Count(failed), wording.Counted(planned, "run"),
		)
	}
	if cancelled > 0 {
		note("%s cancelled.", wording.Counted(cancelled, "run"))
	}
	return notes
}

// askedNotes says what is unusual about how judges were asked.
func (r *Report) askedNotes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	if how := r.Evaluation.Settings.Fallback; how != nil && r.Statistics.Total > 0 {
		note("%s.", r.Statistics)
		for _, advice := range r.Statistics.Advice(how) {
			note("%s.", advice)
		}
	}
	if identical := r.identical(); identical > 0 {
		note(
			"%s on identical texts. They were not sent to a judge. They count as ties in win rates and change nothing else.",
			countedAre(identical, "verdict"),
		)
	}
	if plan := r.Evaluation.Plan; plan.Judged() && !plan.Blind && plan.Given == nil {
		note("Judges saw the documents' ids, which may reveal the authors (blind: false).")
	}
	return notes
}

// identical returns the number of verdicts on identical texts, which no judge was asked about.
func (r *Report) identical() (n int) {
	for _, j := range r.Judges {
		n += j.Identical
	}
	return n
}

// groupNotes says which candidates the ranking does not relate.
func (r *Report) groupNotes() []string {
	var notes []string
	if n := len(r.Groups); n > 1 {
		notes = append(
			notes,
			fmt.Sprintf(
				"The candidates form %s groups that were never compared with each other, so each group has a ranking of its own.",
				wording.Count(n),
			),
		)
	}
	if n := len(r.Unranked); n > 0 && !r.PanelOnly() {
		notes = append(notes, fmt.Sprintf("%s without any verdict that counts: not ranked.", wording.Counted(n, "candidate")))
	}
	return notes
}

// priorNotes says where a prior had to make the strengths finite.
func (r *Report) priorNotes() []string {
	var notes []string
	separable, assumed := 0, 0
	for _, g := range r.Groups {
		switch {
		case g.Separable:
			separable++
		case g.Regularised:
			assumed++
		}
	}

	which := func(n int) string {
		if len(r.Groups) == 1 {
			return "Here"
		}
		return "In " + wording.Counted(n, "group")
	}
	if separable > 0 {
		notes = append(
			notes,
			which(separable)+" some candidates never lost to or tied with the others, which no finite strength explains. A weak "+
				"prior keeps strengths and intervals finite, so their sizes are partly assumed. Ranks and headlines do not "+
				"depend on it.",
		)
	}
	if assumed > 0 {
		notes = append(
			notes,
			which(assumed)+" the verdicts of a judge or annotator leave the strengths undetermined, so a weak prior was used: "+
				"distances and intervals are partly assumed.",
		)
	}
	if people := r.People; people != nil && len(r.Judges) == 0 {
		for _, name := range people.Assumed {
			who := "Annotator " + called(name) + " ties"
			if name == "" {
				who = "Annotators with few votes tie"
			}
			notes = append(notes, who+" so consistently that the propensity to tie has no finite estimate; a weak prior was used.")
		}
	}

	return notes
}

// intervalNotes explains what the intervals do not cover.
func (r *Report) intervalNotes() []string {
	if r.Fit == nil {
		return nil
	}
	var notes []string
	switch how := r.Intervals; {
	case how.Clusters == 1:
		notes = append(
			notes,
			fmt.Sprintf(
				"All verdicts are on one %s, so it is unknown how much verdicts on others would differ: there are no intervals, "+
					"and no candidate is called ahead.",
				how.unit(),
			),
		)
	case how.By == ByItem && how.Clusters < fewItems:
		notes = append(notes, fmt.Sprintf("With %s, intervals are wide because they allow for how much items differ.", how.units()))
	}

	if slices.ContainsFunc(r.Judges, func(j Judge) bool { return j.Effect.Confounded }) {
		note := "Some pairs were shown in one order only, so a preference for a position cannot be told from a difference " +
			"between candidates. The candidates concerned are not called ahead of each other."
		if r.Evaluation.Plan.Given == nil {
			note += " Set `order: both` to avoid this."
		}
		notes = append(notes, note)
	}
	if r.Options.Length {
		notes = append(notes, r.lengthNote())
	}
	if r.Unweighed != nil {
		notes = append(notes, "Judges are weighted by how well they tell candidates apart (`--judge-scale`). With equal weights, "+
			r.changes(r.Unweighed))
	}
	if r.ByWinners != nil {
		notes = append(notes, "A win counts by its degree: much better is more than better. By the winners alone, "+r.changes(r.ByWinners))
	}

	return notes
}

// changes says how the ranking would be if it were as plain says.
func (r *Report) changes(plain *Unweighed) string {
	first := "the first would stay first"
	if plain.First != r.Groups[0].Ranked[0].Name {
		first = called(plain.First) + " would be first"
	}
	return fmt.Sprintf("%s would have another rank, and %s.", wording.Counted(plain.Moved, "candidate"), first)
}

// fewItems is the number of items below which a note warns that intervals are wide.
const fewItems = 6

// unit returns the name of what intervals resample as a whole, because its verdicts may depend on each other.
func (how *Intervals) unit() string {
	switch how.By {
	case ByItem:
		return "item"
	case ByVerdict:
		return "question"
	}
	return "pair of documents"
}

// units returns the number of clusters with their unit, such as "12 items".
func (how *Intervals) units() string {
	switch how.By {
	case ByItem:
		return wording.Counted(how.Clusters, "item")
	case ByVerdict:
		return wording.Counted(how.Clusters, "verdict")
	}
	return wording.Counted(how.Clusters, "pair") + " of documents"
}

// lengthNote explains how the ranking accounts for the length of texts.
func (r *Report) lengthNote() string {
	f := r.Fit
	switch {
	case !f.HasLength:
		return "Texts do not differ in length, or only between candidates, so length cannot be told from strength: the " +
			"ranking is not adjusted for it."
	case f.LengthRegularised:
		return "Judges follow the length of texts so consistently that its effect has no finite estimate; a weak prior was used."
	default:
		return fmt.Sprintf("The ranking is that of texts of equal length: a standard deviation more of length is worth %s (%s to %s) to a text.",
			signed(f.Length), signed(f.LengthLimits.Low), signed(f.LengthLimits.High))
	}
}

// notableConsistency is the share of pairs with the same answer in both orders below which a note reports a judge.
const notableConsistency = 0.8

// leastOrder is the smallest order effect (in log-odds) that a note reports. A judge without any may have a smaller
// one by rounding.
const leastOrder = 0.002

// notes returns notes on a judge or, as who says, a person.
func (j Judge) notes(who string, options Options) []string {
	var notes []string
	note := func(format string, args ...any) {
		notes = append(notes, capital(who)+" "+called(j.Name)+" "+fmt.Sprintf(format, args...))
	}
	e := j.Effect
	switch {
	case e.Regularised:
		note("prefers one position, or ties, so consistently that its effect has no finite estimate; a weak prior was used.")
	case e.HasOrder && j.OrderLimits.Low*j.OrderLimits.High > 0 && math.Abs(e.Order) >= leastOrder:
		note("favours the text shown %s: of two equal texts it prefers that one in %s of decided verdicts. The ranking corrects for it.",
			position(e.Order), percent(1/(1+math.Exp(-math.Abs(e.Order)))))
	}

	if e.HasScale && j.ScaleLimits.Low <= 0 {
		note(
			"does not tell candidates apart like the others: its scale of %s (%s) may be 0.", signed(e.Scale),
			between(j.ScaleLimits.Low, j.ScaleLimits.High),
		)
	}
	if j.Swaps.Total() > 0 && j.Swaps.Consistency() < notableConsistency {
		note(
			"gave the same answer in both orders for only %s of the pairs, and preferred the other text in %s.",
			percent(j.Swaps.Consistency()), percent(j.Swaps.Flipped()),
		)
	}
	if j.Fallback > 0 {
		verb := "left out"
		if options.Fallback {
			verb = "counted"
		}
		note("was replaced by another model in %s, %s here.", wording.Counted(j.Fallback, "answer"), verb)
	}

	if j.Own > 0 {
		note(
			"compared two documents of the same candidate %s; these verdicts do not count in the ranking.",
			strings.TrimSpace(wording.Counted(j.Own, "time")),
		)
	}
	return notes
}

func position(order float64) string {
	if order < 0 {
		return "second"
	}
	return "first"
}

// Headline says in a sentence or two who is best and how certain that is, and "so far" unless the evaluation is
// complete. If the evaluation has only listed runs, it says how many have an answer.
func (r *Report) Headline() string {
	var said string
	switch {
	case r.ListedOnly():
		planned, _, _, _ := r.runs()
		answers, _ := r.answers()
		return fmt.Sprintf("%s of %s %s an answer.", wording.Count(answers), wording.Counted(planned, "run"), have(answers))
	case r.PanelOnly():
		said = r.panelHeadline()
	case r.Evaluation.Plan.Anchors != nil:
		return "Nothing is ranked: judges are asked about " + wording.Counted(len(r.Evaluation.Plan.Items), "anchor") + "."
	case len(r.Groups) == 0 && r.Pairs == 0 && r.identical() > 0 && r.complete():
		return "All texts that were compared with each other are identical, so there is nothing to rank."
	case len(r.Groups) == 0:
		return "No ranking yet."
	default:
		said = r.leaders()
	}
	if !r.complete() {
		return "So far, " + said
	}
	return said
}

// leaders says who is best in the ranking.
func (r *Report) leaders() string {
	if len(r.Groups) > 1 {
		return fmt.Sprintf("%s separate rankings, with no comparisons between them.", wording.Count(len(r.Groups)))
	}
	ranked := r.Groups[0].Ranked
	var leaders []string
	for _, c := range ranked {
		if c.Rank == 1 {
			leaders = append(leaders, called(c.Name))
		}
	}

	switch best, doubt := ranked[0], r.doubt(); {
	case len(leaders) > 1 && doubt != "":
		return list(leaders, headlineNames) + " share the first rank; " + doubt + "."
	case len(leaders) > 1:
		shared := list(leaders, headlineNames) + " share the first rank"
		if r.Groups[0].tiered() {
			return r.because(r.Groups[0].leadersOfMany(list(leaders, bestNames), "share the first rank"))
		}
		if rivals := firstToo(ranked[len(leaders):]); r.tested() && len(rivals) > 0 {
			return r.because(fmt.Sprintf("%s; at 95 %% confidence, %s could be the best as well.", shared, list(rivals, headlineNames)))
		}
		return shared + "."
	case r.ByScore():
		return r.highest(doubt)
	case !r.abilities():
		return fmt.Sprintf("%s has the highest win rate, %s.", leaders[0], percent(best.WinRate()))
	case doubt != "":
		return leaders[0] + " is first; " + doubt + "."
	case r.ahead() && best.RankHigh > 1:
		return fmt.Sprintf("%s is the best of the %s candidates, at 95 %% confidence%s.",
			leaders[0], wording.Count(len(ranked)), r.throughWords())
	case r.ahead():
		return fmt.Sprintf("%s is ahead of every other candidate at 95 %% confidence%s.", leaders[0], r.throughWords())
	case r.Groups[0].tiered():
		return r.Groups[0].leadersOfMany(leaders[0], "is first"+r.Groups[0].likelier())
	default:
		first, rivals := leaders[0]+" is first"+r.Groups[0].likelier(), firstToo(ranked[1:])
		if len(rivals) == 0 {
			return first + ", but its lead is not certain."
		}
		return fmt.Sprintf("%s; at 95 %% confidence, %s could be the best as well.", first, list(rivals, headlineNames))
	}
}

// highest says who has the highest mean score, alone, and how certain it is that this candidate is the best.
func (r *Report) highest(doubt string) string {
	group := r.Groups[0]
	best := group.Ranked[0]
	first := fmt.Sprintf("%s has the highest mean score, %s", called(best.Name), mean(best.Overall))
	switch {
	case doubt != "":
		return first + "; " + doubt + "."
	case !r.tested():
		return first + "."
	case r.ahead() && best.RankHigh > 1:
		return fmt.Sprintf("%s, and is the best of the %s candidates, at 95 %% confidence.", first, wording.Count(len(group.Ranked)))
	case r.ahead():
		return first + ", and is ahead of every other candidate at 95 % confidence."
	case group.tiered():
		return r.because(group.leadersOfMany(called(best.Name), "has the highest mean score, "+mean(best.Overall)+group.likelier()))
	}
	rivals := firstToo(group.Ranked[1:])
	if len(rivals) == 0 {
		return first + ", but its lead is not certain."
	}
	return r.because(
		fmt.Sprintf("%s%s; at 95 %% confidence, %s could be the best as well.", first, group.likelier(), list(rivals, headlineNames)))
}

// likelier names the candidate that is more probably the best than the first one, whose strength is known less well, as a
// part of a sentence. It is empty if the first is the most probable one, or is shown with the same probability, and where a
// prior holds the strengths: it makes a candidate that never lost less probable than one that lost to many.
func (g Group) likelier() string {
	if g.Separable || g.Regularised {
		return ""
	}
	first := g.Ranked[0]
	most := slices.MaxFunc(g.Ranked, func(x, y Ranked) int { return cmp.Compare(x.Best, y.Best) }) // NaN is the least
	if !(most.Best > first.Best) || probability(most.Best) == probability(first.Best) {
		return ""
	}
	return fmt.Sprintf(", but %s is more probably the best (%s, not %s)", called(most.Name),
		probability(most.Best), probability(first.Best))
}

// doubt returns why the headline must not say how certain the first place is, as a part of a sentence. It is empty if the
// level of trust is caution or better, and with win rates.
func (r *Report) doubt() string {
	if !r.abilities() && !r.ByScore() {
		return ""
	}
	return map[Level]string{
		Unknown: "too little is known to say how certain that is",
		Unsound: "the verdicts are not reliable enough to say how certain that is",
	}[r.trust()]
}

// trust returns how far the ranking can be relied on; empty if it has no line of trust.
func (r *Report) trust() Level {
	if reliance := r.Reliance(); reliance != nil {
		return reliance.Level
	}
	return ""
}

// headlineNames is how many candidates a headline names in one list.
const headlineNames = 10

// firstToo returns the names of the candidates that may be the best.
func firstToo(ranked []Ranked) []string {
	var names []string
	for _, c := range ranked {
		if c.Contender {
			names = append(names, called(c.Name))
		}
	}
	return names
}

// list joins names to "a, b and c". If there are more than `most`, it names that many and counts the others: "a, b
// and 4 more".
func list(names []string, most int) string {
	if len(names) > most {
		names = append(names[:most:most], wording.Count(len(names)-most)+" more")
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
