package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// setting is one of the settings that the evaluation ran with.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// formatOf returns where the prompts of a format come from, in words.
func formatOf(format eval.PromptFormat) string {
	switch format {
	case eval.PromptsBatch:
		return "a Batch file"
	case eval.PromptsTemplates:
		return "an evaluation file"
	}
	return "an experiment"
}

func (r *Report) settings() []setting {
	plan, how := r.Evaluation.Plan, r.Evaluation.Settings
	var all []setting
	add := func(name, format string, args ...any) {
		all = append(all, setting{name, fmt.Sprintf(format, args...)})
	}
	if runs := plan.Runs; runs != nil {
		add(
			"listed runs", "%s of %s on %s", wording.Counted(len(runs.List), "run"), wording.Counted(len(runs.Models), "model"),
			wording.Counted(len(runs.Files), "file"),
		)
	}
	if prompts := plan.Prompts; prompts != nil {
		add(
			"prompts", "%s of %s, as %s has them", wording.Counted(len(prompts.List), "prompt"),
			wording.Counted(len(prompts.Models), "model"), formatOf(prompts.Format),
		)
	}
	if !r.ListedOnly() {
		add(
			"documents", "%s by %s on %s", wording.Counted(len(plan.Documents), "document"),
			wording.Counted(len(r.candidates), "candidate"), wording.Counted(len(plan.Items), "item"),
		)
	}
	if plan.Given != nil {
		return append(all, r.givenSettings()...)
	}
	if r.Answers != nil {
		all = append(all, r.Answers.settings()...)
	}
	for _, j := range plan.Judges {
		add("judge "+j.Name, "%s", withOverrides(j))
	}
	if plan.Runs != nil {
		for _, model := range plan.Runs.Models {
			add("model", "%s", withOverrides(model))
		}
	}

	if plan.Prompts != nil {
		for i, model := range plan.Prompts.Models {
			group := ""
			if name := how.Group(eval.KindPrompts, i); name != "" {
				group = ", group " + name
			}
			add("model", "%s%s", withOverrides(model), group)
		}
	}

	if s := plan.Single; s != nil && s.Rubric {
		criteria := 0
		for _, item := range plan.Items {
			criteria += len(item.Rubric)
		}
		add("single", "%s in the rubrics of items, %s, %s", wording.Either(criteria, "criterion", "criteria"),
			wording.Counted(s.Trials, "trial"), r.template(eval.KindSingle))
	} else if s != nil {
		add("single", "scale %d to %d, %s, %s", s.Scale.Min, s.Scale.Max, wording.Counted(s.Trials, "trial"), r.template(eval.KindSingle))
		for _, c := range s.Criteria {
			add("criterion "+c.Name, "%s", c.Description)
		}
	}

	if p := plan.Pairwise; p != nil {
		add(
			"pairwise", "pairs %s, order %s, %s, ties %s, %s", pairsOf(p.Pairs), p.Order, wording.Counted(p.Trials, "trial"),
			allowed(p.Ties), r.template(eval.KindPairwise),
		)
		if p.Degrees > 1 {
			add("degrees", "%s", strings.Join(eval.DegreeWords(p.Degrees), ", "))
		}
		for _, c := range p.Criteria {
			add("criterion "+c.Name, "%s", c.Description)
		}
	}
	if how := plan.Escalate; how != nil {
		add("escalation", "to %s when %s, and %s of the other pairs", plan.Judges[plan.Strong()].Name, doubtWords(how.When), percent(how.Share))
	}
	if p := plan.Panel; p != nil {
		add("panel", "scale %d to %d, %s, %s, %s", p.Scale.Min, p.Scale.Max,
			wording.Counted(len(p.Agents), "agent"), wording.Counted(len(p.Dimensions), "dimension"), r.template(eval.KindPanel))
		for _, agent := range p.Agents {
			add("agent "+agent.Name, "%s, %s", withOverrides(agent), promptOf(agent))
		}
	}

	add("structured output", "%s", plan.JSON)
	if plan.Grounding == eval.Required || plan.Runs != nil && plan.Grounded(eval.KindRuns) {
		add("grounding", "%s", eval.Required)
	}
	if plan.Reasoning == eval.Required || plan.Runs != nil && plan.Reasoned(eval.KindRuns) {
		add("reasoning", "%s", eval.Required)
	}
	for _, limit := range how.Limits {
		if limit.Kind != ratelimit.Cost {
			add("limit", "%s", limit)
		}
	}

	if budget := r.budget(); budget != "" {
		add("budget", "%s", budget)
	}
	if table := r.priceTable(); table != "" {
		add("prices", "defaults: %s", table)
	}
	if how.Hold {
		add("abandoned calls", "held until they must have ended")
	}
	jitter := how.Retry.Jitter.String()
	if how.Retry.FullJitter {
		jitter = "full"
	}
	add(
		"retry", "%s in all, waits from %s to %s, jitter %s", wording.Counted(how.Retry.MaxAttempts, "call"),
		how.Retry.InitialDelay, how.Retry.MaxDelay, jitter,
	)
	timed := map[string]bool{}
	for _, j := range plan.Everyone() {
		if !timed[j.Target()] {
			timed[j.Target()] = true
			add("timeout of "+j.Target(), "%s", how.Timeout(j))
		}
	}

	if how.Limit > 0 {
		add("limited to", "the first %s of the plan", wording.Counted(how.Limit, "run"))
	}
	add("priority", "%d", how.Priority)
	add("submitted", "%s", dateTime(r.Evaluation.Created))
	if !r.Evaluation.Finished.IsZero() {
		add("finished", "%s, %s later", dateTime(r.Evaluation.Finished), took(r.Evaluation))
	}
	if !r.Evaluation.Cancelled.IsZero() {
		add("cancelled", "%s, with what was recorded until then", dateTime(r.Evaluation.Cancelled))
	}
	return all
}

