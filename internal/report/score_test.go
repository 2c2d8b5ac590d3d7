package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// TestScores: the score of a candidate is its wins against the average one, its mean score, or its win rate, and limits
// that are not known are no numbers.
func TestScores(t *testing.T) {
	t.Parallel()
	for ability, want := range map[float64]float64{0: .5, math.Log(3): .75, -math.Log(9): .1} {
		if got := winShare(ability); math.Abs(got-want) > 1e-12 {
			t.Errorf("ability %g: wins %g of verdicts, want %g", ability, got, want)
		}
		// The same on Elo's scale: 400 points are odds of ten to one.
		if elo := 1 / (1 + math.Pow(10, (rank.Elo(0)-rank.Elo(ability))/400)); math.Abs(elo-want) > 1e-12 {
			t.Errorf("ability %g: wins %g by Elo's scale, want %g", ability, elo, want)
		}
	}

	none := math.NaN()
	c := Ranked{Overall: Score{N: 4, sum: 14}, ScoreLimits: rank.Limits{Low: none, High: none}, WinLimits: rank.Limits{Low: none, High: none}}
	c.Limits, c.Record = rank.Limits{Low: -9, High: math.Log(3)}, rank.Record{Wins: 3, Losses: 1}
	scored := built(t, sourceOf(plan(names(2), []string{"q"}, "j")).withScores("style"), Options{Draws: 20})
	fitted := built(t, tournament(names(3), []string{"q"}, []string{"j"}, []float64{0}, 2), Options{Draws: 20})
	unfitted := built(t, tournament(names(3), []string{"q"}, []string{"j"}, []float64{0}, 2), Options{Draws: 20})
	unfitted.unfitted = rank.ErrTooManyCandidates
	for name, one := range map[string]struct {
		r    *Report
		want string
	}{
		"scores": {scored, "mean score 3.50 –"}, "abilities": {fitted, "wins against the average 50 % <1 – 75 %"},
		"too many": {unfitted, "win rate 75.0 % –"},
	} {
		head, _ := one.r.scoreWords()
		if got := head + " " + one.r.score(c) + " " + one.r.scoreInterval(c); got != one.want {
			t.Errorf("%s: got %q, want %q", name, got, one.want)
		}
	}
}

// TestPageRanking: the main table has one number and one interval for each candidate, whatever their number; all other
// numbers are among the details.
func TestPageRanking(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		m    *memory
		rows int
	}{
		"five on several items": {typical(), 5},
		"one item":              {tournament(names(3), []string{""}, []string{"j"}, []float64{0}, 2), 3},
		"one candidate":         {sourceOf(plan(names(1), []string{"q"}, "j")).withScores("style"), 1},
		"three hundred":         {many(300), 300},
	} {
		r := built(t, one.m, Options{Draws: 20})
		page := pageOf(t, r)
		_, section, _ := strings.Cut(page, `<h2 id="ranking">`)
		section, _, _ = strings.Cut(section, "<h2")
		main, details, some := strings.Cut(section, "<summary>Details: ")
		if some != (r.Verdicts > 0) {
			t.Errorf("%s: details %t, want %t", name, some, r.Verdicts > 0)
		}
		rows := 0
		for _, row := range strings.Split(main, "<tr>")[1:] {
			if strings.Contains(row, "<td>") {
				rows++
			}
			if n := strings.Count(row, "</td>") + strings.Count(row, "</th>"); n != 4 {
				t.Errorf("%s: a row of %d cells, want rank, candidate, score and interval: %s", name, n, row)
			}
		}
		if rows != one.rows {
			t.Errorf("%s: %d rows, want %d", name, rows, one.rows)
		}
		if n := strings.Count(details, "<tr><td>"); some && n != one.rows {
			t.Errorf("%s: %d rows of details, want %d", name, n, one.rows)
		}
		if some && !strings.Contains(section, "Wins against the average candidate, with their 95 % interval") {
			t.Errorf("%s: the axis is not the wins against the average", name)
		}
	}
}

