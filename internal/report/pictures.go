package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// orderPlot draws how often each judge prefers the first of two equal texts: with an order effect of δ log-odds, that
// is 1/(1+e^−δ). It returns nil if no effect is known.
func (r *Report) orderPlot() *plot {
	var all []measured
	for _, j := range r.Judges {
		if !j.Effect.HasOrder || len(all) == plotCandidates {
			continue
		}
		one := measured{Name: j.Name}
		one.Low, one.Value, one.High = around(winPercent(j.Effect.Order), winPercent(j.OrderLimits.Low), winPercent(j.OrderLimits.High))
		one.Numbers = fmt.Sprintf("%s: %.0f %%", called(j.Name), one.Value)
		if one.High > one.Low {
			one.Numbers += fmt.Sprintf(" (%.0f – %.0f %%)", one.Low, one.High)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil
	}

	m := axis{
		Title: "How often the first of two equal texts wins, with 95 % intervals: 50 % means that the order does not matter",
		From:  0, To: 100, Even: 50, Unit: " %",
	}
	p := m.draw(all)
	p.Alternative = fmt.Sprintf("How often %s prefer the first of two equal texts: %s. The table below has every number.",
		wording.Counted(len(all), "judge"), listOf(all))
	return p
}

// listOf returns the numbers of the first of all, in words.
func listOf(all []measured) string {
	const most = 5
	words := ""
	for k, one := range all[:min(most, len(all))] {
		if k > 0 {
			words += "; "
		}
		words += one.Numbers
	}
	if len(all) > most {
		words += "; and more"
	}
	return words
}

// lengthView shows how long the candidates' texts are.
type lengthView struct {
	Plot  *plot
	Table sectionView
}

// lengthView returns nil if no length is known.
func (r *Report) lengthView() *lengthView {
	texts := map[string][]float64{}
	for _, d := range r.Evaluation.Plan.Documents {
		if d.Bytes > 0 && !d.Turns {
			texts[d.Candidate] = append(texts[d.Candidate], float64(d.Bytes))
		}
	}

	var all []measured
	t := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("texts", "shortest", "10 % are shorter",
		"median", "10 % are longer", "longest")...)
	left := 0
	for _, c := range r.inOrder() {
		bytes := texts[c.Name]
		if len(bytes) == 0 {
			continue
		}
		if len(t[0].Cells) == openRows {
			left++
			continue
		}
		slices.Sort(bytes)
		cells := []string{harmless.Line(c.Name), wording.Count(len(bytes))}
		for _, share := range []float64{0, .1, .5, .9, 1} {
			cells = append(cells, wording.Count(int(quantile(bytes, share))))
		}
		t.Add(cells...)
		if len(all) < plotCandidates {
			one := measured{Name: c.Name, Low: quantile(bytes, .1) / 1000, Value: quantile(bytes, .5) / 1000, High: quantile(bytes, .9) / 1000}
			one.Numbers = fmt.Sprintf("%s: %s kB (%s – %s kB)", called(c.Name), wording.Plain(one.Value),
				wording.Plain(one.Low), wording.Plain(one.High))
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil
	}

	s := section{title: "Lengths of texts, in bytes", table: t}
	if left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more candidate")+" in answers.csv.")
	}
	of := axis{Title: "Length of the texts in kB: the median, and from the shortest tenth to the longest", Even: math.NaN()}
	v := &lengthView{Plot: of.draw(all), Table: s.view()}
	v.Plot.Omitted = len(t[0].Cells) + left - len(all)
	v.Plot.Alternative = fmt.Sprintf("Median length of the texts of %s, in the order of the ranking: %s. The table below has every number.",
		wording.Counted(len(all), "candidate"), listOf(all))
	return v
}

// quantile returns the value of sorted below which a share of them lies: the nearest rank.
func quantile(sorted []float64, share float64) float64 {
	return sorted[int(math.Round(share*float64(len(sorted)-1)))]
}

// mostBins bounds the columns of a histogram, whose labels must fit on a phone.
const mostBins = 10

// spread counts scores by their place on the scale: each whole score by itself or, on a long scale, in mostBins parts
// of equal width.
type spread struct {
	scale  eval.Scale
	counts []int
}

func newSpread(scale eval.Scale) *spread {
	return &spread{scale: scale, counts: make([]int, max(1, min(mostBins, scale.Max-scale.Min+1)))}
}

func (s *spread) add(score float64) {
	last := len(s.counts) - 1
	at := math.Round(score - float64(s.scale.Min))
	if s.parted() {
		at = math.Floor((score - float64(s.scale.Min)) / float64(s.scale.Max-s.scale.Min) * mostBins)
	}
	s.counts[min(max(int(at), 0), last)]++
}

// parted reports whether a column is a part of the scale, not a single score.
func (s *spread) parted() bool { return s.scale.Max-s.scale.Min+1 > mostBins }