func took(e results.Evaluation) time.Duration {
	return e.Finished.Sub(e.Created).Round(time.Second)
}

// withOverrides returns a judge's provider, model and overrides.
func withOverrides(j eval.Judge) string {
	if len(j.Overrides) == 0 {
		return j.Target()
	}
	raw, err := json.Marshal(j.Overrides)
	if err != nil { // cannot happen: it was read from JSON
		raw = []byte("overrides that cannot be shown")
	}
	return j.Target() + " " + string(raw)
}

// template identifies the prompt template of a kind by a hash of its text.
func (r *Report) template(kind eval.Kind) string {
	text := r.Evaluation.Plan.Template(kind)
	switch {
	case text == "":
		return "built-in template"
	case prompt.BuiltIn(kind, text):
		return "built-in template " + eval.TextHash(text)[:8]
	}
	return "own template " + eval.TextHash(text)[:8]
}

// promptOf identifies an agent's prompt by a hash of its text.
func promptOf(agent eval.Judge) string {
	if agent.Prompt == "" {
		return "no prompt of its own"
	}
	return "own prompt " + eval.TextHash(agent.Prompt)[:8]
}

func allowed(yes bool) string {
	if yes {
		return "allowed"
	}
	return "not allowed"
}

func pairsOf(p eval.Pairs) string {
	switch p.Mode {
	case eval.PairsSample:
		return fmt.Sprintf("a sample of %s", percent(p.Sample))
	case eval.PairsBaseline:
		return "all with " + p.Baseline
	case eval.PairsListed:
		return wording.Counted(len(p.Listed), "pair") + " listed"
	case eval.PairsGrown:
		return fmt.Sprintf("%s of the ranking before, and up to %s for each answer of %s", wording.Counted(len(p.Listed), "pair"),
			wording.Counted(p.Opponents, "opponent"), strings.Join(p.Newcomers, ", "))
	default:
		return string(p.Mode)
	}
}

