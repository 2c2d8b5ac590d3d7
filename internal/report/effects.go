package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
)

// shownDeviations is how many candidates the report lists that differ from what their prompt and model add up to.
const shownDeviations = 5

// Effects says what prompts and models contribute to the candidates that are both of them. Rows are prompts, columns
// are models.
type Effects struct {
	rank.Effects
	Prompts, Models []string // in the order of the plan
	// Why says in a sentence why there are no numbers; empty if there are.
	Why string

	layout rank.Layout
}

// findEffects sets Report.Effects, once candidates are ranked. Which candidate is which prompt and model is part of the
// plan.
func (b *builder) findEffects() {
	r := b.report
	if r.Answers == nil || len(r.Answers.Candidates) == 0 || len(r.Groups) == 0 {
		return
	}
	e := &Effects{}
	r.Effects = e
	for _, c := range r.Answers.Candidates {
		if !slices.Contains(e.Prompts, c.Prompt) {
			e.Prompts = append(e.Prompts, c.Prompt)
		}
		if !slices.Contains(e.Models, c.Model) {
			e.Models = append(e.Models, c.Model)
		}
	}
	e.place(b, r.Answers.Candidates)
	if e.Why != "" {
		return
	}

	var ok bool
	switch {
	case r.ByScore():
		scale := r.Evaluation.Plan.Single.Scale
		e.Effects, ok = rank.MeanEffects(e.layout, len(r.candidates), b.scoresByItem(), float64(scale.Min), float64(scale.Max))
		e.Why = "There is only one question, so it is not known how much the effects of prompts and models would vary with others."
	case r.abilities():
		e.Effects, ok = b.rated.uncertainty.Effects(e.layout)
		e.Why = "Effects of prompts and models cannot be told from judges' preferences for a position, because candidates " +
			"were not shown in both orders."
	default:
		e.Why = "With so many candidates, effects of prompts and models are not computed."
	}
	if ok {
		e.Why = ""
	}
}

// place finds the candidate of each prompt and model, or says why there are no effects.
func (e *Effects) place(b *builder, candidates []eval.Candidate) {
	at := map[[2]string]int{}
	var unknown []string
	ranked := map[int]bool{}
	for _, g := range b.report.Groups {
		for _, c := range g.Ranked {
			ranked[c.Candidate] = true
		}
	}
	for _, c := range candidates {
		i, known := b.candidate[c.Name]
		if !known || !ranked[i] {
			unknown = append(unknown, called(c.Name))
			continue
		}
		at[[2]string{c.Prompt, c.Model}] = i
	}

	switch {
	case len(e.Prompts) == 1:
		e.Why = "All candidates have the same prompt, so the ranking shows the effect of the model."
	case len(e.Models) == 1:
		e.Why = "All candidates are the same model, so the ranking shows the effect of the prompt."
	case len(unknown) > 0:
		e.Why = "Effects of prompts and models are not computed, because not every prompt is ranked with every model: " +
			list(unknown, headlineNames) + " " + have(len(unknown)) + " no rank."
	case len(b.report.Groups) > 1:
		e.Why = "Effects of prompts and models are not computed, because no verdicts compare the separate rankings."
	case len(at) < len(e.Prompts)*len(e.Models):
		e.Why = "Effects of prompts and models are not computed, because not every prompt was given to every model."
	}
	if e.Why != "" {
		return
	}
	for _, prompt := range e.Prompts {
		var line []int
		for _, model := range e.Models {
			line = append(line, at[[2]string{prompt, model}])
		}
		e.layout = append(e.layout, line)
	}
}

// scoresByItem returns the scores by candidate, item, and judge on a criterion.
func (b *builder) scoresByItem() (all []rank.Scores) {
	for d, scores := range b.scored.scores {
		for rater, score := range scores {
			if score.N > 0 {
				document := b.report.Evaluation.Plan.Documents[d]
				all = append(all, rank.Scores{
					Candidate: b.candidate[document.Candidate], Cluster: document.Item, Rater: rater, Sum: score.sum, Count: score.N,
				})
			}
		}
	}
	return all
}

