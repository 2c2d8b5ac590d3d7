package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Evidence is one reason to rely on a ranking, or not to. docs/report.md lists the bounds and their sources.
type Evidence struct {
	Of    string // what it is about, such as "agreement"
	Level Level
	Value float64 // the number that was compared with bounds
	Why   string  // why Level is not Sound; empty if it is
}

const (
	// These are the largest kappas of agreement that is called so (Landis and Koch 1977, "The measurement of observer
	// agreement for categorical data"). Fleiss 1981 also calls agreement up to fair poor.
	slight   = 0.20
	fair     = 0.40
	moderate = 0.60
	// mostlyAgree is a share of equal verdicts from which a kappa up to fair is low because most verdicts are ties (Feinstein
	// and Cicchetti 1990, "High agreement but low kappa").
	mostlyAgree = 0.8
	substantial = 0.80
	// often is the share of verdicts that follow the order above which the level is Caution. Notes on single judges
	// have the same bound.
	often = 1 - notableConsistency
	// mostly is the share of flips from which verdicts follow the order more than the texts: random ones do on half.
	mostly = 0.5
	// nearlyMostly is the share from which this may be so: random ones are as often below half as above.
	nearlyMostly = 0.4
	// fewest is the smallest number of pairs that is evidence. With fewer, all verdicts agree by chance more often than
	// once in 20 (sign test: 0.5^4 > 0.05 > 0.5^5).
	fewest = 5
	// outside is what an interval of 95 % leaves out on one side.
	outside = 0.025
	// leastDone is the share of runs below which an evaluation has hardly begun.
	leastDone = 0.2
	// leastCommon is the share of pairs with verdicts of several judges below which their agreement says little of all.
	leastCommon = 0.5
	// chanceCycles is the share of circular triples in random verdicts (Kendall and Babington Smith 1940).
	chanceCycles = 0.25
	// fewTriples is how many triples show whether verdicts are random, at 1 %: those of 7 candidates. Random verdicts on
	// 7 make as many triples circular as can be, 14, in 0.13 % of evaluations, but on 6, where these are 8 of 20, in 8 %
	// (the distribution of circular triads: Kendall and Babington Smith 1940).
	fewTriples = 35
	// overdispersed is the dispersion above which a model does not explain the verdicts (McCullagh and Nelder 1989,
	// "Generalized Linear Models", section 4.5), if chance explains it in less than 1 %.
	overdispersed = 2
	// littleMissing and muchMissing are the shares of missing outcomes up to which bias is of little concern, and above
	// which results are in doubt (Schulz and Grimes 2002, "Sample size slippages in randomised trials").
	littleMissing = 0.05
	muchMissing   = 0.20
)

// add adds evidence; why is ignored if the level is Sound.
func (t *Reliance) add(of string, value float64, level Level, why string) {
	if level == Sound {
		why = ""
	}
	t.Evidence = append(t.Evidence, Evidence{of, level, value, why})
}

// weighPairs weighs how much was compared: pairs, verdicts that are no ties, and items, and whether verdicts relate all
// candidates.
func (t *Reliance) weighPairs(r *Report) {
	decided := 0
	for _, j := range r.Judges {
		decided += j.Positions.FirstWins + j.Positions.SecondWins
	}

	level, why := Sound, ""
	switch {
	case r.Pairs < fewest:
		level = Unknown
		why = fmt.Sprintf("%s at least %d", wording.Either(r.Pairs, "pair has a verdict, not", "pairs have verdicts, not"), fewest)
		if n := r.repeated(); n > 0 {
			why += " (" + repeatedWords(n) + ")"
		}
	case decided < fewest:
		level = Unknown
		why = fmt.Sprintf("%s a winner, not at least %d", wording.Either(decided, "verdict names", "verdicts name"), fewest)
	case r.Intervals != nil && r.Intervals.By == ByItem && r.Intervals.Clusters < fewItems:
		level, why = Caution, "all verdicts are on "+r.Intervals.units()
	case r.separate():
		level, why = Caution, "nothing says which verdicts are on the same question"
	case r.repeated() > 0:
		level, why = Caution, repeatedWords(r.repeated())
	case len(r.Groups) > 1:
		level, why = Caution, wording.Counted(len(r.Groups), "group")+" of candidates were never compared with each other"
	case r.throughOne() != "":
		level, why = Caution, r.throughOne()
	}
	t.add("pairs", float64(r.Pairs), level, why)
}