// label returns the score of the k-th column, or the lowest one of its part.
func (s *spread) label(k int) string {
	if s.parted() {
		return wording.Plain(float64(s.scale.Min) + float64(k)*float64(s.scale.Max-s.scale.Min)/mostBins)
	}
	return fmt.Sprint(s.scale.Min + k)
}

// histogram is a column chart. Its coordinates are like those of plot.
type histogram struct {
	Title, Alternative    string
	Height, Bottom, TickY float64
	Columns               []histogramColumn
	Table                 sectionView
}

type histogramColumn struct {
	X, Mid, Width, Y, Height float64
	CountY                   float64
	Label, Count, Numbers    string
}

const (
	histogramHigh  = 120.0 // of the highest column, in pixels
	histogramCount = 18.0  // above it, for its number
)

// histogram draws how many scores there are of each value. It returns nil without scores.
func (s *spread) histogram() *histogram {
	total, most := 0, 0
	for _, n := range s.counts {
		total, most = total+n, max(most, n)
	}
	if total == 0 {
		return nil
	}

	h := &histogram{Title: "How often each score was given, by all judges on all criteria", Bottom: histogramCount + histogramHigh}
	if s.parted() {
		h.Title += "; labels are the lowest score of each column"
	}
	h.TickY, h.Height = h.Bottom+15, h.Bottom+plotAxis
	t := append(lines.Table{{Head: "score"}}, lines.Heads("scores given", "of all")...)
	wide := plotWidth / float64(len(s.counts))
	for k, n := range s.counts {
		high := histogramHigh * share(n, most)
		c := histogramColumn{
			X: hundredth(wide * (float64(k) + 0.1)), Mid: hundredth(wide * (float64(k) + 0.5)), Width: hundredth(wide * 0.8),
			Y: tenth(h.Bottom - high), Height: tenth(high), CountY: tenth(h.Bottom - high - 5), Label: s.label(k), Count: percentWhole(n, total),
		}
		c.Numbers = fmt.Sprintf("%s: %s of %s", c.Label, wording.Count(n), wording.Counted(total, "score"))
		h.Columns = append(h.Columns, c)
		t.Add(c.Label, wording.Count(n), percentOf(n, total))
	}

	h.Table = section{title: "Scores given", table: t}.view()
	h.Alternative = fmt.Sprintf("%s, of %s: from %s to %s. The table below has every number.",
		h.Title, wording.Counted(total, "score"), h.Columns[0].Numbers, h.Columns[len(h.Columns)-1].Numbers)
	return h
}

func percentWhole(part, whole int) string {
	if part == 0 {
		return ""
	}
	return outOfHundred(share(part, whole)) + " %"
}

// leastRaters is the smallest number of raters for which a matrix says more than a table of pairs.
const leastRaters = 3

// raterMatrix shows how far each two raters agree, by Cohen's kappa: at most matrixCandidates raters. It returns nil
// for fewer than leastRaters.
func raterMatrix(a *Agreement) *matrix {
	if a == nil || len(a.Raters) < leastRaters {
		return nil
	}
	n := min(len(a.Raters), matrixCandidates)
	pairs := map[[2]int]RaterPair{}
	for _, p := range a.Pairs {
		pairs[[2]int{p.A, p.B}] = p
	}

	m := &matrix{
		Title: "Who agrees with whom",
		Of:    "rater",
		Hint:  "Cohen’s kappa of the rater on the left with the one above: 1 is perfect, 0 is chance. Columns have the rows’ numbers.",
	}
	if n < len(a.Raters) {
		m.Hint += fmt.Sprintf(" The first %d of %s; every pair is in report.json.", n, wording.Counted(len(a.Raters), "rater"))
	}
	for i := range n {
		row := matrixRow{Number: fmt.Sprint(i + 1), Name: a.Raters[i]}
		for j := range n {
			row.Cells = append(row.Cells, kappaCell(a, pairs[[2]int{min(i, j), max(i, j)}], i, j))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// kappaCell shades a kappa from −1 to 1. Without one, it says how often both gave the same verdict.
func kappaCell(a *Agreement, p RaterPair, i, j int) heatCell {
	who := called(a.Raters[i]) + " and " + called(a.Raters[j])
	switch {
	case i == j:
		return heatCell{Shade: -1}
	case p.Units == 0:
		return heatCell{Text: "–", Title: who + " have nothing in common", Shade: -1}
	}
	cell := heatCell{Text: plainSigned(p.Cohen), Title: fmt.Sprintf("%s: the same verdict on %s of %s", who,
		percent(p.Raw), wording.Counted(p.Units, "pair")), Shade: -1}
	if math.IsNaN(p.Cohen) {
		cell.Text = "–"
		return cell
	}
	cell.Shade = shade((p.Cohen + 1) / 2)
	return cell
}
