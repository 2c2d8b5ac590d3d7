package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// timelineView draws how many calls started in each period, by the limit that delayed them, and how many were in
// flight. Coordinates are in units of its view box.
type timelineView struct {
	Width, Height, Left, Right, TickX float64
	Bottom, TickEnd, TickY            float64 // of the charts, the ticks, the tick labels
	Caption, Alternative, Period      string
	Charts                            []chart
	Ticks                             []tick // of time
	Periods                           []periodView
	Flight                            string // the path of calls in flight
	Keys                              []barKey
}

// chart is one of the two charts, which share their time axis.
type chart struct {
	Title       string
	TitleY      float64
	Ticks       []level
	top, bottom float64
	most        float64 // the value at top
}

type level struct {
	At, TextY float64
	Label     string
}

type periodView struct {
	Numbers, From, InFlight, Begun, Failed string
	ByLimit                                []string // by position in Keys
	Parts                                  []periodPart
}

type periodPart struct {
	Class               string
	X, Y, Width, Height float64
}

const (
	timelineWidth = 640.0 // in units of the view box
	timelineLeft  = 46.0
	// drawnLimits is how many limits have their own colour.
	drawnLimits = 3
	freeOfLimit = "without a wait"
)

// limitKeys returns the series of the timeline: calls that no limit delayed, the limits that delayed the most calls,
// and all other limits. place is the position of each limit's series, by the id of the limit.
func (r *Report) limitKeys() (keys []barKey, place map[string]int) {
	place = map[string]int{"": 0}
	keys = []barKey{{"free", freeOfLimit}}
	words := r.limitWords()
	var limits []string
	for _, w := range r.Waits {
		if w.Limit != "" {
			limits = append(limits, w.Limit)
		}
	}
	for k, limit := range limits {
		if k < drawnLimits {
			place[limit] = len(keys)
			keys = append(keys, barKey{"held" + strconv.Itoa(k+1), words(limit)})
			continue
		}
		place[limit] = drawnLimits + 1
	}
	if n := len(limits) - drawnLimits; n > 0 {
		keys = append(keys, barKey{"more", wording.Counted(n, "other limit")})
	}
	return keys, place
}

// limitWords returns a function that describes a limit, given its id.
func (r *Report) limitWords() func(id string) string {
	words := map[string]string{"": freeOfLimit}
	for _, limit := range r.Evaluation.Settings.Limits {
		words[limit.ID()] = limit.String()
	}
	return func(id string) string {
		return named(cmp.Or(words[id], ratelimit.WaitedFor(id)))
	}
}

func (r *Report) timelineView() *timelineView {
	line := r.Timeline
	if len(line.Periods) == 0 {
		return nil
	}
	v := &timelineView{Width: timelineWidth, Left: timelineLeft, Right: timelineWidth - 22, TickX: timelineLeft - 6, Period: span(line.Width)}
	keys, place := r.limitKeys()
	v.Keys = keys
	begun := make([][]int, len(line.Periods)) // by position in keys
	calls, byKey := 0, make([]int, len(keys))
	mostBegun, mostFlight := 1.0, 0.0
	for k, period := range line.Periods {
		begun[k] = make([]int, len(keys))
		all := 0
		for limit, n := range period.Begun {
			begun[k][place[limit]] += n
			byKey[place[limit]] += n
			all += n
		}
		calls += all
		mostBegun, mostFlight = max(mostBegun, float64(all)), max(mostFlight, period.InFlight)
	}

	v.Charts = []chart{
		newChart(fmt.Sprintf("calls started in each %s", v.Period), 12, 110, mostBegun),
		newChart("calls in flight, on average", 164, 80, mostFlight),
	}
	v.Bottom = v.Charts[1].bottom
	v.TickEnd, v.TickY, v.Height = v.Bottom+5, v.Bottom+18, v.Bottom+24
	v.drawTime(line)
	for k, period := range line.Periods {
		v.Periods = append(v.Periods, v.period(line, k, period, begun[k]))
	}
	v.Flight = v.flight(line)
	v.Periods = slices.DeleteFunc(v.Periods, func(p periodView) bool { return p.From == "" })
	v.describe(line, calls, byKey)
	return v
}

func newChart(title string, y, height, most float64) chart {
	c := chart{Title: title, TitleY: y, top: y + 12, bottom: y + 12 + height}
	most = max(most, 1) // a scale of thousandths of a call would say nothing of calls that took no time
	step := niceStep(most / 4)
	c.most = step * math.Ceil(most/step)
	for k := 0.0; k*step <= c.most+step/2; k++ {
		at := tenth(c.at(k * step))
		c.Ticks = append(c.Ticks, level{At: at, TextY: at + 4, Label: tickLabel(k*step, step)})
	}
	return c
}

// at returns the y coordinate of a value.
func (c chart) at(value float64) float64 {
	return c.bottom - (c.bottom-c.top)*value/c.most
}

