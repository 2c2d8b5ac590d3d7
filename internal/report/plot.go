package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// plot is an interval plot with one row for each candidate, the best on top. Coordinates are in units of its view
// box.
type plot struct {
	Width, Height, Left, Right float64
	Bottom, TickY, AxisY       float64 // of the rows, the tick labels, and the axis title
	Axis                       string
	Ticks                      []tick
	Rows                       []plotRow
	Alternative                string // a description of its content
	Omitted                    int    // candidates below the last row
}

type tick struct {
	X     float64
	Label string
	Zero  bool
}

type plotRow struct {
	Y, TextY, Low, High, X float64
	Name, Numbers          string
	Interval               bool
}

const (
	plotWidth  = 640.0
	plotLabels = 170.0 // width of the names, which are cut to plotName runes
	plotName   = 22
	plotMargin = 16.0
	plotRowGap = 22.0
	plotAxis   = 42.0
)

// intervalPlot draws the candidates' abilities with their intervals. Without abilities it draws mean scores or win
// rates, without intervals.
func (r *Report) intervalPlot(group Group) *plot {
	ranked := group.Ranked[:min(plotCandidates, len(group.Ranked))]
	p := &plot{Axis: "ability, log-odds; 0 is the average candidate", Omitted: len(group.Ranked) - len(ranked)}
	value := func(c Ranked) (low, middle, high float64) { return c.Low, c.Ability, c.High }
	switch {
	case r.ByScore():
		p.Axis = "mean score"
		value = func(c Ranked) (float64, float64, float64) { m := c.Overall.Mean(); return m, m, m }
	case !r.abilities():
		p.Axis = "win rate"
		value = func(c Ranked) (float64, float64, float64) { w := c.WinRate(); return w, w, w }
	}

	from, to := math.Inf(1), math.Inf(-1)
	for _, c := range ranked {
		low, _, high := value(c)
		from, to = min(from, low), max(to, high)
	}
	if r.ByScore() {
		scale := r.Evaluation.Plan.Single.Scale
		from, to = float64(scale.Min), float64(scale.Max)
	}
	at := p.scale(from, to)
	names := namedApart(ranked, func(c Ranked) string { return c.Name }, plotName)
	for k, c := range ranked {
		low, middle, high := value(c)
		y := plotMargin/2 + plotRowGap*(float64(k)+0.5)
		p.Rows = append(p.Rows, plotRow{
			Y: y, TextY: y + 4, Low: at(low), X: at(middle), High: at(high), Interval: high > low,
			Name: fmt.Sprintf("%d  %s", c.Rank, names[k]), Numbers: r.numbers(c),
		})
	}
	p.finish(plotRowGap * float64(len(ranked)))
	p.Alternative = fmt.Sprintf("%s of %s, best first: from %s to %s. The table below has every number.",
		p.Axis, wording.Counted(len(ranked), "candidate"), r.numbers(ranked[0]), r.numbers(ranked[len(ranked)-1]))
	return p
}

// scale maps the values between from and to onto the width of the plot and sets the ticks. It returns the function
// that maps a value to its x coordinate.
func (p *plot) scale(from, to float64) func(float64) float64 {
	p.Width, p.Left, p.Right = plotWidth, plotLabels, plotWidth-plotMargin
	if to-from < 1e-9 {
		from, to = from-0.5, to+0.5
	}
	margin := (to - from) / 40 // so that no interval touches the frame
	from, to = from-margin, to+margin
	at := func(v float64) float64 { return tenth(p.Left + (v-from)/(to-from)*(p.Right-p.Left)) }
	step := niceStep((to - from) / 9)
	for k := math.Ceil(from / step); k*step <= to+step/1e6; k++ {
		v := k * step
		p.Ticks = append(p.Ticks, tick{X: at(v), Label: tickLabel(v, step), Zero: k == 0})
	}
	return at
}

// finish sets the coordinates that follow from the total height of the rows.
func (p *plot) finish(rows float64) {
	p.Bottom = tenth(plotMargin/2 + rows)
	p.TickY, p.AxisY, p.Height = p.Bottom+14, p.Bottom+32, p.Bottom+plotAxis
}

// numbers returns a candidate's name and the values that the plot shows, as text.
func (r *Report) numbers(c Ranked) string {
	switch {
	case r.ByScore():
		return fmt.Sprintf("%s: mean score %s", called(c.Name), mean(c.Overall))
	case !r.abilities():
		return fmt.Sprintf("%s: win rate %s", called(c.Name), percent(c.WinRate()))
	default:
		return fmt.Sprintf("%s: %s (%s to %s)", called(c.Name), signed(c.Ability), signed(c.Low), signed(c.High))
	}
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
