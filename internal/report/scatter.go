package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// scatter shows quality against cost or time. Horizontal coordinates are percents of the figure's width and vertical
// ones are pixels, as in plot. Points carry numbers, and a key below names them, so that labels fit on a phone.
type scatter struct {
	Title, Alternative    string
	Height, Bottom, TickY float64
	Left, Right, LabelX   float64
	Across                []tick
	Up                    []upTick
	Points                []scatterPoint
	Table                 sectionView
}

type upTick struct {
	Y, TextY float64
	Label    string
	Zero     bool
}

// scatterPoint is a point with the ends of its intervals, which are equal to it where none is known.
type scatterPoint struct {
	Number           int // in the key
	X, Left, Right   float64
	Y, Low, High     float64
	NumberX, NumberY float64
	Across, Up       bool // there is an interval
	Name, Numbers    string
}

const (
	scatterHigh = 190.0 // pixels
	scatterLeft = 12.0  // percent of the width, for the labels of the vertical axis
	// decade is the ratio of values from which the horizontal axis is logarithmic.
	decade = 10.0
)

// bounded is a value with its limits, which are equal to it if they are not known, and with words for it.
type bounded struct {
	low, value, high float64
	words            string
}

func (l bounded) known() bool { return !math.IsNaN(l.value) }

// spot is one point of a scatter before it is drawn.
type spot struct {
	name          string
	quality, cost bounded
	took          bounded // seconds
}

// usedBy returns what 1,000 of n rows cost, and how long a call took.
func usedBy(used results.Usage, took results.Took, n int) (cost, length bounded) {
	none := math.NaN()
	cost = bounded{none, none, none, ""}
	if used.Unpriced == 0 && used.Calls+used.FromCache > 0 && n > 0 {
		usd := 1000 * used.CostUSD / float64(n)
		cost = bounded{usd, usd, usd, ratelimit.USD(usd)}
	}
	mean, se := took.Mean()
	const sides = 1.96 // of a 95 % interval
	low, value, high := around(mean, max(0, mean-sides*se), mean+sides*se)
	length = bounded{low, value, high, spanOf(value)}
	if high > low {
		length.words += " (" + spanOf(low) + " – " + spanOf(high) + ")"
	}
	return cost, length
}

// spanOf formats a number of seconds.
func spanOf(seconds float64) string {
	if math.IsNaN(seconds) {
		return "–"
	}
	return span(time.Duration(seconds * float64(time.Second)))
}

// scatterAxes describes a scatter: its title, the heads of its table, the values that the vertical axis covers at least,
// the value that means no difference and its unit, and how the horizontal axis writes values.
type scatterAxes struct {
	up, across string
	from, to   float64
	even       float64
	unit       string
	write      func(float64) string
}

// draw returns the picture of all, with the value that of selects. It returns nil if fewer than two have one, or if all
// of them are 0.
func (m scatterAxes) draw(all []spot, of func(spot) bounded) *scatter {
	all = slices.DeleteFunc(slices.Clone(all), func(s spot) bool { return !s.quality.known() || !of(s).known() })
	all = all[:min(len(all), plotCandidates)]
	least, most := math.Inf(1), 0.0
	for _, one := range all {
		least, most = min(least, of(one).value), max(most, of(one).value)
	}
	if len(all) < 2 || most == 0 {
		return nil
	}

	s := &scatter{Title: m.up + " against " + m.across, Left: scatterLeft, Right: plotWidth - plotMargin}
	s.LabelX, s.Bottom = scatterLeft-1, plotTop+scatterHigh
	s.TickY, s.Height = s.Bottom+15, s.Bottom+plotAxis
	across, up := s.horizontal(least, most, m, all, of), s.vertical(m, all)
	t := append(lines.Table{{Head: "name", Flexible: true}}, lines.Heads(m.up, m.across)...)
	for k, one := range all {
		x, y := of(one), one.quality
		p := scatterPoint{
			Number: k + 1, Name: one.name,
			X: across(x.value), Left: across(x.low), Right: across(x.high), Across: x.high > x.low,
			Y: up(y.value), Low: up(y.low), High: up(y.high), Up: y.high > y.low,
			Numbers: fmt.Sprintf("%s: %s, %s", called(one.name), y.words, x.words),
		}
		p.NumberX, p.NumberY = p.X, p.Y-7
		s.Points = append(s.Points, p)
		t.Add(harmless.Line(one.name), y.words, x.words)
	}

	s.Table = section{title: s.Title, table: t}.view()
	s.Alternative = fmt.Sprintf("%s, of %d: from %s to %s. The table below has every number.",
		s.Title, len(all), s.Points[0].Numbers, s.Points[len(all)-1].Numbers)
	return s
}