func (t *Reliance) weighCoverage(r *Report) {
	planned, succeeded, failed, _ := r.runs()
	left := ""
	if r.limited() {
		planned = max(planned, r.unlimited())
		left = fmt.Sprintf("--limit left out all but the first %s of %s",
			wording.Count(r.Evaluation.Settings.Limit), wording.Counted(planned, "run"))
	}

	done := float64(succeeded+failed) / float64(planned)
	switch {
	case r.complete():
		t.add("coverage", done, Sound, "")
	case done < leastDone && left != "":
		t.add("coverage", done, Unknown, left)
	case done < leastDone:
		t.add("coverage", done, Unknown, fmt.Sprintf("only %s of %s have ended%s", wording.Count(succeeded+failed),
			wording.Counted(planned, "run"), r.soFar()))
	case len(r.Unranked) > 0:
		t.add("coverage", done, Unknown, fmt.Sprintf(
			"%s of %s have no verdict yet", wording.Count(len(r.Unranked)), wording.Counted(len(r.candidates), "candidate"),
		))
	case left != "":
		t.add("coverage", done, Caution, left)
	default:
		t.add("coverage", done, Caution, "the evaluation is not complete"+r.soFar())
	}
}

// soFar says how many verdicts the candidates of an incomplete evaluation have: ", 4 to 5 verdicts on each candidate". It
// is empty without verdicts on pairs.
func (r *Report) soFar() string {
	least, most := -1, 0
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			if least < 0 || c.Games() < least {
				least = c.Games()
			}
			most = max(most, c.Games())
		}
	}
	if len(r.Unranked) > 0 {
		least = 0
	}

	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf(", %s on each candidate", wording.Counted(most, "verdict"))
	}
	return fmt.Sprintf(", %s to %s on each candidate", wording.Count(least), wording.Counted(most, "verdict"))
}

// weighPeople weighs the agreement with people, which is no evidence without votes on enough pairs.
func (t *Reliance) weighPeople(r *Report) {
	if r.People == nil {
		return
	}
	var same, kappa, low weighted
	for _, j := range r.People.Judges {
		n := float64(j.Pairs)
		same.add(j.Accuracy, n)
		kappa.add(j.Cohen, n)
		low.add(lowest(j.Accuracy, j.CohenLimits.Low, j.groups), n)
		t.voted = max(t.voted, j.Pairs)
	}
	if t.voted < fewest {
		return
	}
	t.People, t.PeopleKappa = same.mean(), kappa.mean()
	level, why := gradeOf(t.PeopleKappa, low.mean(), r.tied(), t.People)
	t.add("people", t.PeopleKappa, level, t.peopleWords()+why)
}

// weighted is a weighted mean of the numbers that are known.
type weighted struct{ sum, weight float64 }

func (w *weighted) add(value, weight float64) {
	if !math.IsNaN(value) {
		w.sum, w.weight = w.sum+weight*value, w.weight+weight
	}
}

// mean returns the mean; NaN if nothing is known.
func (w *weighted) mean() float64 { return w.sum / w.weight }

// weighAgreement weighs the agreement of judges with each other. A ranking by a strong judge rests on its agreement with the
// first judges on the pairs that these do not contest.
func (t *Reliance) weighAgreement(r *Report) {
	if x := r.Escalation; x != nil && x.Corrected {
		t.weighConfirmation(x)
		return
	}
	if (len(r.askedModels()) < 2 || r.Escalation != nil && len(r.Judges) == 2) && r.Agreement == nil {
		return
	}

	units, low := 0, math.NaN()
	if a := r.Agreement; a != nil {
		t.Agree, t.Kappa, low, units = a.raw(), a.Fleiss, a.FleissLimits.Low, a.Complete
		if a.Units < r.Pairs {
			t.common = fmt.Sprintf(" on %s of %s", wording.Count(a.Units), wording.Counted(r.Pairs, "pair"))
		}
		if len(a.Pairs) == 1 {
			t.Kappa, units = a.Pairs[0].Cohen, a.Pairs[0].Units
			low = min(low, a.Pairs[0].CohenLimits.Low) // of few pairs, either may exclude chance by luck
		}
	}

	if units < fewest {
		t.add("agreement", t.Kappa, Caution, fmt.Sprintf("%s have %s in common", r.raters(), wording.Counted(units, "pair")))
		return
	}
	if few := leastCommon * float64(r.Pairs); float64(units) < few {
		t.add("agreement", t.Kappa, Caution,
			fmt.Sprintf("%s have only %s of %s pairs in common", r.raters(), wording.Count(units), wording.Count(r.Pairs)))
		return
	}
	level, why := gradeOf(t.Kappa, lowest(t.Agree, low, r.Agreement.Groups), r.tied(), t.Agree)
	t.add("agreement", t.Kappa, level, t.agreeWords()+why)
}

