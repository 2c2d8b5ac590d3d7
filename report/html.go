package report

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/evalfleet/evalfleet/results"
)

// Bounds of the page, so that a browser shows a thousand candidates at once.
// Everything left out is said, with its number.
const (
	plotCandidates   = 40   // rows of an interval plot
	matrixCandidates = 40   // rows and columns of a win matrix
	openRows         = 60   // rows of a ranking that stand open; the rest is one click away
	pageRows         = 2000 // rows of all rankings together
	drawnGroups      = 12   // groups with figures
	reasonCandidates = 60   // candidates with reasons
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text":  visible,
	"name":  func(s string) string { return clip(visible(s), nameRunes) },
	"full":  func(s string) string { return clip(visible(s), 2*reasonRunes) },
	"count": count,
	"run": func(r results.RunRow) string {
		return cmp.Or(clip(visible(r.Name), nameRunes), fmt.Sprintf("%d.%d", r.Phase, r.Index))
	},
	"meanOf": meanOf,
	"row":    func(p *page, r rankingRow) rowOfPage { return rowOfPage{p, r} },
}).Parse(pageText))

// page is what the template shows; its numbers are texts already.
type page struct {
	Report   *Report
	Style    template.CSS
	Title    string
	Asked    string
	Tiles    []tile
	Rankings []rankingView
	Hidden   int // ranked candidates beyond pageRows
	Scores   *scoreView
	Judges   *judgeView
	Listed   []listedRow
	Reasons  []Ranked
	NoReason int // ranked candidates beyond reasonCandidates
	Calls    []callView
	CallSum  callView
	Budget   string
	Settings []setting
	Method   []string
}

// tile is one number of the head.
type tile struct {
	Label, Value, Hint string
}

type rankingView struct {
	ID      string // unique in the page
	Title   string
	Plot    *plot
	Matrix  *matrix
	Open    []rankingRow
	Folded  []rankingRow
	Assumed bool
	// NoMatrix is said where the matrix is left out for its size.
	NoMatrix string
}

type rankingRow struct {
	Name, Ranks, Ability, Interval, WinRate, Record, Mean string
}

// rowOfPage lets a row ask which columns the page has.
type rowOfPage struct {
	Page *page
	Row  rankingRow
}

type callView struct {
	Model, Stage, Calls, Before, Failed, Input, Output, Cached, Reasoning, Cost string
}

