package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// tentative is the smallest alpha with which scores allow at least tentative conclusions (Krippendorff 2004, "Content
// Analysis", chapter 11).
const tentative = 0.667

// weighScores weighs how much was scored, and whether candidates were scored on the same items.
func (t *Reliance) weighScores(r *Report) {
	level, why := Sound, ""
	switch name, fewestItems, shared := r.scoredItems(); {
	case r.Scored < fewest:
		level = Unknown
		why = fmt.Sprintf("%s given, not at least %d", wording.Either(r.Scored, "score was", "scores were"), fewest)
	case shared == 0:
		level, why = Unknown, called(name)+" has no scores on items on which the first candidate has some"
	case fewestItems < fewItems && shared < fewItems && len(r.Items) > fewItems:
		level, why = Unknown, fmt.Sprintf("%s has scores on only %s of %d", called(name), wording.Count(fewestItems), len(r.Items))+" items"
	case fewestItems < fewItems:
		level, why = Caution, "candidates have scores on "+wording.Counted(fewestItems, "item")
	}
	t.add("scores", float64(r.Scored), level, why)
}

// scoredItems returns the candidate with scores on the fewest of the items on which the first candidate has scores, on how
// many items it has any, and on how many of the first's.
func (r *Report) scoredItems() (name string, of, shared int) {
	ranked := r.Groups[0].Ranked
	if len(r.Items) == 0 { // all documents belong to one item
		return ranked[0].Name, 1, 1
	}
	shared = len(r.Items) + 1
	for _, c := range ranked {
		own, both := 0, 0
		for _, item := range r.Items {
			scored := item.Results[c.Candidate].N > 0
			own += one(scored)
			both += one(scored && item.Results[ranked[0].Candidate].N > 0)
		}
		if both < shared || both == shared && own < of {
			name, of, shared = c.Name, own, both
		}
	}
	return name, of, shared
}

// weighScoreAgreement weighs the agreement of judges on the criterion on which they agree least.
func (t *Reliance) weighScoreAgreement(r *Report) {
	if len(r.askedModels()) < 2 {
		return
	}
	worst, why := Sound, ""
	for _, a := range r.ScoreAgreement {
		level, words := alphaGrade(a)
		if alpha, _ := a.aboutCandidates(); math.IsNaN(t.Alpha) || alpha < t.Alpha {
			t.Alpha = alpha
		}
		if level.place() < worst.place() {
			worst, why = level, words
			if len(r.ScoreAgreement) > 1 {
				why += " on " + called(a.Name)
			}
		}
	}
	if len(r.ScoreAgreement) == 0 {
		worst, why = Caution, "judges have scored no text in common"
	}
	t.add("agreement", t.Alpha, worst, why)
}

// alphaGrade returns the level of an agreement on scores, and what is wrong with it.
func alphaGrade(a *Agreement) (Level, string) {
	alpha, low := a.aboutCandidates()
	words := alphaWords(alpha)
	switch {
	case a.Units < fewest:
		return Caution, "judges have scored " + wording.Counted(a.Units, "text") + " in common"
	case math.IsNaN(alpha) && !math.IsNaN(a.Interval):
		return Caution, "judges give all texts of an item the same score"
	case math.IsNaN(alpha):
		return Caution, "judges give all texts the same score"
	}

	level, why := beyondChance(alpha, low)
	if level == Sound && alpha < tentative {
		level = Caution
	}
	return level, words + why
}

// aboutCandidates returns the alpha of what scores say about candidates, with its lower limit: that within items, if some
// have several texts that two raters scored.
func (a *Agreement) aboutCandidates() (alpha, low float64) {
	if a.WithinUnits > 0 {
		return a.Within, a.WithinLimits.Low
	}
	return a.Interval, a.IntervalLimits.Low
}

// weighFailed weighs the scores that are missing because runs failed, for the candidate that suffers most.
func (t *Reliance) weighFailed(r *Report) {
	level, why, most := Sound, "", 0.0
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			scored := c.Overall.N / max(1, len(r.Criteria))
			lacks := share(r.unscored[c.Name], r.unscored[c.Name]+scored)
			if lacks <= most {
				continue
			}
			most, why = lacks, fmt.Sprintf("%s lacks %s %% of its scores", called(c.Name), outOfHundred(lacks))
		}
	}

	switch {
	case most > muchMissing:
		level = Unsound
	case most > littleMissing:
		level = Caution
	}
	t.add("missing", most, level, why)
}