// weighConfirmation weighs how far a strong judge agrees with the first judges on the sample of pairs that they do not
// contest. Its kappa is that of values that are equally frequent, with the exact limit of a share (Clopper and Pearson 1934).
func (t *Reliance) weighConfirmation(x *Escalation) {
	if x.SeenSampled == 0 {
		return
	}
	share := float64(x.Confirmed) / float64(x.SeenSampled)
	kappa, low := 2*share-1, -1.0
	if x.Confirmed > 0 {
		low = 2*mathext.InvRegIncBeta(float64(x.Confirmed), float64(x.SeenSampled-x.Confirmed+1), outside) - 1
	}
	words := fmt.Sprintf("the strong judge confirms %s of %s that the others do not contest",
		wording.Count(x.Confirmed), wording.Counted(x.SeenSampled, "pair"))
	level, why := Caution, ""
	if x.SeenSampled >= fewest {
		level, why = kappaGrade(kappa, low)
	}
	t.add("agreement", kappa, level, words+why)
}

// gradeOf returns the level of an agreement, and what is wrong with it: kappa with its lower limit, and raw is the share of
// equal verdicts. If most verdicts are ties, to agree on these says nothing about who is better.
func gradeOf(kappa, low, tied, raw float64) (Level, string) {
	alike := math.IsNaN(kappa) || allAgree(raw) || raw > mostlyAgree && (low <= 0 || kappa <= fair)
	if alike && (tied >= mostly || math.IsNaN(kappa)) {
		return Caution, ", mostly on ties"
	}
	return kappaGrade(kappa, low)
}

// kappaGrade returns the level of a kappa with its lower limit, and what is wrong with it.
func kappaGrade(kappa, low float64) (Level, string) {
	level, why := beyondChance(kappa, low)
	if level == Sound && kappa <= fair {
		level = Caution
	}
	return level, why
}

// beyondChance returns whether agreement is more than chance, by a coefficient and its lower limit, and what is wrong with
// it.
func beyondChance(coefficient, low float64) (Level, string) {
	switch {
	case coefficient <= 0, coefficient <= slight && low <= 0: // chance is as often above 0 as below
		return Unsound, ", no better than chance"
	case low <= 0:
		return Caution, ", which may be chance"
	}
	return Sound, ""
}

// tied returns the share of judges' verdicts that are ties.
func (r *Report) tied() float64 {
	ties, all := 0, 0
	for _, j := range r.Judges {
		ties, all = ties+j.Positions.Ties, all+j.Positions.Total()
	}
	return share(ties, all)
}

// lowest returns the lower limit of a kappa over a number of groups of verdicts that may depend on each other. If all
// verdicts agree, they do not vary, so the limit follows from the exact one of a share of 1 (Clopper and Pearson 1934, "The
// use of confidence or fiducial limits").
func lowest(raw, low float64, groups int) float64 {
	if !allAgree(raw) || groups == 0 {
		return low
	}
	return 2*math.Pow(outside, 1/float64(groups)) - 1
}

// allAgree reports whether a share of equal verdicts is that of all.
func allAgree(raw float64) bool { return raw > 1-1e-9 }

// askedModels returns the models of judges that were asked about pairs or, where scores rank candidates, about single
// texts, with the number of their judges.
func (r *Report) askedModels() map[string]int {
	models := map[string]int{}
	for _, j := range r.Judges {
		scored := slices.ContainsFunc(j.Scores, func(s Score) bool { return s.N > 0 })
		if j.Positions.Total() > 0 || r.ByScore() && scored {
			models[j.Model]++
		}
	}
	return models
}

// weighJudges weighs how many judges there are, and whether one makes the ranking worse. Judges of one model share its
// biases (Verga et al. 2024, "Replacing Judges with Juries"). One is enough if it was compared with people on enough pairs.
func (t *Reliance) weighJudges(r *Report) {
	models, judges := r.askedModels(), 0
	for _, n := range models {
		judges += n
	}

	level, why, alone := Sound, "", math.IsNaN(t.People) || t.voted < leastPairs
	votes := "there is no vote of people to compare it with"
	if t.voted > 0 {
		votes = "people voted on only " + wording.Counted(t.voted, "pair")
	}
	switch {
	case judges == 1 && alone && r.given() && r.Evaluation.Plan.Given.Pooled > 0:
		level, why = Caution, fmt.Sprintf("%s %s gave too few verdicts each to be compared",
			wording.Count(r.Evaluation.Plan.Given.Pooled), r.raters())
	case judges == 1 && r.votedOnly():
		level, why = Caution, "all votes are of one person"
	case r.votedOnly(): // no model's biases are shared
	case r.Escalation != nil && r.Escalation.Corrected && alone:
		level, why = Caution, "the ranking is that of one judge, and "+votes
	case judges == 1 && alone:
		level, why = Caution, "there is one judge, and "+votes
	case len(models) == 1 && alone:
		level, why = Caution, "all judges are the same model"
	case r.likened != "":
		level, why = Caution, r.likened
	}

	for _, j := range r.Judges {
		if level == Sound && j.Card != nil && j.Card.Drop != "" {
			level, why = Caution, r.rater()+" "+called(j.Name)+" should be left out"
		}
	}
	t.add("judges", float64(judges), level, why)
}