// WriteHTML writes the report as one page that needs nothing else: no network, no
// script, no font. Everything recorded is escaped, and a content security policy
// forbids the page to load or run anything.
func (r *Report) WriteHTML(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := pageTemplate.Execute(out, r.page()); err != nil {
		return fmt.Errorf("write page of %s: %w", r.Evaluation.ID, err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write page of %s: %w", r.Evaluation.ID, err)
	}
	return nil
}

func (r *Report) page() *page {
	p := &page{
		Report:   r,
		Style:    template.CSS(pageStyle),
		Title:    clip(visible(r.Evaluation.Plan.Name), nameRunes),
		Asked:    r.asked(),
		Tiles:    r.tiles(),
		Scores:   r.scoreView(),
		Judges:   r.judgeView(),
		Listed:   r.listedRows(),
		Budget:   r.budget(),
		Settings: r.settings(),
		Method:   r.method(),
	}
	left := pageRows
	for g := range r.Groups {
		if left == 0 {
			break
		}
		view := r.rankingView(g, left)
		left -= len(view.Open) + len(view.Folded)
		p.Rankings = append(p.Rankings, view)
	}
	p.Hidden = r.ranked() - (pageRows - left)
	p.Reasons, p.NoReason = r.reasoned()
	allFailed := 0
	for _, c := range r.Calls {
		failed := 0
		for _, n := range c.Errors {
			failed += n
		}
		allFailed += failed
		p.Calls = append(p.Calls, callsOf(c.Model, c.Stage, failed, c.Usage))
	}
	p.CallSum = callsOf("all", "", allFailed, r.total())
	return p
}

func callsOf(model, stage string, failed int, u results.Usage) callView {
	return callView{
		Model: model, Stage: stage, Calls: count(u.Calls), Before: count(u.FromCache), Failed: count(failed),
		Input: tokens(u.Input, u), Output: tokens(u.Output, u), Cached: tokens(u.Cached, u), Reasoning: tokens(u.Reasoning, u),
		Cost: cost(u),
	}
}

func (r *Report) tiles() []tile {
	planned, succeeded, failed, _ := r.runs()
	u := r.total()
	tiles := []tile{{"Candidates", count(len(r.candidates)), counted(len(r.Evaluation.Plan.Documents), "document")}}
	if r.ListedOnly() {
		answers, _ := r.answers()
		tiles = []tile{{"Answers", count(answers), "by " + counted(len(r.Listed), "model")}}
	}
	if r.Evaluation.Plan.Pairwise != nil {
		tiles = append(tiles, tile{"Verdicts on pairs", count(r.Verdicts), "by " + counted(len(r.Judges), "judge")})
	}
	if r.Evaluation.Plan.Single != nil {
		tiles = append(tiles, tile{"Scores", count(r.Scored), "on " + counted(len(r.Criteria), "criterion")})
	}
	if r.Evaluation.Plan.Single != nil && len(r.Criteria) != 1 {
		tiles[len(tiles)-1].Hint = "on " + count(len(r.Criteria)) + " criteria"
	}
	return append(tiles,
		tile{"Runs", count(succeeded), fmt.Sprintf("of %s; %s failed", count(planned), count(failed))},
		tile{"Tokens", shortTokens(u.Input+u.Output, u.Unreported > 0), made(u)},
		tile{"Cost", cost(u), r.costHint(u.Unpriced)},
	)
}

func (r *Report) costHint(unpriced int) string {
	if unpriced == 0 {
		return cmp.Or(r.priceTable(), "as reported")
	}
	return counted(unpriced, "call") + " without a price"
}

// shortTokens is a number of tokens in three digits.
func shortTokens(n int64, more bool) string {
	text := strconv.FormatInt(n, 10)
	for _, unit := range []struct {
		size   float64
		letter string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if float64(n) >= unit.size {
			text = strconv.FormatFloat(float64(n)/unit.size, 'g', 3, 64) + " " + unit.letter
			break
		}
	}
	switch {
	case more && n == 0:
		return "unknown"
	case more:
		return "≥ " + text
	default:
		return text
	}
}

func (r *Report) rankingView(g, most int) rankingView {
	group := r.Groups[g]
	view := rankingView{ID: strconv.Itoa(g + 1), Title: r.groupTitle(g), Assumed: group.Regularised}
	if g < drawnGroups {
		view.Plot = r.intervalPlot(group)
		switch n := len(group.Ranked); {
		case r.Verdicts == 0 || n < 2:
		case n > matrixCandidates:
			view.NoMatrix = fmt.Sprintf("The table of wins over each other is left out: it is drawn for up to %d candidates, and these are %s. Every verdict is in pairwise_results.csv.", matrixCandidates, count(n))
		default:
			view.Matrix = r.matrix(group)
		}
	}
	for k, c := range group.Ranked[:min(most, len(group.Ranked))] {
		row := rankingRow{
			Name: c.Name, Ranks: r.ranks(c), WinRate: percent(c.WinRate()), Record: tally(c), Mean: mean(c.Overall),
		}
		if r.abilities() {
			row.Ability = fmt.Sprintf("%s ± %.2f", signed(c.Ability), c.SE)
			row.Interval = signed(c.Low) + " … " + signed(c.High)
		}
		if k < openRows {
			view.Open = append(view.Open, row)
		} else {
			view.Folded = append(view.Folded, row)
		}
	}
	return view
}

// reasoned are the best candidates that have reasons to show.
func (r *Report) reasoned() (shown []Ranked, left int) {
	for _, g := range r.Groups {
		for _, c := range g.Ranked {
			switch {
			case len(c.For)+len(c.Against) == 0:
			case len(shown) < reasonCandidates:
				shown = append(shown, c)
			default:
				left++
			}
		}
	}
	return shown, left
}

// ShowsAbilities and the following are asked by the template.
func (p *page) ShowsAbilities() bool { return p.Report.abilities() }

// HasPairs reports whether there are verdicts on pairs.
func (p *page) HasPairs() bool { return p.Report.Verdicts > 0 }

// HasScores reports whether there are scores.
func (p *page) HasScores() bool { return p.Report.Scored > 0 }

// Created is when the evaluation was submitted; empty where that is not known.
func (p *page) Created() string { return dateTime(p.Report.Evaluation.Created) }

func dateTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// tenth rounds a coordinate.
func tenth(x float64) float64 { return math.Round(x*10) / 10 }
