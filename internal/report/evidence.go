package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/eval/rank"
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
	slight      = 0.20
	fair        = 0.40
	moderate    = 0.60
	substantial = 0.80
	// often is the share of verdicts that follow the order above which the level is Caution. Notes on single judges
	// have the same bound.
	often = 1 - notableConsistency
	// mostly is the share of flips from which verdicts follow the order more than the texts: random ones do on half.
	mostly = 0.5
	// fewest is the smallest number of pairs that is evidence. With fewer, all verdicts agree by chance more often than
	// once in 20 (sign test: 0.5^4 > 0.05 > 0.5^5).
	fewest = 5
	// leastDone is the share of runs below which an evaluation has hardly begun.
	leastDone = 0.2
	// leastCommon is the share of pairs with verdicts of several judges below which their agreement says little of all.
	leastCommon = 0.2
	// chanceCycles is the share of circular triples in random verdicts (Kendall and Babington Smith 1940).
	chanceCycles = 0.25
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
	var same, kappa, low, even, lowest weighted
	most := 0
	for _, j := range r.People.Judges {
		n := float64(j.Pairs)
		same.add(j.Accuracy, n)
		kappa.add(j.Cohen, n)
		low.add(j.CohenLimits.Low, n)
		even.add(j.even, n)
		lowest.add(evenLow(j.even, j.evenLimits.Low, j.groups), n)
		most = max(most, j.Pairs)
	}
	if most < fewest {
		return
	}
	t.People, t.PeopleKappa = same.mean(), kappa.mean()
	level, why := gradeOf(t.PeopleKappa, low.mean(), r.tied(), even.mean(), lowest.mean())
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

// weighAgreement weighs the agreement of judges with each other.
func (t *Reliance) weighAgreement(r *Report) {
	if len(r.askedModels()) < 2 && r.Agreement == nil {
		return
	}
	units, low := 0, math.NaN()
	if a := r.Agreement; a != nil {
		t.Agree, t.Kappa, low, units = a.raw(), a.Fleiss, a.FleissLimits.Low, a.Complete
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
	level, why := gradeOf(t.Kappa, low, r.tied(), r.Agreement.Even, evenLow(r.Agreement.Even, r.Agreement.EvenLimits.Low, r.Agreement.Groups))
	t.add("agreement", t.Kappa, level, t.agreeWords()+why)
}

// gradeOf returns the level of an agreement, and what is wrong with it, by kappa with its lower limit. If kappa is low
// because verdicts are nearly all alike, or does not vary because all agree, it takes even, the value of
// rank.Agreement.Even, instead. It does not where most verdicts are ties: to agree on these says nothing about who is
// better.
func gradeOf(kappa, low, tied, even, evenLow float64) (Level, string) {
	switch alike := allAgree(even) || low <= 0 && even > moderate || lowAsAlike(kappa, even); {
	case tied >= mostly && (alike || math.IsNaN(kappa)):
		return Caution, ", mostly on ties"
	}
	if math.IsNaN(kappa) || math.IsNaN(low) || allAgree(even) || low <= 0 && even > moderate || lowAsAlike(kappa, even) {
		kappa, low = even, evenLow
	}
	switch {
	case kappa <= 0:
		return Unsound, ", no better than chance"
	case kappa <= fair:
		return Caution, ""
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

// evenLow returns the lower limit of rank.Agreement.Even over a number of groups of verdicts that may depend on each
// other. If all verdicts agree, they do not vary, so the limit is the exact one of a share of 1 (Clopper and Pearson 1934,
// "The use of confidence or fiducial limits").
func evenLow(even, low float64, groups int) float64 {
	const outside = 0.025 // of an interval of 95 %, on one side
	if !allAgree(even) || groups == 0 {
		return low
	}
	return 2*math.Pow(outside, 1/float64(groups)) - 1
}

// allAgree reports whether rank.Agreement.Even is that of verdicts that all agree.
func allAgree(even float64) bool { return even > 1-1e-9 }

// lowAsAlike reports whether a kappa is low because verdicts are nearly all alike, although agreement is high (Feinstein
// and Cicchetti 1990, "High agreement but low kappa").
func lowAsAlike(kappa, even float64) bool { return kappa <= fair && even > moderate }

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
// biases (Verga et al. 2024, "Replacing Judges with Juries"). One is enough if it was compared with people.
func (t *Reliance) weighJudges(r *Report) {
	models, judges := r.askedModels(), 0
	for _, n := range models {
		judges += n
	}

	level, why := Sound, ""
	switch alone := math.IsNaN(t.People); {
	case judges == 1 && alone && r.given() && r.Evaluation.Plan.Given.Pooled > 0:
		level, why = Caution, fmt.Sprintf("%s %s gave too few verdicts each to be compared",
			wording.Count(r.Evaluation.Plan.Given.Pooled), r.raters())
	case judges == 1 && r.votedOnly():
		level, why = Caution, "all votes are of one person"
	case r.votedOnly(): // no model's biases are shared
	case judges == 1 && alone:
		level, why = Caution, "there is one judge and no vote of people to compare it with"
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

func (t *Reliance) weighOrder(r *Report) {
	var both rank.Swaps
	for _, j := range r.Judges {
		both.Consistent += j.Swaps.Consistent
		both.AlwaysFirst += j.Swaps.AlwaysFirst
		both.AlwaysSecond += j.Swaps.AlwaysSecond
		both.HalfTied += j.Swaps.HalfTied
	}
	if both.Total() > 0 {
		t.Order = 1 - both.Consistency()
	}

	switch {
	case r.given() && r.Evaluation.Plan.Given.Column != nil:
		c := r.Evaluation.Plan.Given.Column
		t.add("order", t.Order, Unknown, fmt.Sprintf("%s is in the first column of %s of its %s, and it is not known which text was shown first",
			called(c.Candidate), wording.Count(c.First), wording.Counted(c.Rows, "row")))
	case !r.ordered():
		t.add("order", t.Order, Caution, "it is not known which text was shown first")
	case both.Total() < fewest:
		level, why := Caution, fmt.Sprintf("%s compared in both orders", wording.Either(both.Total(), "pair was", "pairs were"))
		if place := r.placeShare(); place >= (1+mostly)/2 { // random verdicts and those for the place both choose it
			level = Unsound
			why = fmt.Sprintf("of two equal texts, %s choose the one in the same place in %s %% of verdicts", r.raters(), outOfHundred(place))
		}
		t.add("order", t.Order, level, why)
	case both.Flipped() >= mostly:
		t.add("order", t.Order, Unsound,
			fmt.Sprintf("%s prefer the same place instead of the same text on %s %% of pairs", r.raters(), outOfHundred(both.Flipped())))
	case t.Order > often:
		t.add("order", t.Order, Caution, fmt.Sprintf("order changes %s %% of verdicts", outOfHundred(t.Order)))
	default:
		t.add("order", t.Order, Sound, "")
	}
}

// placeShare returns how often judges choose the place that each of them prefers, of two texts of equal strength: the mean
// over their verdicts. A judge whose preference may be chance, or a difference between candidates, counts as one half.
func (r *Report) placeShare() float64 {
	var all weighted
	for _, j := range r.Judges {
		share := 0.5
		if j.Effect.HasOrder && !j.Effect.Confounded && j.OrderLimits.Low*j.OrderLimits.High > 0 {
			share = winShare(math.Abs(j.Effect.Order))
		}
		all.add(share, float64(j.Positions.Total()))
	}
	return all.mean()
}

// weighCycles weighs circular triples: more than the abilities explain, and as many as random verdicts produce.
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
