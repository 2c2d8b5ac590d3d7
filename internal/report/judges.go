package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// judgeView shows what the judges answered and how far each can be trusted.
type judgeView struct {
	Cards  *sectionView // nil: no pairs were compared
	Rows   []judgeRow
	Bars   *bars // nil: no pair was asked in both orders
	Keys   []barKey
	Order  *plot       // nil: see orderPlot
	Own    *ownView    // nil: see ownView
	Agreed *agreedView // nil: no unit was judged by two raters
	Matrix *matrix     // nil: see raterMatrix
	Worth  []*scatter
}

// barKey is a legend entry: it explains one part of the bars.
type barKey struct {
	Class, Label string
}

var barKeys = []barKey{
	{"same", "the same text both times"},
	{"half", "a tie in one order only"},
	{"first", "whichever was shown first"},
	{"second", "whichever was shown second"},
}

type judgeRow struct {
	Name, Model, Verdicts, FirstWins, SecondWins, Ties, FirstShare string
	Pairs, Consistent, AlwaysFirst, AlwaysSecond, HalfTied         string
	OrderEffect, OrderLimits, Identical, Fallback, Failed          string
	Longer, Correlation, Circular, Scale                           string
}

// bars shows the answers to pairs asked in both orders, as one stacked bar for each judge.
type bars struct {
	Height, Thick float64 // Thick is the height of a bar
	Rows          []bar
	Alternative   string
}

type bar struct {
	Name          string
	Top, Y, TextY float64 // of the name, the bar, and the numbers on it
	Parts         []barPart
}

type barPart struct {
	Class          string // in the style sheet
	X, Width, Mid  float64
	Label, Numbers string
}

const (
	barGap  = 28.0
	barHigh = 19.0
	// labelled is the smallest share whose part is wide enough to contain its number.
	labelled = 0.07
)

// judgeView returns nil if there are no judges.
func (r *Report) judgeView() *judgeView {
	if len(r.Judges) == 0 {
		return nil
	}
	v := &judgeView{Keys: barKeys}
	for _, j := range r.Judges {
		swap := func(n int) string { return percentOf(n, j.Swaps.Total()) }
		v.Rows = append(v.Rows, judgeRow{
			Name: j.Name, Model: j.Model,
			Verdicts: wording.Count(j.Positions.Total()), FirstWins: r.byPosition(j.Positions.FirstWins),
			SecondWins: r.byPosition(j.Positions.SecondWins), Ties: wording.Count(j.Positions.Ties), FirstShare: r.firstShare(j),
			Pairs: wording.Count(j.Swaps.Total()), Consistent: swap(j.Swaps.Consistent), AlwaysFirst: swap(j.Swaps.AlwaysFirst),
			AlwaysSecond: swap(j.Swaps.AlwaysSecond), HalfTied: swap(j.Swaps.HalfTied),
			OrderEffect: j.orderEffect(), OrderLimits: j.orderRange(), Identical: wording.Count(j.Identical),
			Fallback: wording.Count(j.Fallback), Failed: wording.Count(j.Failed),
			Longer: longerShare(j.Length), Correlation: coefficient(j.Length.Correlation()), Circular: cyclesShare(r.cycles(j)), Scale: j.scale(),
		})
	}

	if s, ok := r.cardSection(); ok {
		cards := s.view()
		v.Cards = &cards
	}
	v.Bars = r.swapBars()
	v.Order = r.orderPlot()
	v.Worth = r.judgeScatters()
	v.Own = r.ownView()
	v.Matrix = raterMatrix(r.Agreement)
	v.Agreed = r.agreedView()
	return v
}

func (j Judge) orderRange() string {
	if !j.Effect.HasOrder {
		return "–"
	}
	return between(j.OrderLimits.Low, j.OrderLimits.High)
}

func (r *Report) swapBars() *bars {
	b := &bars{Thick: barHigh}
	names := namedApart(r.Judges, func(j Judge) string { return j.Name }, plotName)
	for k, j := range r.Judges {
		total := j.Swaps.Total()
		if total == 0 {
			continue
		}
		y := 6 + barGap*float64(len(b.Rows))
		one := bar{Name: names[k], Top: y - (plotRowGap-barHigh)/2, Y: y, TextY: y + barHigh/2 + 4}
		x := plotLabels
		for k, n := range []int{j.Swaps.Consistent, j.Swaps.HalfTied, j.Swaps.AlwaysFirst, j.Swaps.AlwaysSecond} {
			part := barKeys[k]
			if n == 0 {
				continue
			}
			width := share(n, total) * (plotWidth - plotMargin - plotLabels)
			next := barPart{
				Class: part.Class, X: hundredth(x), Width: hundredth(width), Mid: hundredth(x + width/2),
				Numbers: fmt.Sprintf("%s: %s, %s of %s", called(j.Name), part.Label, wording.Count(n), wording.Counted(total, "pair")),
			}
			if share(n, total) >= labelled {
				next.Label = fmt.Sprintf("%.0f %%", 100*share(n, total))
			}
			one.Parts = append(one.Parts, next)
			x += width
		}
		b.Rows = append(b.Rows, one)
		b.Alternative += fmt.Sprintf("Judge %s preferred the same text in both orders for %s of %s. ",
			called(j.Name), percent(j.Swaps.Consistency()), wording.Counted(total, "pair"))
	}

	if len(b.Rows) == 0 {
		return nil
	}
	b.Alternative += "The table below has every number."
	b.Height = 6 + barGap*float64(len(b.Rows))
	return b
}
