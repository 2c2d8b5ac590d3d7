package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of what is computed and shown by category and by item.
const (
	mostCategories         = 12  // those with the most items
	mostCategoryCandidates = 200 // with more candidates, there are no rankings by category
	shownItems             = 30  // rows of the item map, the most contested items
	permutations           = 999
	permutedCells          = 100_000_000 // result cells that all permutations together may read
)

// Item says how candidates did on one question.
type Item struct {
	ID         string
	Categories []string
	Pairs      int // pairs of texts with verdicts of judges
	// Disagree, Flipped and Unlike count the pairs on which judges disagree, follow the order of the texts, or differ
	// from people. Marked counts the pairs with any of these marks.
	Disagree, Flipped, Unlike, Marked int
	Score                             Score // over all scores: the lower the mean, the harder
	// Results are the candidates' results on the item: win rates, or mean scores if there are no verdicts on pairs.
	Results []ItemResult
}

// ItemResult is a candidate's win rate or mean score on an item, from N verdicts or scores.
type ItemResult struct {
	Sum float64
	N   int
}

// Mean returns the win rate or mean score; NaN without verdicts or scores.
func (r ItemResult) Mean() float64 {
	if r.N == 0 {
		return math.NaN()
	}
	return r.Sum / float64(r.N)
}

// Contested returns the share of pairs with a mark; NaN without pairs.
func (i Item) Contested() float64 { return float64(i.Marked) / float64(i.Pairs) }

// Spread returns the standard deviation of the candidates' results on the item: how well it tells them apart. It
// returns NaN with fewer than two results.
func (i Item) Spread() float64 {
	var n, sum, squares float64
	for _, r := range i.Results {
		if r.N > 0 {
			n, sum, squares = n+1, sum+r.Mean(), squares+r.Mean()*r.Mean()
		}
	}
	if n < 2 {
		return math.NaN()
	}
	return math.Sqrt(max(0, squares-sum*sum/n) / (n - 1))
}

// meanScore returns the mean of all scores on the item; NaN without scores.
func (i Item) meanScore() float64 {
	if i.Score.N == 0 {
		return math.NaN()
	}
	return i.Score.Mean()
}

// Category is the ranking of candidates on the items of one category.
type Category struct {
	Name   string
	Items  int
	Groups []Group // as Judge.Groups; nil if there are no abilities
}

// Categories holds the rankings by category, and whether they differ.
type Categories struct {
	All []Category // those with the most items first
	// More is how many categories All leaves out.
	More int
	// P is the p-value of a permutation test of the hypothesis that candidates do equally well in all categories. The
	// test permutes the categories of whole items, because verdicts on one item depend on each other. NaN with fewer
	// than two categories, or if there are too few items.
	P            float64
	Permutations int
}

// mark counts the marks of a pair for its item.
func (b *builder) mark(p *Pair) {
	item := &b.items[b.report.Evaluation.Plan.Documents[p.positions[0]].Item]
	item.Pairs++
	item.Disagree += one(p.Disagree)
	item.Flipped += one(p.Flipped)
	item.Unlike += one(p.Unlike)
	item.Marked += one(p.Disagree || p.Flipped || p.Unlike)
}

// finishItems computes the candidates' results on each item and by category.
func (b *builder) finishItems(ctx context.Context) error {
	r := b.report
	plan := r.Evaluation.Plan
	if len(plan.Items) < 2 || r.Verdicts == 0 && r.Scored == 0 {
		return nil
	}
	for k := range b.items {
		b.items[k].ID, b.items[k].Categories = plan.Items[k].ID, plan.Items[k].Categories
		b.items[k].Results = make([]ItemResult, len(r.candidates))
	}

	at := func(document int32) *ItemResult {
		d := plan.Documents[document]
		return &b.items[d.Item].Results[b.candidate[d.Candidate]]
	}
	for d, score := range b.documentScores {
		item := &b.items[plan.Documents[d].Item]
		item.Score.N, item.Score.sum = item.Score.N+score.N, item.Score.sum+score.sum
	}

	if r.Verdicts == 0 {
		for d, score := range b.documentScores {
			cell := at(int32(d))
			cell.Sum, cell.N = cell.Sum+score.sum, cell.N+score.N
		}
	}

	b.verdicts.merge()
	for _, c := range b.verdicts.cells {
		n := int(c.wins + c.losses + c.ties)
		if len(r.Judges) > 0 && int(c.rater) >= len(r.Judges) || n == 0 {
			continue
		}
		first, second := at(c.first), at(c.second)
		first.Sum, first.N = first.Sum+float64(c.wins)+float64(c.ties)/2, first.N+n
		second.Sum, second.N = second.Sum+float64(c.losses)+float64(c.ties)/2, second.N+n
	}

	r.Items = b.items
	return b.rankCategories(ctx)
}

