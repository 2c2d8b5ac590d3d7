package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// plot is an interval plot with one row for each thing it compares. Horizontal coordinates are percents of the
// figure's width and vertical ones are pixels, so that its text is as large on a phone as on a wide screen.
type plot struct {
	Height, Bottom, TickY float64 // of the whole, of the rows, and of the tick labels
	Axis                  string
	Ticks                 []tick
	Rows                  []plotRow
	Alternative           string // a description of its content
	Omitted               int    // candidates below the last row
}

type tick struct {
	X     float64
	Label string
	Zero  bool // the value that means no difference
}

type plotRow struct {
	Top, Y, Low, High, X float64
	CapTop, CapBottom    float64 // of the ends of the interval, which are visible although it is narrower than the dot
	Name, Numbers        string
	Interval             bool
}

const (
	plotWidth  = 100.0
	plotLabels = 34.0 // width of the names, which are cut to plotName runes
	plotName   = 18
	plotMargin = 5.0 // to the right
	plotTop    = 8.0 // above the first row, in pixels like the next two
	plotRowGap = 22.0
	plotCap    = 8.0 // half of the height of an interval's ends, more than the dot's
	plotAxis   = 22.0
)

// measured is a value with its limits, which are equal to it if they are not known.
type measured struct {
	Before, Name     string // Before is not clipped
	Numbers          string // all of it in words
	Low, Value, High float64
}

// axis describes the axis of a plot: its title, the values that it covers at least, the value that means no difference,
// and the unit of its labels.
type axis struct {
	Title    string
	From, To float64 // equal: only what is measured
	Even     float64
	Unit     string
}

// draw returns the plot of all, in their order, on the axis m.
func (m axis) draw(all []measured) *plot {
	p := &plot{Axis: m.Title}
	at := p.scale(m, all)
	names := namedApart(all, func(one measured) string { return one.Name }, plotName)
	for k, one := range all {
		top := plotTop + plotRowGap*float64(k)
		y := top + plotRowGap/2
		p.Rows = append(p.Rows, plotRow{
			Top: top, Y: y, CapTop: y - plotCap, CapBottom: y + plotCap,
			Low: at(one.Low), X: at(one.Value), High: at(one.High),
			Interval: one.High > one.Low, Name: one.Before + names[k], Numbers: one.Numbers,
		})
	}
	p.finish(plotRowGap * float64(len(all)))
	return p
}

// candidateAxis returns the axis on which the report draws candidates, and the function that measures them.
func (r *Report) candidateAxis() (axis, func(Ranked) (low, value, high float64)) {
	switch {
	case r.ByScore():
		scale := r.Evaluation.Plan.Single.Scale
		m := axis{Title: "Mean score, with its 95 % interval", From: float64(scale.Min), To: float64(scale.Max), Even: math.NaN()}
		return m, func(c Ranked) (float64, float64, float64) {
			return around(c.Overall.Mean(), c.ScoreLimits.Low, c.ScoreLimits.High)
		}
	case !r.abilities():
		m := axis{Title: "Win rate", Even: 50, Unit: " %"}
		return m, func(c Ranked) (float64, float64, float64) { w := 100 * c.WinRate(); return w, w, w }
	default:
		m := axis{Title: "Wins against the average candidate, with their 95 % interval", Even: 50, Unit: " %"}
		return m, func(c Ranked) (float64, float64, float64) {
			return around(winPercent(c.Ability), winPercent(c.Low), winPercent(c.High))
		}
	}
}

// around returns a value with its limits, or without any if they are not known.
func around(value, low, high float64) (float64, float64, float64) {
	if math.IsNaN(low) || math.IsNaN(high) || low == high {
		return value, value, value
	}
	return low, value, high
}

// intervalPlot draws the score of each candidate with its interval, the best on top.
func (r *Report) intervalPlot(group Group) *plot {
	ranked := group.Ranked[:min(plotCandidates, len(group.Ranked))]
	m, value := r.candidateAxis()
	var all []measured
	for _, c := range ranked {
		one := measured{Before: fmt.Sprintf("%d ", c.Rank), Name: c.Name, Numbers: r.numbers(c)}
		one.Low, one.Value, one.High = value(c)
		all = append(all, one)
	}

	p := m.draw(all)
	p.Omitted = len(group.Ranked) - len(ranked)
	p.Alternative = fmt.Sprintf("%s, of %s, best first: from %s to %s. The table below has every number.",
		p.Axis, wording.Counted(len(ranked), "candidate"), all[0].Numbers, all[len(all)-1].Numbers)
	return p
}

// scale maps the values of all onto the width of the plot and sets the ticks. It returns the function that maps a
// value to its x coordinate.
func (p *plot) scale(m axis, all []measured) func(float64) float64 {
	from, to := math.Inf(1), math.Inf(-1)
	if m.From < m.To {
		from, to = m.From, m.To
	}
	for _, one := range all {
		from, to = min(from, one.Low), max(to, one.High)
	}
	if to-from < 1e-9 {
		from, to = from-0.5, to+0.5
	}

	margin := (to - from) / 40 // so that no interval touches the frame
	from, to = from-margin, to+margin
	at := func(v float64) float64 {
		return hundredth(plotLabels + (v-from)/(to-from)*(plotWidth-plotMargin-plotLabels))
	}
	step := niceStep((to - from) / 6)
	for k := math.Ceil(from / step); k*step <= to+step/1e6; k++ {
		v := k * step
		p.Ticks = append(p.Ticks, tick{X: at(v), Label: tickLabel(v, step) + m.Unit, Zero: math.Abs(v-m.Even) < step/1e6})
	}
	if even := slices.ContainsFunc(p.Ticks, func(t tick) bool { return t.Zero }); !even && from < m.Even && m.Even < to {
		p.Ticks = append(p.Ticks, tick{X: at(m.Even), Zero: true})
	}
	return at
}

// finish sets the coordinates that follow from the total height of the rows.
func (p *plot) finish(rows float64) {
	p.Bottom = tenth(plotTop + rows)
	p.TickY, p.Height = p.Bottom+15, p.Bottom+plotAxis
}

// numbers returns a candidate's name and the values that the plot shows, as text.
func (r *Report) numbers(c Ranked) string {
	text := called(c.Name) + ": " + r.score(c)
	if limits := r.scoreInterval(c); limits != "–" {
		text += " (" + limits + ")"
	}
	return text
}

// niceStep returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `about`.
func niceStep(about float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(about)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= about {
			return factor * power
		}
	}
	return 10 * power
}

func tickLabel(v, step float64) string {
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	if math.Abs(v) < step/2 {
		return "0"
	}
	if v < 0 {
		return fmt.Sprintf("−%.*f", digits, -v)
	}
	return fmt.Sprintf("%.*f", digits, v)
}