// horizontal sets the ticks of the horizontal axis, and returns the function that maps a value to its x coordinate. The
// axis begins at 0, or is logarithmic if values differ by decade.
func (s *scatter) horizontal(least, most float64, m scatterAxes, all []spot, of func(spot) bounded) func(float64) float64 {
	place := func(part float64) float64 { return hundredth(s.Left + min(max(part, 0), 1)*(s.Right-s.Left)) }
	if least > 0 && most/least >= decade {
		from, to := math.Log10(least)-0.2, math.Log10(most)+0.2
		at := func(v float64) float64 { return place((math.Log10(v) - from) / (to - from)) }
		for power := math.Ceil(from); power <= to; power++ {
			s.Across = append(s.Across, tick{X: at(math.Pow(10, power)), Label: m.write(math.Pow(10, power))})
		}
		return at
	}

	for _, one := range all {
		most = max(most, of(one).high)
	}
	to := most * 1.08
	at := func(v float64) float64 { return place(v / to) }
	step := niceStep(to / 4)
	for k := 0.0; k*step <= to; k++ {
		s.Across = append(s.Across, tick{X: at(k * step), Label: m.write(k * step)})
	}
	return at
}

// vertical does the same for the vertical axis.
func (s *scatter) vertical(m scatterAxes, all []spot) func(float64) float64 {
	from, to := m.from, m.to
	for _, one := range all {
		from, to = min(from, one.quality.low), max(to, one.quality.high)
	}
	margin := (to - from) / 20
	from, to = from-margin, to+margin
	at := func(v float64) float64 { return tenth(s.Bottom - (v-from)/(to-from)*scatterHigh) }
	step := niceStep((to - from) / 5)
	for k := math.Ceil(from / step); k*step <= to; k++ {
		y := at(k * step)
		s.Up = append(s.Up, upTick{Y: y, TextY: y + 4, Label: tickLabel(k*step, step) + m.unit, Zero: math.Abs(k*step-m.even) < step/1e6})
	}
	return at
}

// pictures returns the scatters of all against cost and against time, those that there are.
func (m scatterAxes) pictures(all []spot, row, call string) []*scatter {
	m.across, m.write = "the cost of 1,000 "+row, shortUSD
	drawn := []*scatter{m.draw(all, func(s spot) bounded { return s.cost })}
	m.across, m.write = "the time of "+call, spanOf
	drawn = append(drawn, m.draw(all, func(s spot) bounded { return s.took }))
	return slices.DeleteFunc(drawn, func(s *scatter) bool { return s == nil })
}

// shortUSD formats the dollars of a tick without zeros at the end.
func shortUSD(usd float64) string {
	if usd >= 1 || usd == 0 {
		return "$" + wording.Plain(usd)
	}
	return strings.TrimRight(ratelimit.USD(usd), "0")
}

// judgeScatters draws how far each judge agrees with people against cost and time. Without enough votes on pairs, it is
// the agreement with the other judges, which has no interval.
func (r *Report) judgeScatters() []*scatter {
	if slices.ContainsFunc(r.Judges, func(j Judge) bool { return j.Card == nil }) {
		return nil
	}
	few := slices.ContainsFunc(r.Judges, func(j Judge) bool { return j.Card.PeoplePairs < leastPairs })
	with := "people"
	if few {
		with = "other judges"
	}
	var all []spot
	for _, j := range r.Judges {
		one := spot{name: j.Name}
		kappa, limits := j.Card.PeopleKappa, j.Card.people
		if few {
			kappa, limits.Low, limits.High = j.Card.OthersKappa, math.NaN(), math.NaN()
		}
		one.quality.low, one.quality.value, one.quality.high = around(kappa, limits.Low, limits.High)
		one.quality.words = coefficientLimits(kappa, limits)
		one.cost, one.took = usedBy(j.Card.Used, j.Card.took, j.Card.verdicts)
		all = append(all, one)
	}

	return scatterAxes{up: "Cohen’s kappa with " + with, to: 1}.pictures(all, "verdicts", "a judge’s call")
}

// candidateScatters draws the candidates' wins against the cost and time of their answers, if the calls that made them
// are known.
func (r *Report) candidateScatters() []*scatter {
	if r.Answers == nil || !r.Answers.Known || !r.abilities() || len(r.Groups) != 1 {
		return nil
	}
	var all []spot
	for _, c := range r.Groups[0].Ranked {
		one := spot{name: c.Name}
		one.quality.low, one.quality.value, one.quality.high = around(winPercent(c.Ability), winPercent(c.Low), winPercent(c.High))
		one.quality.words = fmt.Sprintf("%.0f %% (%.0f – %.0f %%)", one.quality.value, one.quality.low, one.quality.high)
		made := r.Answers.outlays[c.Name]
		one.cost, one.took = usedBy(made.Used, made.Took, made.rows)
		all = append(all, one)
	}

	m := scatterAxes{up: "Wins against the average candidate", from: 40, to: 60, even: 50, unit: " %"}
	return m.pictures(all, "answers", "a call for an answer")
}