// factorLevel is a prompt or a model with its effect.
type factorLevel struct {
	Name     string
	position int // in the plan
	rank.Effect
}

// inOrder returns levels, the highest first.
func inOrder(names []string, effects []rank.Effect) (all []factorLevel) {
	for k, one := range effects {
		all = append(all, factorLevel{names[k], k, one})
	}
	slices.SortStableFunc(all, func(a, b factorLevel) int { return cmp.Compare(b.At, a.At) })
	return all
}

// toldApart reports whether any two levels of a factor are.
func toldApart(effects []rank.Effect) bool {
	return slices.ContainsFunc(effects, func(e rank.Effect) bool { return e.RankLow > 1 })
}

// effectsHeadline says which factor differs more and how far its ends are apart, or why that is not known.
func (r *Report) effectsHeadline() string {
	e := r.Effects
	if e.Why != "" {
		return e.Why
	}
	prompts, models := toldApart(e.Rows), toldApart(e.Columns)
	first, second := r.rangeWords(e.Models, e.ColumnRange, true), r.rangeWords(e.Prompts, e.RowRange, false)
	if e.More > 0 || prompts && !models {
		first, second = r.rangeWords(e.Prompts, e.RowRange, true), r.rangeWords(e.Models, e.ColumnRange, false)
	}

	var said string
	switch {
	case e.More < 0:
		said = "models differ more than prompts"
	case e.More > 0:
		said = "prompts differ more than models"
	case prompts && models:
		said = "prompts differ, and so do models; which differ more is not certain"
	case prompts:
		said = "prompts differ; models are not told apart"
	case models:
		said = "models differ; prompts are not told apart"
	default:
		said = "neither prompts nor models are told apart at 95 % confidence"
	}
	if r.complete() {
		said = capital(said)
	} else {
		said = "So far, " + said
	}
	return said + ": " + first + ", and " + second + "."
}

// rangeWords says how far the highest level of a factor is above the lowest one.
func (r *Report) rangeWords(names []string, of rank.Range, whole bool) string {
	high, low := called(names[of.Highest]), called(names[of.Lowest])
	if r.ByScore() {
		verb := " scores "
		if !whole {
			verb = " "
		}
		return fmt.Sprintf("%s%s%s more than %s", high, verb, r.effectWords(of.Deviation), low)
	}
	verb, what := " wins ", " of decided verdicts"
	if !whole {
		verb, what = " ", ""
	}
	return fmt.Sprintf("%s%s%s%s against %s", high, verb, r.effectWords(of.Deviation), what, low)
}

// effectWords formats a difference with its limits: "71 % (62–79 %)" of the verdicts won, or "0.41 (0.20 … 0.62)".
func (r *Report) effectWords(of rank.Deviation) string {
	if r.ByScore() {
		if of.SE == 0 {
			return signed(of.By)
		}
		return fmt.Sprintf("%s (%s)", signed(of.By), between(of.Low, of.High))
	}
	low, high, to := outOfHundred(winShare(of.Low)), outOfHundred(winShare(of.High)), "–"
	if strings.ContainsAny(low+high, "<>") {
		to = " to "
	}
	return probability(winShare(of.By)) + " (" + low + to + high + " %)"
}

// interactionWords says whether the effects of prompts and models add up.
func (r *Report) interactionWords() string {
	e := r.Effects
	switch e.Untested {
	case rank.Assumed:
		return "Whether a prompt suits some models better than others is not tested: the verdicts do not bound how far some candidates are apart."
	case rank.FewClusters:
		return fmt.Sprintf("Whether a prompt suits some models better than others is not tested: that takes more than %d %s.",
			(len(e.Prompts)-1)*(len(e.Models)-1), r.clusterWords())
	case rank.NoVariance:
		return fmt.Sprintf("Whether a prompt suits some models better than others is not tested: the results of different "+
			"%s hardly differ.", r.clusterWords())
	case rank.TooMany:
		return fmt.Sprintf("Whether a prompt suits some models better than others is not tested with more than %d candidates.",
			rank.MaxInteraction)
	}

	if e.P >= 0.05 {
		return fmt.Sprintf("That a prompt suits some models better than others may be chance (p = %.2f).", e.P)
	}
	p := fmt.Sprintf("p = %.3f", e.P)
	if e.P < 0.001 {
		p = "p < 0.001"
	}

	said := "Some prompts suit some models better than others (" + p + "), so the effects above are averages"
	for _, d := range r.deviations() {
		if d.Low > 0 || d.High < 0 {
			better := "better"
			if d.By < 0 {
				better = "worse"
			}
			return fmt.Sprintf("%s. %s does %s than its prompt and its model add up to.", said, called(d.name), better)
		}
	}
	return said + ". No single candidate stands out."
}