func (v *timelineView) x(line results.Timeline, after time.Duration) float64 {
	whole := time.Duration(len(line.Periods)) * line.Width
	return v.Left + (v.Right-v.Left)*float64(after)/float64(whole)
}

// drawTime sets the ticks of the time axis, which shows the time since the first call started.
func (v *timelineView) drawTime(line results.Timeline) {
	whole := time.Duration(len(line.Periods)) * line.Width
	unit, name := unitOf(whole / 3)
	step := niceStep(float64(whole) / float64(unit) / 7)
	for k := 0.0; k*step*float64(unit) <= float64(whole); k++ {
		v.Ticks = append(v.Ticks, tick{
			X: tenth(v.x(line, time.Duration(k*step*float64(unit)))), Label: tickLabel(k*step, step) + " " + name, Zero: k == 0,
		})
	}
}

// period returns the drawing of the k-th period; empty if nothing happened in it.
func (v *timelineView) period(line results.Timeline, k int, p results.Period, begun []int) periodView {
	all := 0
	for _, n := range begun {
		all += n
	}
	if all == 0 && p.InFlight == 0 && p.Failed == 0 {
		return periodView{}
	}
	out := periodView{
		From: clock(line, k), InFlight: fmt.Sprintf("%.1f", p.InFlight), Begun: wording.Count(all),
		Failed: wording.Count(p.Failed),
	}
	from, to := v.x(line, time.Duration(k)*line.Width), v.x(line, time.Duration(k+1)*line.Width)
	chart := v.Charts[0]
	var words []string
	below := 0
	for key, n := range begun {
		out.ByLimit = append(out.ByLimit, wording.Count(n))
		if n == 0 {
			continue
		}
		words = append(words, wording.Count(n)+" "+v.Keys[key].Label)
		bottom, top := chart.at(float64(below)), chart.at(float64(below+n))
		out.Parts = append(out.Parts, periodPart{
			Class: v.Keys[key].Class, X: hundredth(from), Y: hundredth(top), Width: hundredth(to - from), Height: hundredth(bottom - top),
		})
		below += n
	}

	out.Numbers = fmt.Sprintf("%s: %s started", out.From, wording.Counted(all, "call"))
	if len(words) > 0 {
		out.Numbers += " (" + strings.Join(words, ", ") + ")"
	}
	out.Numbers += fmt.Sprintf(", %s in flight, %s failed", out.InFlight, out.Failed)
	return out
}

func (v *timelineView) flight(line results.Timeline) string {
	var path strings.Builder
	chart := v.Charts[1]
	fmt.Fprintf(&path, "M%g %g", v.Left, tenth(chart.bottom))
	for k, p := range line.Periods {
		fmt.Fprintf(&path, "V%gH%g", tenth(chart.at(p.InFlight)), tenth(v.x(line, time.Duration(k+1)*line.Width)))
	}
	fmt.Fprintf(&path, "V%gZ", tenth(chart.bottom))
	return path.String()
}

// describe sets the caption and the text alternative of the drawing.
func (v *timelineView) describe(line results.Timeline, calls int, byKey []int) {
	whole := time.Duration(len(line.Periods)) * line.Width
	v.Caption = fmt.Sprintf("%s in %s from %s UTC on. Each is counted at the limit that it waited for last; calls in "+
		"flight are the mean of each period.",
		wording.Counted(calls, "call"), span(whole), line.From.UTC().Format(time.DateTime))
	most := 0.0
	for _, p := range line.Periods {
		most = max(most, p.InFlight)
	}
	v.Alternative = fmt.Sprintf(
		"%s started, in periods of %s, with up to %.1f in flight on average over a period.", wording.Counted(calls, "call"),
		v.Period, most,
	)
	for key, n := range byKey {
		v.Alternative += fmt.Sprintf(" %s: %s of the calls.", v.Keys[key].Label, percentOf(n, calls))
	}
	v.Alternative += " The tables below have every number."
}

// clock formats the start of the k-th period, as precisely as the width of a period requires.
func clock(line results.Timeline, k int) string {
	layout := "01-02 15:04"
	switch {
	case line.Width < time.Second:
		layout = "15:04:05.000"
	case line.Width < time.Minute:
		layout = "01-02 15:04:05"
	}
	return line.From.Add(time.Duration(k) * line.Width).UTC().Format(layout)
}

func hundredth(x float64) float64 { return math.Round(x*100) / 100 }

// waitView shows how long calls waited for one limit.
type waitView struct {
	Limit, Calls, Share, Total, Mean string
}

func (r *Report) waitViews() []waitView {
	calls := 0
	for _, w := range r.Waits {
		calls += w.Calls
	}
	words := r.limitWords()
	var all []waitView
	for _, w := range r.Waits {
		view := waitView{Limit: words(w.Limit), Calls: wording.Count(w.Calls), Share: percentOf(w.Calls, calls), Total: "–", Mean: "–"}
		if w.Limit != "" {
			view.Total, view.Mean = span(w.Total), span(w.Total/time.Duration(max(1, w.Calls)))
		}
		all = append(all, view)
	}
	return all
}
