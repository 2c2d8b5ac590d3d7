package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	runplan "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// nameRunes bounds the length of a name in a sentence or a table cell.
const nameRunes = 60

// called returns a name in quotation marks, for use in a sentence.
func called(name string) string { return "“" + named(name) + "”" }

// named returns a name that is safe to print and clipped, for use in a table cell.
func named(name string) string { return harmless.Short(harmless.Line(name), nameRunes) }

// namedApart returns the names of things that are shown side by side. Each is clipped to n columns such that no two
// look the same.
func namedApart[T any](of []T, name func(T) string, n int) []string {
	lines := make([]string, len(of))
	for i, one := range of {
		lines[i] = harmless.Line(name(one))
	}
	return harmless.Apart(lines, n)
}

// capital returns words with a capital first letter.
func capital(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

func itself(name string) string { return name }

// countedAre formats a number of things with the verb: "1 run is", "2,000 runs are".
func countedAre(n int, one string) string {
	if n == 1 {
		return "1 " + one + " is"
	}
	return wording.Counted(n, one) + " are"
}

// have returns the verb for n things: "has" for 1, otherwise "have".
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

// signed formats a number, such as log-odds, with two decimals and a sign. It uses a typographic minus sign, and no
// sign for zero.
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

// plusMinus appends a standard error to a number, if it is known.
func plusMinus(number string, se float64) string {
	if math.IsNaN(se) {
		return number
	}
	return fmt.Sprintf("%s ± %.2f", number, se)
}

// between formats the limits of log-odds; "–" if they are not known.
func between(low, high float64) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return "–"
	}
	return signed(low) + " … " + signed(high)
}

// ranks returns "3 (2–5)", or "3" if the limits are equal or do not exist. Among many candidates it returns
// "3 (tier 1)".
func (r *Report) ranks(c Ranked) string {
	if !r.tested() {
		return fmt.Sprint(c.Rank)
	}
	return rankRange(c)
}

// rankRange returns a candidate's rank with its tier, where a ranking of many candidates has them, or with its bounds.
func rankRange(c Ranked) string {
	switch {
	case c.tiered:
		return fmt.Sprintf("%d (tier %d)", c.Rank, c.Tier)
	case c.RankLow != c.RankHigh:
		return fmt.Sprintf("%d (%d–%d)", c.Rank, c.RankLow, c.RankHigh)
	}
	return fmt.Sprint(c.Rank)
}

// probability formats a probability in percent, which is never 0 or 100; "–" if it is NaN.
func probability(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	return uncertain(p) + " %"
}

// uncertain formats a probability that is an estimate as outOfHundred does, but one of 0 as "<1" and one of 1 as ">99".
func uncertain(p float64) string {
	const least = 1e-9
	return outOfHundred(min(max(p, least), 1-least))
}

// eloOf formats an ability with its limits, if these are known, on the Elo scale, such as "1086 (1002–1171)". If the lower
// limit is negative, the limits are separated by dots: "−1103 (−4062 … −554)".
func eloOf(c Ranked) string {
	between := "–"
	switch low := rank.Elo(c.Low); {
	case math.IsNaN(low):
		return strings.ReplaceAll(fmt.Sprintf("%.0f", rank.Elo(c.Ability)), "-", "−")
	case low < 0:
		between = " … "
	}
	return strings.ReplaceAll(fmt.Sprintf("%.0f (%.0f%s%.0f)", rank.Elo(c.Ability), rank.Elo(c.Low), between, rank.Elo(c.High)), "-", "−")
}

// leadWords formats how far the candidate at position k is ahead of the next, with limits; "–" if that is unknown.
func (g Group) leadWords(k int) string {
	lead, limits := g.lead(k)
	if math.IsNaN(lead) {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", signed(lead), between(limits.Low, limits.High))
}

// abilities reports whether candidates have abilities: there are verdicts on pairs, and not too many candidates.
func (r *Report) abilities() bool { return r.Verdicts > 0 && r.unfitted == nil }

// tested reports whether differences between candidates are tested, by their abilities or by their mean scores.
func (r *Report) tested() bool { return len(r.Groups) > 0 && r.Groups[0].tests != nil }

func mean(s Score) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", s.Mean())
}