// clusterWords returns what limits are based on.
func (r *Report) clusterWords() string {
	if r.ByScore() || r.Intervals.By == ByItem {
		return "questions"
	}
	return "pairs of documents"
}

// deviation is how far a candidate is from what its prompt and model add up to.
type deviation struct {
	rank.Deviation
	name, prompt, model string
	expected            float64
}

// deviations returns those of all candidates, the largest first; of two as large, such as those of two prompts with a
// model, the one above the sum.
func (r *Report) deviations() (all []deviation) {
	e := r.Effects
	if e.Why != "" {
		return nil
	}
	mean := 0.0
	for _, row := range e.Rows {
		mean += row.At / float64(len(e.Rows))
	}
	for p, line := range e.Interaction {
		for m, by := range line {
			all = append(all, deviation{
				by, r.candidates[e.layout[p][m]], e.Prompts[p], e.Models[m], e.Rows[p].At + e.Columns[m].At - mean,
			})
		}
	}
	size := func(d deviation) float64 { return math.Round(math.Abs(d.By) * 1e9) }
	slices.SortStableFunc(all, func(a, b deviation) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(b.By, a.By)) })
	return all
}

// effectSections returns the tables of the effects; none if the documents are not answers to prompts.
func (r *Report) effectSections(most int) []section {
	e := r.Effects
	if e == nil {
		return nil
	}
	s := section{title: "Prompts and models", lines: []string{r.effectsHeadline()}}
	if e.Why != "" {
		return []section{s}
	}
	head, _ := r.scoreWords()
	s.table = append(lines.Table{{Head: "all with", Flexible: true}, {Head: "is a"}}, lines.Heads(head, "95 % interval", "rank")...)
	for _, factor := range []struct {
		what string
		all  []factorLevel
	}{{"prompt", inOrder(e.Prompts, e.Rows)}, {"model", inOrder(e.Models, e.Columns)}} {
		for k, one := range factor.all[:min(most, len(factor.all))] {
			score, limits := r.levelCells(one)
			s.table.Add(harmless.Line(one.Name), factor.what, score, limits, rankRange(Ranked{
				Standing: rank.Standing{Rank: k + 1}, RankLow: one.RankLow, RankHigh: one.RankHigh,
			}))
		}
		if left := len(factor.all) - most; left > 0 {
			s.lines = append(s.lines, fmt.Sprintf("%d more %ss in report.json.", left, factor.what))
		}
	}

	s.lines = append(s.lines, r.interactionWords(), r.effectsMeaning())
	sections := []section{s}
	if d := r.deviations(); len(d) > 0 {
		sections = append(sections, r.deviationSection(d))
	}
	return sections
}

// effectsMeaning says what the numbers of effects are.
func (r *Report) effectsMeaning() string {
	what := "average strength, as wins against the average candidate"
	if r.ByScore() {
		what = "average of the candidates' mean scores"
	}
	return "The number of a prompt is its candidates' " + what + ", and likewise of a model. An interval holds for one " +
		"number. The ranks in brackets hold for all prompts and models at once, and so do the intervals of the differences " +
		"in the first sentence, both at 95 %."
}

// levelCells formats the effect of a prompt or model with its limits.
func (r *Report) levelCells(one factorLevel) (score, limits string) {
	if !r.ByScore() {
		return probability(winShare(one.At)), outOfHundred(winShare(one.Low)) + " – " + outOfHundred(winShare(one.High)) + " %"
	}
	if math.IsNaN(one.Low) {
		return fmt.Sprintf("%.2f", one.At), "–"
	}
	return fmt.Sprintf("%.2f", one.At), fmt.Sprintf("%.2f – %.2f", one.Low, one.High)
}