// weighCycles weighs circular triples: more than the abilities explain, and as many as random verdicts produce. Of few
// triples, as many may be chance whatever the verdicts are, so only verdicts that fit one strength for each candidate
// show that no circle is behind them.
func (t *Reliance) weighCycles(r *Report) {
	share := r.Cycles.Share()
	switch over := share > r.Expected.High; {
	case r.Cycles.Triples == 0:
	case r.Cycles.Circular == r.Cycles.Triples && r.Pairs >= fewest && (r.Cycles.Triples > 1 || r.contradicted()):
		t.add("cycles", share, Unsound, wording.Either(r.Cycles.Triples, "triple of candidates is", "triples of candidates are all")+
			" circular: no order explains the verdicts")
	case share >= chanceCycles && (over || math.IsNaN(r.Expected.High)):
		t.add("cycles", share, Unsound, fmt.Sprintf("%s %% of triples are circular, by chance 25 %%", outOfHundred(share)))
	case over:
		t.add("cycles", share, Caution, fmt.Sprintf("%s %% of triples are circular, while strengths explain %s %%",
			outOfHundred(share), outOfHundred(r.Expected.Mean)))
	case share >= chanceCycles && r.Cycles.Triples < fewTriples && r.contradicted():
		t.add("cycles", share, Caution, fmt.Sprintf("%s of %s circular, as by chance, too few to tell whether an order explains the verdicts",
			wording.Count(r.Cycles.Circular), wording.Either(r.Cycles.Triples, "triple of candidates is", "triples of candidates are")))
	default:
		t.add("cycles", share, Sound, "")
	}
}

// misfit returns the deviance for each degree of freedom, and the probability of one so large by chance. Trials of one
// question may all say the same, which multiplies the deviance by their number at most. known is false if there are too
// few verdicts to tell.
func (r *Report) misfit() (dispersion, chance float64, known bool) {
	f := r.Fit
	if f == nil || !f.Dense || f.DegreesOfFreedom < 1 {
		return 0, 1, false
	}
	freedom, trials := float64(f.DegreesOfFreedom), float64(max(1, r.Evaluation.Plan.Pairwise.Trials))
	return f.Deviance / freedom / trials, distuv.ChiSquared{K: freedom}.Survival(f.Deviance / trials), true
}

// contradicted reports whether the verdicts contradict their fit by more than chance, or are too few to tell.
func (r *Report) contradicted() bool {
	_, chance, known := r.misfit()
	return !known || chance < unlikely
}

// weighFit weighs whether one strength for each candidate explains the verdicts, if there are enough of them.
func (t *Reliance) weighFit(r *Report) {
	dispersion, chance, known := r.misfit()
	if !known {
		return
	}
	level := Sound
	if dispersion > overdispersed && chance < unlikely {
		level = Caution
	}
	t.add("fit", dispersion, level, "one strength per candidate does not explain the verdicts")
}

// weighMissing weighs the verdicts that are missing because runs failed, for the candidate that suffers most.
func (t *Reliance) weighMissing(r *Report) {
	level, why, most := Sound, "", 0.0
	if r.Missing != nil {
		for _, m := range r.Missing.Candidates {
			lacks := float64(m.Verdicts) / float64(m.Verdicts+m.Given)
			if next, reason := r.lacking(m, lacks); next.place() < level.place() {
				level, why = next, reason
			}
			most = max(most, lacks)
		}
	}

	if n := len(r.Unranked); n > 0 && level == Sound && r.complete() {
		level, why = Caution, wording.Either(n, "candidate has", "candidates have")+" no verdict"
	}
	t.add("missing", most, level, why)
}

// lacking returns what it means that a candidate lacks a share of its verdicts.
func (r *Report) lacking(m MissingOf, share float64) (level Level, why string) {
	lacks := fmt.Sprintf("%s lacks %s %% of its verdicts", called(m.Name), outOfHundred(share))
	switch {
	case share > muchMissing:
		return Unsound, lacks
	case share > littleMissing:
		return Caution, lacks
	case m.Uneven:
		return Caution, fmt.Sprintf("failures on %s are not random", called(m.Name))
	case m.Bounds != nil && m.Rank == 1 && r.ahead() && m.Bounds.High > 1:
		return Caution, fmt.Sprintf("missing verdicts could cost %s the first place", called(m.Name))
	}
	return Sound, ""
}