// limited appends limits in brackets to a number, if there are any.
func limited(text string, limits rank.Limits, form func(float64) string) string {
	if math.IsNaN(limits.Low) || limits.Low == limits.High {
		return text
	}
	return text + " (" + form(limits.Low) + "–" + form(limits.High) + ")"
}

func tally(c Ranked) string {
	return fmt.Sprintf("%s–%s–%s", wording.Count(c.Wins), wording.Count(c.Losses), wording.Count(c.Ties))
}

// tokens formats a number of tokens. It is a lower bound, marked ≥, if some calls did not report theirs.
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

// cost formats a cost in USD. If some calls have no price, the known part is a lower bound, marked ≥; if nothing is
// known it is "unknown", never 0.
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

// budget describes the used part of the evaluation's budget: the bound, the cost of calls, and the possible cost of
// calls whose cost is unknown. It is empty without a budget.
func (r *Report) budget() string {
	budget := r.Evaluation.Settings.Budget()
	if budget == 0 {
		return ""
	}
	if r.Answers != nil && r.Answers.Known { // what they cost was left out of the settings
		budget += r.Answers.Spent
	}
	known := int64(math.Round(r.total().CostUSD * ratelimit.Dollar))
	return fmt.Sprintf("%s: %s spent, %s reserved for calls of unknown cost",
		ratelimit.Dollars(budget), ratelimit.Dollars(known), ratelimit.Dollars(max(0, r.Spent-known)))
}

// priceTable says as of when the built-in table of prices was used; empty if it was not.
func (r *Report) priceTable() string {
	if day := r.Evaluation.Settings.PricesAsOf; day != "" {
		return "list prices of " + day
	}
	return ""
}

// made says how many calls were made, and how many were not because the answer was already cached.
func made(u results.Usage) string {
	words := wording.Counted(u.Calls, "call")
	if u.FromCache > 0 {
		words += ", " + wording.Count(u.FromCache) + " answered before"
	}
	return words
}

// total adds up the usage of all calls.
func (r *Report) total() results.Usage {
	var sum results.Usage
	for _, c := range r.Calls {
		sum = sum.Plus(c.Usage)
	}
	return sum
}

// cancelled reports whether the evaluation was cancelled, so that runs without a result will not get one.
func (r *Report) cancelled() bool { return !r.Evaluation.Cancelled.IsZero() }

// complete reports whether the evaluation has ended as planned: nothing more is expected to change its ranking. One that
// ended early because its best candidates are known is complete.
func (r *Report) complete() bool {
	planned, succeeded, failed, _ := r.runs()
	return r.known() || !r.Evaluation.Finished.IsZero() && !r.cancelled() && !r.limited() && planned <= succeeded+failed
}

// limited reports whether --limit left out runs of the plan. An early stopping rule limits runs as planned.
func (r *Report) limited() bool {
	planned, _, _, _ := r.runs()
	how := r.Evaluation.Settings
	return how.Limit > 0 && how.Until == nil && planned >= how.Limit
}

// unlimited returns how many runs the evaluation would have without --limit; 0 if that cannot be told.
func (r *Report) unlimited() (runs int) {
	e := r.Evaluation.Plan
	for phase, kind := range runplan.Phases(e) {
		queues := slices.Repeat([]string{"any"}, len(e.JudgesOf(kind))) // a plan has one for each judge
		p, err := runplan.New(e, phase, runplan.Options{JudgeQueues: queues})
		if err != nil {
			return 0
		}
		runs += p.Runs()
	}
	return runs
}

// ahead reports whether a test says that one candidate is better than every other.
func (r *Report) ahead() bool {
	if len(r.Groups) != 1 || len(r.Groups[0].Ranked) < 2 || !r.tested() {
		return false
	}
	group := r.Groups[0]
	return group.Ranked[0].RankHigh == 1 || group.tiered() && len(group.Contenders.Positions) == 1
}

func (r *Report) runs() (planned, succeeded, failed, cancelled int) {
	for _, p := range r.Phases {
		planned += p.Runs
		succeeded += p.Succeeded
		failed += p.Failed
		cancelled += p.Cancelled
	}
	return planned, succeeded, failed, cancelled
}

// period returns the time span of the verdicts, in UTC; empty without verdicts.
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