func (r *Report) deviationSection(all []deviation) section {
	s := section{title: "Furthest from what prompt and model add up to"}
	shown := all[:min(shownDeviations, len(all))]
	head, _ := r.scoreWords()
	s.table = append(
		lines.Table{{Head: "candidate", Flexible: true}},
		lines.Heads(head, "expected", "difference", "95 % interval, all at once")...,
	)
	unit := "Differences are in log-odds. "
	for _, d := range shown {
		at, expected := winPercent(d.expected+d.By), winPercent(d.expected)
		form := func(x float64) string { return fmt.Sprintf("%.0f %%", x) }
		if r.ByScore() {
			at, expected, unit = d.expected+d.By, d.expected, ""
			form = func(x float64) string { return fmt.Sprintf("%.2f", x) }
		}
		s.table.Add(harmless.Line(d.name), form(at), form(expected), signed(d.By), between(d.Low, d.High))
	}
	s.lines = []string{unit + "Expected is what the average effects of the prompt and the model add up to. An interval " +
		"that does not contain 0 is more than chance."}
	return s
}

// effectsView is the part of the page about prompts and models.
type effectsView struct {
	Words  []string
	Tables []sectionView
	Models []string
	Grid   []scoreRow // of each prompt, the candidates with each model
	Hint   string
}

// Bounds of the grid of prompts and models in the page.
const (
	gridPrompts = 40
	gridModels  = 20
)

func (r *Report) effectsView() *effectsView {
	sections := r.effectSections(openRows)
	if len(sections) == 0 {
		return nil
	}
	v := &effectsView{Words: sections[0].lines}
	if r.Effects.Why != "" {
		return v
	}
	for _, s := range sections {
		one := s.view()
		if len(v.Tables) == 0 {
			one.Title, one.Lines = "Effect of each prompt and model", nil
		}
		v.Tables = append(v.Tables, one)
	}
	r.drawGrid(v)
	return v
}

// drawGrid draws the candidates' numbers by prompt and model, the best first. A frame marks a candidate that is further
// from what its prompt and model add up to than chance explains.
func (r *Report) drawGrid(v *effectsView) {
	e, at := r.Effects, map[int]Ranked{}
	for _, c := range r.Groups[0].Ranked {
		at[c.Candidate] = c
	}
	prompts, models := inOrder(e.Prompts, e.Rows), inOrder(e.Models, e.Columns)
	prompts, models = prompts[:min(gridPrompts, len(prompts))], models[:min(gridModels, len(models))]
	v.Models = namedApart(models, func(l factorLevel) string { return l.Name }, tallName)

	framed := false
	for _, prompt := range prompts {
		row := scoreRow{Name: prompt.Name}
		for _, model := range models {
			c := at[e.layout[prompt.position][model.position]]
			cell := heatCell{
				Text: fmt.Sprintf("%.0f", winPercent(c.Ability)), Title: r.score(c) + ", " + r.scoreInterval(c), Shade: shade(winShare(c.Ability)),
			}
			if r.ByScore() {
				scale := r.Evaluation.Plan.Single.Scale
				cell.Text, cell.Shade = r.score(c), shade((c.Overall.Mean()-float64(scale.Min))/float64(scale.Max-scale.Min))
			}
			if len(e.Interaction) > 0 {
				one := e.Interaction[prompt.position][model.position]
				cell.Sure = one.Low > 0 || one.High < 0
				framed = framed || cell.Sure
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Grid = append(v.Grid, row)
	}

	head, _ := r.scoreWords()
	v.Hint = capital(head) + " of each prompt with each model, the best first."
	if !r.ByScore() {
		v.Hint += " In percent."
	}
	if framed {
		v.Hint += " A frame marks more, or less, than prompt and model add up to, at 95 % for all at once."
	}
	if hidden := len(e.Prompts)*len(e.Models) - len(v.Grid)*len(models); hidden > 0 {
		v.Hint += " Further ones are in report.json."
	}
}