func (b *builder) rankCategories(ctx context.Context) error {
	r := b.report
	count := map[string]int{}
	for _, item := range r.Items {
		for _, name := range item.Categories {
			count[name]++
		}
	}

	if len(count) == 0 || len(r.candidates) > mostCategoryCandidates {
		return nil
	}
	all := &Categories{P: math.NaN()}
	for name, items := range count {
		all.All = append(all.All, Category{Name: name, Items: items})
	}
	slices.SortFunc(all.All, func(x, y Category) int { return cmp.Or(cmp.Compare(y.Items, x.Items), cmp.Compare(x.Name, y.Name)) })
	if all.More = len(all.All) - mostCategories; all.More > 0 {
		all.All = all.All[:mostCategories]
	}
	all.More = max(all.More, 0)
	for k := range all.All {
		if !r.abilities() {
			break
		}
		groups, err := b.rankSome(ctx, all.All[k].Name)
		if err != nil {
			return fmt.Errorf("category %s: %w", all.All[k].Name, err)
		}
		all.All[k].Groups = groups
	}

	all.permute(r.Items, len(r.candidates), r.Options.Seed)
	r.Categories = all
	return nil
}

// rankSome ranks candidates by the verdicts on the items of a category; nil without any.
func (b *builder) rankSome(ctx context.Context, category string) ([]Group, error) {
	plan := b.report.Evaluation.Plan
	some := *b
	some.verdicts = verdicts{}
	for _, c := range b.verdicts.cells {
		if slices.Contains(plan.Items[plan.Documents[c.first].Item].Categories, category) {
			some.verdicts.cells = append(some.verdicts.cells, c)
		}
	}

	some.verdicts.merged = len(some.verdicts.cells)
	if len(some.verdicts.cells) == 0 {
		return nil, nil
	}
	rating, err := some.rateAll(ctx)
	if err != nil {
		return nil, err
	}
	return some.bare(rating), nil
}

// permute fills in P and Permutations: it tests whether candidates do equally well in each category.
func (c *Categories) permute(items []Item, candidates int, seed uint64) {
	if len(c.All) < 2 {
		return
	}
	labels := make([][]int, 0, len(items))
	var rows []Item
	for _, item := range items {
		var of []int
		for k, category := range c.All {
			if slices.Contains(item.Categories, category.Name) {
				of = append(of, k)
			}
		}
		if len(of) > 0 {
			labels, rows = append(labels, of), append(rows, item)
		}
	}

	n := min(permutations, permutedCells/max(1, len(rows)*candidates))
	if n < 99 || len(rows) < 3 {
		return
	}
	observed := differ(rows, labels, len(c.All), candidates)
	const slack = 1e-9 // rounding
	rng, as := rand.New(rand.NewPCG(seed, 2)), 1
	for range n {
		rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
		if differ(rows, labels, len(c.All), candidates) >= observed-slack {
			as++
		}
	}
	c.P, c.Permutations = float64(as)/float64(n+1), n
}

// differ sums, over categories and candidates, the squared difference between the candidate's mean result in the
// category and in all. Each term is weighted by the number of results in the category.
func differ(items []Item, labels [][]int, categories, candidates int) (sum float64) {
	cells := make([]ItemResult, categories*candidates)
	whole := make([]ItemResult, candidates)
	for i, item := range items {
		for k, r := range item.Results {
			for _, c := range labels[i] {
				cell := &cells[c*candidates+k]
				cell.Sum, cell.N = cell.Sum+r.Sum, cell.N+r.N
				whole[k].Sum, whole[k].N = whole[k].Sum+r.Sum, whole[k].N+r.N
			}
		}
	}
	for at, cell := range cells {
		if cell.N > 0 {
			d := cell.Mean() - whole[at%candidates].Mean()
			sum += float64(cell.N) * d * d
		}
	}
	return sum
}

