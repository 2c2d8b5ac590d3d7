package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// SoftVerdicts counts the judges' verdicts on pairs with and without probabilities.
type SoftVerdicts struct {
	Soft, Hard int
}

// SoftRate is a candidate's mean probability of winning (rank.WeightedWinRates).
type SoftRate struct {
	Rate float64
	rank.Limits
}

// soften adds the probabilities of the verdict that was added last.
func (b *builder) soften(row results.PairwiseRow, outcome rank.Outcome) {
	counts := b.report.Soft
	switch {
	case counts == nil:
		return
	case row.Chances == nil:
		counts.Hard++
		return
	}
	counts.Soft++
	said := map[rank.Outcome]float64{rank.FirstWins: 1, rank.Tied: 0.5}[outcome]
	b.verdicts.soften(row.Chances.Share() - said)
}

// rateSoftly computes the weighted win rates from the verdicts that the ranking counts.
func (b *builder) rateSoftly(observed []rank.Observed) {
	if b.report.Soft == nil || len(b.report.Judges) == 0 {
		return
	}
	rates, limits := rank.WeightedWinRates(len(b.report.candidates), observed)
	for i := range rates {
		b.softRates = append(b.softRates, SoftRate{rates[i], limits[i]})
	}
}

// softRate returns the weighted win rate of a candidate; nil: verdicts are not soft, or it has none.
func (b *builder) softRate(candidate int) *SoftRate {
	if b.softRates == nil || math.IsNaN(b.softRates[candidate].Rate) {
		return nil
	}
	return &b.softRates[candidate]
}

// softly reports whether rankings show weighted win rates.
func (r *Report) softly() bool { return r.Soft != nil && r.Verdicts > 0 }

// softCell formats the weighted win rate of a candidate, with its limits.
func softCell(c Ranked) string {
	if c.Soft == nil {
		return "–"
	}
	return limited(fmt.Sprintf("%.1f %%", 100*c.Soft.Rate), c.Soft.Limits, func(x float64) string { return fmt.Sprintf("%.0f", 100*x) })
}

// softNumber returns a number of a weighted win rate; NaN if there is none.
func softNumber(c Ranked, of func(SoftRate) float64) float64 {
	if c.Soft == nil {
		return math.NaN()
	}
	return of(*c.Soft)
}

const softMeaning = "The weighted win rate is the mean probability with which judges prefer the candidate's text, from the log " +
	"probabilities of their answers; a tie is half a win. It changes nothing in the ranking, which counts who won."

// softNotes says how many verdicts have no probabilities.
func (r *Report) softNotes() []string {
	if !r.softly() || r.Soft.Hard == 0 {
		return nil
	}
	all := r.Soft.Soft + r.Soft.Hard
	return []string{fmt.Sprintf("%s of %s have no probabilities that the answers tell. They count as they were said in weighted win rates.",
		wording.Count(r.Soft.Hard), wording.Counted(all, "verdict"))}
}

// softJSON is the JSON form of SoftVerdicts.
type softJSON struct {
	Soft int `json:"soft"`
	Hard int `json:"hard"`
}

func (r *Report) softJSON() *softJSON {
	if !r.softly() {
		return nil
	}
	return &softJSON{r.Soft.Soft, r.Soft.Hard}
}

// weightedJSON is the JSON form of SoftRate.
type weightedJSON struct {
	Rate number `json:"rate"`
	Low  number `json:"low"`
	High number `json:"high"`
}

func weightedOf(c Ranked) *weightedJSON {
	if c.Soft == nil {
		return nil
	}
	return &weightedJSON{number(c.Soft.Rate), number(c.Soft.Low), number(c.Soft.High)}
}
