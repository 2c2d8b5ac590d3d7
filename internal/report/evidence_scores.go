package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// tentative is the smallest alpha with which scores allow at least tentative conclusions (Krippendorff 2004, "Content
// Analysis", chapter 11).
const tentative = 0.667

// weighScores weighs how much was scored, where scores rank candidates.
func (t *Reliance) weighScores(r *Report) {
	level, why := Sound, ""
	if r.Scored < fewest {
		level = Unknown
		why = fmt.Sprintf("%s given, not at least %d", wording.Either(r.Scored, "score was", "scores were"), fewest)
	}
	t.add("scores", float64(r.Scored), level, why)
}

// weighScoreAgreement weighs the agreement of judges on the criterion on which they agree least.
func (t *Reliance) weighScoreAgreement(r *Report) {
	if len(r.askedModels()) < 2 {
		return
	}
	worst, why := Sound, ""
	for _, a := range r.ScoreAgreement {
		level, words := alphaGrade(a)
		if math.IsNaN(t.Alpha) || a.Interval < t.Alpha {
			t.Alpha = a.Interval
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
	alpha := alphaWords(a.Interval)
	switch {
	case a.Units < fewest:
		return Caution, "judges have scored " + wording.Counted(a.Units, "text") + " in common"
	case math.IsNaN(a.Interval):
		return Caution, "judges give all texts the same score"
	case a.Interval <= 0:
		return Unsound, alpha + ", no better than chance"
	case a.Interval < tentative:
		return Caution, alpha
	case a.IntervalLimits.Low <= 0:
		return Caution, alpha + ", which may be chance"
	}
	return Sound, ""
}

// weighFailed weighs the scores that are missing because runs failed.
func (t *Reliance) weighFailed(r *Report) {
	planned, _, failed, _ := r.runs()
	lacks, level := share(failed, planned), Sound
	switch {
	case lacks > muchMissing:
		level = Unsound
	case lacks > littleMissing:
		level = Caution
	}
	t.add("missing", lacks, level, outOfHundred(lacks)+" % of scores are missing")
}