// bestMethod explains P(best).
const bestMethod = "P(best) is the probability that a candidate is the best of its ranking. It allows for luck: the closer all " +
	"candidates are, the less the first one's lead counts."

// method returns the sentences that explain how the numbers are computed; none without tests.
func (r *Report) method() []string {
	switch {
	case !r.tested():
		return nil
	case r.ByScore():
		return []string{
			"Intervals of mean scores come from how much scores on different items differ.",
			"Two candidates are compared by what the same judge gave both of them on the same item and criterion. Trials are averaged, " +
				"then judges and criteria, so that each item gives one difference; the test is the paired one of Student, with at least six " +
				"items on which the two differ.",
			r.rankMethod(),
			bestMethod,
		}
	}
	ties := "A tie says that two candidates are close: Davidson's model, with a tie propensity for each judge."
	if r.Options.Ties == rank.HalfWins {
		ties = "A tie counts as half a win for each candidate."
	}

	positions := "If a judge's verdicts allow it, that judge's preference for the text shown first or second is " +
		"estimated and removed from the strengths."
	switch {
	case !r.ordered():
		positions = orderUnknown
	case r.Options.NoPosition:
		positions = "Judges' preferences for the text shown first or second are not removed (--position-effect=false)."
	}

	said := []string{
		"Strengths are Bradley–Terry log-odds, fitted to all verdicts at once by maximum likelihood; 0 is the average " +
			"candidate. A difference of 1 means that the better one wins about 73 % of decided verdicts, of 2 about 88 %.",
		ties,
		positions,
		r.limitsMethod(),
		r.rankMethod(),
		bestMethod,
		"Elo is the strength on the scale of chess ratings: 1000 is the average candidate, 400 points are odds of ten to one.",
		"Wins against the average are the strength as a share: how many decided verdicts a candidate wins against the average " +
			"candidate. The win rate of all its verdicts is another number: it counts a tie as half a win, and depends on the opponents.",
		strings.TrimSpace(eloMethod),
	}
	if r.softly() {
		said = append(said, softMeaning)
	}
	return said
}

// rankMethod explains what ranks say.
func (r *Report) rankMethod() string {
	if slices.ContainsFunc(r.Groups, Group.tiered) {
		return fmt.Sprintf("A rank such as 30 (tier 2) means: 30th, in the second tier. Each candidate of the second tier "+
			"is worse than some of the first, and so on. The candidates that hold the best are those for which no test says "+
			"that another one is better. In 95 of 100 such evaluations, all that tiers say is true, and the best is among "+
			"these. Bounds of ranks, which rankings of up to %d candidates show, are in ranking.csv.", rank.FewCandidates)
	}
	return "A rank such as 3 (2–5) means: third, and between ranks 2 and 5. These bounds hold for all candidates at " +
		"once: in 95 of 100 such evaluations every true rank lies within its bounds. Narrower bounds that hold for one " +
		"candidate alone are in ranking.csv (marginal_rank_low, marginal_rank_high)."
}

// limitsMethod describes how standard errors and intervals are computed.
func (r *Report) limitsMethod() string {
	how := r.Intervals
	if how.By == ByVerdict && how.Clusters > 1 {
		return "± is a standard error and the interval is 95 %. Both come from how much " + how.units() +
			" differ from each other, with each taken as independent of all others."
	}
	if how.Clusters < 2 {
		return "There are no intervals, because nothing shows how much the verdicts on others would differ."
	}
	return fmt.Sprintf("± is a standard error and the interval is 95 %%. Both come from how much the verdicts of %s "+
		"differ from each other, with Student's t for their number. Verdicts on one %s, %sby all %s, "+
		"may depend on each other in any way.",
		how.units(), how.unit(), r.inOrders("in both orders and "), r.raters())
}

const eloMethod = `
Elo ratings in elo_summary.csv are different: they rate documents within their item, without intervals. ` +
	`They are the fixed point of the usual updates and do not depend on the order of verdicts. If pairs were shown in ` +
	`one order only, a preference for a position is removed where the item's verdicts allow it.`