// words says whether categories differ.
func (c *Categories) words() string {
	switch {
	case math.IsNaN(c.P):
		return "Too few items or categories to test whether categories differ."
	case c.P < 0.05:
		return fmt.Sprintf(
			"Candidates do better in some categories than in others (p = %.3f, a permutation test over items): one ranking does not fit all.",
			c.P,
		)
	default:
		return fmt.Sprintf("Differences between categories may be chance (p = %.2f, a permutation test over items).", c.P)
	}
}

func (r *Report) categorySection(candidates, width int) (section, bool) {
	if r.Categories == nil || len(r.Groups) == 0 {
		return section{}, false
	}
	ranked := r.Groups[0].Ranked[:min(candidates, len(r.Groups[0].Ranked))]
	t := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("all")...)
	for _, c := range ranked {
		t.Add(harmless.Line(c.Name), r.ranks(c))
	}
	var columns []lines.Column
	names := namedApart(r.Categories.All, func(c Category) string { return c.Name }, 16)
	for k, category := range r.Categories.All {
		next := lines.Column{Head: names[k] + " (" + wording.Count(category.Items) + ")", Right: true}
		if category.Groups != nil {
			next.Cells = rankColumn("", ranked, category.Groups).Cells
		} else {
			for _, c := range ranked {
				next.Cells = append(next.Cells, r.categoryMean(category.Name, c.Candidate))
			}
		}
		columns = append(columns, next)
	}

	t, left := t.Widened(columns, width)
	what := "Rank"
	if !r.abilities() {
		what = "Result"
	}
	s := section{title: what + " by category (items)", table: t, lines: []string{r.Categories.words()}}
	if left += r.Categories.More; left > 0 {
		s.lines = append(s.lines, wording.Either(left, "category", "categories")+" in report.json.")
	}
	return s, true
}

// categoryMean formats a candidate's mean result on the items of a category.
func (r *Report) categoryMean(category string, candidate int) string {
	var sum ItemResult
	for _, item := range r.Items {
		if slices.Contains(item.Categories, category) {
			sum.Sum, sum.N = sum.Sum+item.Results[candidate].Sum, sum.N+item.Results[candidate].N
		}
	}
	if sum.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", sum.Mean())
}

// contested returns at most `most` items. Those with the largest share of marked pairs come first: judges contradict
// each other, people or themselves. Among equal ones, those that tell candidates apart least come first.
func (r *Report) contested(most int) []Item {
	all := slices.DeleteFunc(slices.Clone(r.Items), func(i Item) bool { return math.IsNaN(i.Spread()) })
	slices.SortStableFunc(all, func(x, y Item) int {
		byShare := 0
		if x.Pairs > 0 && y.Pairs > 0 {
			byShare = cmp.Compare(y.Contested(), x.Contested())
		}
		return cmp.Or(byShare, cmp.Compare(x.Spread(), y.Spread()))
	})
	return all[:min(most, len(all))]
}

// itemSection lists the ten most contested items.
func (r *Report) itemSection() (section, bool) {
	items := r.contested(10)
	if len(items) == 0 {
		return section{}, false
	}
	t := append(lines.Table{{Head: "item", Flexible: true}}, lines.Heads("contested", "disagree", "flipped", "unlike people", "spread")...)
	for _, i := range items {
		t.Add(
			harmless.Line(i.ID), percentOf(i.Marked, i.Pairs), percentOf(i.Disagree, i.Pairs), percentOf(i.Flipped, i.Pairs),
			percentOf(i.Unlike, i.Pairs), fmt.Sprintf("%.2f", i.Spread()),
		)
	}
	s := section{title: "Most contested items", table: t, lines: []string{
		"Contested: pairs of texts on which judges disagree, follow the order, or differ from people. Spread: standard " +
			"deviation of the candidates' results; an item near 0 does not tell them apart.",
	}}
	if left := len(r.Items) - len(items); left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more item")+" in report.json.")
	}
	return s, true
}

