package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

// nameRunes bounds a name in a sentence or a cell.
const nameRunes = 60

// called is a name in a sentence.
func called(name string) string { return "“" + named(name) + "”" }

// named is a name in a sentence or a cell.
func named(name string) string { return harmless.Short(harmless.Line(name), nameRunes) }

// namedApart are names that are shown side by side, each in n columns: no two of them
// look the same.
func namedApart[T any](of []T, name func(T) string, n int) []string {
	lines := make([]string, len(of))
	for i, one := range of {
		lines[i] = harmless.Line(name(one))
	}
	return harmless.Apart(lines, n)
}

func itself(name string) string { return name }

// countedAre is "1 run is", "2,000 runs are".
func countedAre(n int, one string) string {
	if n == 1 {
		return "1 " + one + " is"
	}
	return wording.Counted(n, one) + " are"
}

// have is the verb of n things: "1 of 3 runs has no answer".
func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func percentOf(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return percent(share(part, whole))
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// signed is a log-odds to two decimals, with a proper minus and without a
// negative zero.
func signed(x float64) string {
	x = math.Round(x*100) / 100
	switch {
	case x > 0:
		return fmt.Sprintf("+%.2f", x)
	case x < 0:
		return fmt.Sprintf("−%.2f", -x)
	default:
		return "0.00"
	}
}

// plusMinus is a log-odds with its standard error.
func plusMinus(x, se float64) string { return fmt.Sprintf("%s ± %.2f", signed(x), se) }

// between are the limits of a log-odds.
func between(low, high float64) string { return signed(low) + " … " + signed(high) }

// ranks is "3 (2–5)", or "3" where the bounds add nothing.
func (r *Report) ranks(c Ranked) string {
	if !r.abilities() {
		return fmt.Sprint(c.Rank)
	}
	return rankRange(c)
}

func rankRange(c Ranked) string {
	if c.RankLow != c.RankHigh {
		return fmt.Sprintf("%d (%d–%d)", c.Rank, c.RankLow, c.RankHigh)
	}
	return fmt.Sprint(c.Rank)
}

// probability is in percent; one that is not known is "–".
func probability(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	return outOfHundred(p) + " %"
}

// eloOf is an ability on Elo's scale with its limits, "1086 (1002–1171)". Limits below 0 are
// set apart, "−1103 (−4062 … −554)".
func eloOf(c Ranked) string {
	between := "–"
	if rank.Elo(c.Low) < 0 {
		between = " … "
	}
	return strings.ReplaceAll(fmt.Sprintf("%.0f (%.0f%s%.0f)", rank.Elo(c.Ability), rank.Elo(c.Low), between, rank.Elo(c.High)), "-", "−")
}

// leadWords is how far the candidate at position k is ahead of the next, with limits.
func (g Group) leadWords(k int) string {
	lead, limits := g.lead(k)
	if math.IsNaN(lead) {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", signed(lead), between(limits.Low, limits.High))
}

// abilities reports whether candidates have them.
func (r *Report) abilities() bool { return r.Verdicts > 0 && r.unfitted == nil }

func mean(s Score) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", s.Mean())
}

// limited is a number with its limits in brackets, where there are any.
func limited(text string, limits rank.Limits, form func(float64) string) string {
	if math.IsNaN(limits.Low) || limits.Low == limits.High {
		return text
	}
	return text + " (" + form(limits.Low) + "–" + form(limits.High) + ")"
}

func tally(c Ranked) string {
	return fmt.Sprintf("%s–%s–%s", wording.Count(c.Wins), wording.Count(c.Losses), wording.Count(c.Ties))
}

// tokens is a number of tokens that leaves calls out which did not report theirs.
func tokens(n int64, u results.Usage) string {
	switch {
	case u.Unreported == 0:
		return wording.Count(n)
	case n == 0:
		return "unknown"
	default:
		return "≥ " + wording.Count(n)
	}
}

// cost is a number of dollars, or the known part of it; an unknown price is never 0.
func cost(u results.Usage) string {
	amount := ratelimit.USD(u.CostUSD)
	switch {
	case u.Unpriced == 0:
		return amount
	case u.CostUSD == 0:
		return "unknown"
	default:
		return "≥ " + amount
	}
}

// budget is the used part of the evaluation's budget: the cost of calls, the possible cost of
// those whose cost is unknown, and the bound on both. Empty without a budget.
func (r *Report) budget() string {
	budget := r.Evaluation.Settings.Budget()
	if budget == 0 {
		return ""
	}
	known := int64(math.Round(r.total().CostUSD * ratelimit.Dollar))
	return fmt.Sprintf("%s: %s spent, %s reserved for calls of unknown cost",
		ratelimit.Dollars(budget), ratelimit.Dollars(known), ratelimit.Dollars(max(0, r.Spent-known)))
}

// priceTable says how much of the prices the built-in table knew, and when.
func (r *Report) priceTable() string {
	if day := r.Evaluation.Settings.PricesAsOf; day != "" {
		return "list prices of " + day
	}
	return ""
}

// made is how many calls were made, and how many were not because the same was
// answered before.
func made(u results.Usage) string {
	words := wording.Counted(u.Calls, "call")
	if u.FromCache > 0 {
		words += ", " + wording.Count(u.FromCache) + " answered before"
	}
	return words
}

// total is what all calls together used.
func (r *Report) total() results.Usage {
	var sum results.Usage
	for _, c := range r.Calls {
		sum = sum.Plus(c.Usage)
	}
	return sum
}

// cancelled reports whether the evaluation was cancelled, so that no results of
// its missing runs are due.
func (r *Report) cancelled() bool { return !r.Evaluation.Cancelled.IsZero() }

func (r *Report) runs() (planned, succeeded, failed, cancelled int) {
	for _, p := range r.Phases {
		planned += p.Runs
		succeeded += p.Succeeded
		failed += p.Failed
		cancelled += p.Cancelled
	}
	return planned, succeeded, failed, cancelled
}

// period is when verdicts were given, in UTC.
func (r *Report) period() string {
	const minute, clock = "2006-01-02 15:04", "15:04"
	first, last := r.First.UTC(), r.Last.UTC()
	switch {
	case r.First.IsZero():
		return ""
	case first.Format(minute) == last.Format(minute):
		return first.Format(minute) + " UTC"
	case first.Format(time.DateOnly) == last.Format(time.DateOnly):
		return first.Format(minute) + "–" + last.Format(clock) + " UTC"
	default:
		return first.Format(minute) + " – " + last.Format(minute) + " UTC"
	}
}