// TestPlotScale: every mark of a plot is right of the names and inside the figure, and the value that means no
// difference has a line.
func TestPlotScale(t *testing.T) {
	t.Parallel()
	for _, all := range [][]measured{
		{{Name: "only", Low: 50, Value: 50, High: 50}},
		{{Name: "a", Low: 0, Value: 99.99, High: 100}, {Name: "b", Low: 0, Value: 0.01, High: 3}},
		{{Name: "a", Low: 49.99, Value: 50, High: 50.01}},
		make([]measured, 300),
	} {
		p := axis{Even: 50, Unit: " %", From: 0, To: 100}.draw(all)
		even := 0
		for _, tick := range p.Ticks {
			if tick.X < plotLabels || tick.X > plotWidth-plotMargin {
				t.Errorf("%d rows: a tick at %g", len(all), tick.X)
			}
			if tick.Zero {
				even++
			}
		}
		for k, row := range p.Rows {
			if row.Low < plotLabels || row.High > plotWidth-plotMargin || row.Low > row.X || row.X > row.High || row.Y > p.Bottom {
				t.Errorf("row %d of %d: %+v", k, len(all), row)
			}
			if dot := 5.5; row.Y-row.CapTop <= dot || row.CapBottom-row.Y <= dot || row.CapBottom-row.CapTop >= plotRowGap {
				t.Errorf("row %d of %d: the ends of the interval are hidden by the dot, or reach the next row: %+v", k, len(all), row)
			}
		}
		if even != 1 {
			t.Errorf("%s: %d lines at 50 %%, want 1", fmt.Sprint(len(all)), even)
		}
	}
}

// TestScoreTables: a ranking that Markdown leaves out has no table of scores either, and none takes the place of another
// section.
func TestScoreTables(t *testing.T) {
	t.Parallel()
	r := built(t, tournament(names(3), []string{"q"}, []string{"j"}, []float64{0}, 2), Options{Draws: 20})
	r.Groups = append(r.Groups, r.Groups[0])
	var titles []string
	for _, s := range r.withScoreTables(r.sections(3, unbounded))[:3] {
		titles = append(titles, s.title)
	}
	if got := strings.Join(titles, "; "); got != "Ranking of group 1 of 2; Ranking of group 1 of 2, details; Is it enough?" {
		t.Errorf("got %q", got)
	}
}

// TestKappaWords: a kappa that is shown as 0.00 is no agreement beyond chance.
func TestKappaWords(t *testing.T) {
	t.Parallel()
	for kappa, want := range map[float64]string{-0.3: "poor", 0: "poor", 0.004: "poor", 0.0051: "slight", 0.2: "slight", 0.21: "fair"} {
		if got := strength(kappa); got != want {
			t.Errorf("kappa %s is called %s, want %s", signed(kappa), got, want)
		}
	}
}

// TestOneNumber: a candidate's wins against the average have one name and one value in the card, the text, Markdown, the
// page, the ranking of people and the comparison of an evaluation with itself.
func TestOneNumber(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{})
	first := r.Groups[0].Ranked[0]
	if rate := percent(first.WinRate()); rate == winsOf(first) {
		t.Fatalf("the win rate is %s, too: the test tells nothing", rate)
	}
	c := Compare(r, r)
	forms := map[string]string{"card": card(t, r, CardOptions{}), "text": textOf(t, r, TextOptions{}), "page": pageOf(t, r)}
	for form, write := range map[string]func(io.Writer) error{
		"Markdown": r.WriteMarkdown, "page of a comparison": c.WriteHTML, "comparison": func(w io.Writer) error { return c.WriteText(w, TextOptions{}) },
	} {
		var out strings.Builder
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		forms[form] = out.String()
	}
	for form, text := range forms {
		if !strings.Contains(text, winsHead) || !strings.Contains(text, winsOf(first)) {
			t.Errorf("%s lacks %q of %s, the %s", form, winsOf(first), first.Name, winsHead)
		}
	}
	if text := forms["card"]; strings.Contains(text, "win rate") {
		t.Errorf("the card has another number, too:\n%s", text)
	}
}