// tallName bounds names in vertical column heads, in columns of a terminal.
const tallName = 20

type itemMap struct {
	Words, Mean string
	Candidates  []string
	Rows        []scoreRow
}

func (r *Report) itemMap() *itemMap {
	items := r.contested(shownItems)
	if len(items) == 0 || len(r.Groups) == 0 {
		return nil
	}
	ranked := r.Groups[0].Ranked[:min(bestCandidates, len(r.Groups[0].Ranked))]
	m := &itemMap{Words: "How many of 100 verdicts each candidate won on each item, a tie being half; the most contested item first."}
	low, high := 0.0, 1.0
	if r.Verdicts == 0 {
		scale := r.Evaluation.Plan.Single.Scale
		low, high = float64(scale.Min), float64(scale.Max)
		m.Words = "Mean scores of each candidate on each item, on a scale of " + scaleWords(scale) + "; the least discriminating item first."
	}

	if left := len(r.Items) - len(items); left > 0 {
		m.Words += " " + wording.Counted(left, "more item") + " in report.json."
	}
	if left := r.ranked() - len(ranked); left > 0 {
		m.Words += " " + wording.Counted(left, "more candidate") + " in report.json."
	}
	m.Candidates = namedApart(ranked, func(c Ranked) string { return c.Name }, tallName)
	for _, i := range items {
		row := scoreRow{Name: i.ID}
		for _, c := range ranked {
			row.Cells = append(row.Cells, itemCell(i.Results[c.Candidate], low, high))
		}
		contested := heatCell{Text: percentOf(i.Marked, i.Pairs), Shade: -1}
		m.Rows = append(m.Rows, scoreRow{row.Name, append(row.Cells, contested)})
	}

	return m
}

func itemCell(result ItemResult, low, high float64) heatCell {
	if result.N == 0 {
		return heatCell{Text: "–", Shade: -1}
	}
	share := (result.Mean() - low) / (high - low)
	text, of := fmt.Sprintf("%.0f", 100*share), "verdict"
	if low != 0 || high != 1 {
		text, of = fmt.Sprintf("%.1f", result.Mean()), "score"
	}
	return heatCell{Text: text, Title: "of " + wording.Counted(result.N, of), Shade: shade(share)}
}

// The JSON form of items and categories; docs/formats.md describes its fields.
type (
	itemJSON struct {
		Item       string        `json:"item"`
		Categories array[string] `json:"categories"`
		Pairs      int           `json:"pairs"`
		Disagree   int           `json:"disagree"`
		Flipped    int           `json:"flipped"`
		Unlike     int           `json:"unlike_people"`
		Contested  int           `json:"contested"`
		Spread     number        `json:"spread"`
		Score      number        `json:"mean_score"`
	}
	categoriesJSON struct {
		All          array[categoryJSON] `json:"all"`
		More         int                 `json:"more"`
		P            number              `json:"p"`
		Permutations int                 `json:"permutations"`
	}
	categoryJSON struct {
		Name     string           `json:"name"`
		Items    int              `json:"items"`
		Rankings array[groupJSON] `json:"rankings"`
	}
)

func (r *Report) itemsJSON() (out []itemJSON) {
	for _, i := range r.Items {
		out = append(
			out,
			itemJSON{i.ID, i.Categories, i.Pairs, i.Disagree, i.Flipped, i.Unlike, i.Marked, number(i.Spread()), number(i.meanScore())},
		)
	}
	return out
}

func (r *Report) categoriesJSON() *categoriesJSON {
	if r.Categories == nil {
		return nil
	}
	out := &categoriesJSON{More: r.Categories.More, P: number(r.Categories.P), Permutations: r.Categories.Permutations}
	for _, c := range r.Categories.All {
		one := categoryJSON{Name: c.Name, Items: c.Items}
		for _, g := range c.Groups {
			one.Rankings = append(one.Rankings, r.groupJSON(g, true))
		}
		out.All = append(out.All, one)
	}
	return out
}
