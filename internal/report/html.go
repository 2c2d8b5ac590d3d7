package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of the page, so that a browser can show a thousand candidates at once. The page states how much it leaves
// out.
const (
	plotCandidates   = 40   // rows of an interval plot
	matrixCandidates = 40   // rows and columns of a matrix with all candidates
	bestCandidates   = 20   // rows and columns of a matrix if there are more
	openRows         = 60   // rows of a ranking that are visible; a click opens the rest
	pageRows         = 2000 // rows of all rankings together
	drawnGroups      = 12   // groups with figures
	reasonCandidates = 60   // candidates with reasons
)

//go:embed page/*.html
var pageFiles embed.FS

//go:embed page/page.css
var pageStyle string

// baseStyle is the style that reports and the pages of a fleet share.
//
//go:embed page/base.css
var baseStyle string

// BaseStyle returns the style that reports share with other pages: colours, type, the bar at the top, tables and texts.
func BaseStyle() string { return baseStyle }

// pageScript sorts and searches tables. It needs no network, and the page is complete without it.
//
//go:embed page/page.js
var pageScript string

// TableScript returns that script, for pages outside of reports.
func TableScript() string { return pageScript }

// Policy returns the Content-Security-Policy of a page: it loads nothing but the images within it, and runs only its own
// script, which the policy names by its hash.
func Policy() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "default-src 'none'; img-src data:; style-src 'unsafe-inline'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// The templates of a page in a file, and of one that the dashboard serves. They are parsed when a page is first
// written, because most processes (such as workers) write none.
var (
	fileTemplate   = sync.OnceValue(func() *template.Template { return pageTemplate(false) })
	servedTemplate = sync.OnceValue(func() *template.Template { return pageTemplate(true) })
)

// pageTemplate parses the template of a page. A served page links to its evaluation and to runs, by addresses
// relative to /evaluations/ID/report.
func pageTemplate(served bool) *template.Template {
	return template.Must(template.New("page.html").Funcs(template.FuncMap{
		"served":       func() bool { return served },
		"policy":       Policy,
		"script":       func() template.JS { return template.JS(pageScript) },
		"at":           func(r results.RunRow) string { return fmt.Sprintf("%d.%d", r.Phase, r.Index) },
		"text":         harmless.Line,
		"whole":        wording.TiedPercents,
		"prose":        harmless.Text,
		"name":         func(s string) string { return named(s) },
		"full":         func(s string) string { return wording.Clip(harmless.Line(s), 2*reasonRunes) },
		"count":        wording.Count[int],
		"opinionsKept": func() int { return opinionsKept },
		"run":          func(r results.RunRow) string { return named(shortRun(r)) },
		"why":          whyID,
		"row":          func(p *page, r rankingRow) rowOfPage { return rowOfPage{p, r} },
		"progress":     func(v *runsView, r progressRow) progressOfPage { return progressOfPage{r, v} },
		"scoreTable": func(rows []scoreRow, columns []string, of, caption string) scoreTable {
			return scoreTable{rows, columns, of, caption}
		},
	}).ParseFS(pageFiles, "page/*.html"))
}

// page is the data of the page template; its numbers are already formatted.
type page struct {
	Report   *Report
	Style    template.CSS
	Title    string
	Asked    string
	Tiles    []tile
	Sections []pageSection
	Rankings []rankingView
	Hidden   int          // ranked candidates beyond pageRows
	Enough   *sectionView // nil: there are no abilities
	Missing  []missingRow
	Scores   *scoreView
	Checks   *sectionView
	Rubric   *sectionView
	History  *sectionView  // nil: it has not grown
	OverTime *overTimeView // nil: there are no anchors
	Lengths  *lengthView   // nil: no length is known
	Panel    *panelView
	Judges   *judgeView
	People   *peopleView
	Listed   []listedRow
	Each     []listedRunRow // listed runs
	MoreEach string         // how many are omitted; empty: none
	Reasons  []Ranked
	NoReason int // ranked candidates beyond reasonCandidates
	Reading  *readingView
	Kinds    []sectionView // by category
	Criteria []sectionView // of comparisons
	Items    *itemMap
	Effects  *effectsView
	Runs     *runsView
	Timeline *timelineView
	Waits    []waitView
	Calls    []callView
	CallSum  callView
	Budget   string
	Fallback *fallbackView
	Settings []setting
	Method   []string
}

// pageSection is a section of the page with a link in its contents.
type pageSection struct {
	ID, Title string
}

// tile is one number at the top of the page.
type tile struct {
	Label, Value, Hint string
}

// WriteHTML writes the report as one self-contained page: no network, no font, and one script, which sorts tables.
// Everything recorded is escaped, and Policy forbids the page to load anything or to run any other script.
func (r *Report) WriteHTML(w io.Writer) error { return r.writePage(w, fileTemplate) }

// WriteServedHTML writes the page for the address /evaluations/ID/report of the dashboard. It is the page of
// WriteHTML with links to the evaluation and its runs.
func (r *Report) WriteServedHTML(w io.Writer) error { return r.writePage(w, servedTemplate) }

func (r *Report) writePage(w io.Writer, form func() *template.Template) error {
	return writePage(w, form(), "page.html", r.page(), string(r.Evaluation.ID))
}

// writePage executes the template `name` with data. of names the subject in errors.
func writePage(w io.Writer, form *template.Template, name string, data any, of string) error {
	out := bufio.NewWriter(w)
	err := form.ExecuteTemplate(out, name, data)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write page of %s: %w", of, err)
	}
	return nil
}

func (r *Report) page() *page {
	p := &page{
		Report:   r,
		Style:    template.CSS(baseStyle + pageStyle),
		Title:    named(r.Evaluation.Plan.Name),
		Asked:    r.asked(),
		Tiles:    r.tiles(),
		Scores:   r.scoreView(),
		Lengths:  r.lengthView(),
		Panel:    r.panelView(),
		Judges:   r.judgeView(),
		People:   r.peopleView(),
		Reading:  r.readingView(),
		Items:    r.itemMap(),
		Effects:  r.effectsView(),
		Listed:   r.listedRows(),
		Runs:     r.runsView(),
		Timeline: r.timelineView(),
		Waits:    r.waitViews(),
		Budget:   r.budget(),
		Fallback: r.fallbackView(),
		Settings: r.settings(),
		Method:   r.method(),
	}
	var more int
	if p.Each, more = r.listedRunRows(); more > 0 {
		p.MoreEach = wording.Counted(more, "more run")
	}
	for _, s := range r.criteriaSections(openRows, pageColumns) {
		p.Criteria = append(p.Criteria, s.view())
	}
	if s, ok := r.categorySection(openRows, pageColumns); ok {
		p.Kinds = append(p.Kinds, s.view())
	}
	if s, ok := r.historySection(openRows); ok {
		p.History = s.titled("Rankings that this one has grown from, and itself")
	}
	if r.OverTime != nil {
		p.OverTime = r.OverTime.view()
	}
	if s, ok := r.checkSection(openRows); ok {
		p.Checks = s.titled("Share of texts that pass")
	}
	if s, ok := r.rubricSection(openRows); ok {
		p.Rubric = s.titled("Share of criteria that are met")
	}
	p.Reasons, p.NoReason = r.reasoned()
	if r.Missing != nil {
		p.Missing = r.missingRows(mostMissing)
	}
	p.Rankings, p.Hidden = r.rankingViews(p.Reasons)
	if s, ok := r.enoughSection(openRows); ok {
		p.Enough = s.titled("Candidates and the next in the ranking")
	}

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
	p.Sections = p.sections()
	return p
}

// sections returns the sections that the page has, in their order.
func (p *page) sections() []pageSection {
	var all []pageSection
	add := func(has bool, id, title string) {
		if has {
			all = append(all, pageSection{id, title})
		}
	}

	add(p.Ranks(), "ranking", "Ranking")
	add(p.History != nil, "history", "History")
	add(p.Enough != nil, "enough", "Is it enough?")
	add(len(p.Criteria) > 0, "criteria", "By criterion")
	add(p.Effects != nil, "effects", "Prompts and models")
	add(len(p.Kinds) > 0, "categories", "Categories")
	add(p.Items != nil, "items", "Items")
	add(p.Scores != nil, "scores", "Scores")
	add(p.Checks != nil, "checks", "Checks")
	add(p.Rubric != nil, "rubric", "Rubric")
	add(p.Panel != nil, "panel", "Panel")
	add(p.Lengths != nil, "lengths", "Lengths of texts")
	add(p.Judges != nil, "judges", "Judges")
	add(p.OverTime != nil, "overtime", "Judges over time")
	add(p.People != nil, "people", "People")
	add(len(p.Listed) > 0, "listed", p.Report.ListedTitle())
	add(len(p.Reasons) > 0, "reasons", "Reasons")
	add(p.Report.HasAnswers(), "answers", "Answers")
	add(p.Reading != nil, "reading", "Read the answers")
	add(p.Runs != nil, "runs", "Planned and recorded")
	add(p.Timeline != nil, "timeline", "Calls over time")
	add(!p.Report.given(), "cost", "Tokens and cost")
	add(p.Fallback != nil, "fallback", "Fallback")
	add(len(p.Report.Failures) > 0, "failures", "Failures")
	add(true, "settings", "Settings")
	add(len(p.Method) > 0, "method", "How to read this")
	return all
}

type callView struct {
	Model, Stage, Calls, Before, Failed, Input, Output, Cached, Reasoning, Cost string
}

func callsOf(model, stage string, failed int, u results.Usage) callView {
	return callView{
		Model: model, Stage: stage, Calls: wording.Count(u.Calls), Before: wording.Count(u.FromCache), Failed: wording.Count(failed),
		Input: tokens(u.Input, u), Output: tokens(u.Output, u), Cached: tokens(u.Cached, u), Reasoning: tokens(u.Reasoning, u),
		Cost: cost(u),
	}
}

func (r *Report) tiles() []tile {
	planned, succeeded, failed, _ := r.runs()
	u := r.total()
	tiles := []tile{{"Candidates", wording.Count(len(r.candidates)), wording.Counted(len(r.Evaluation.Plan.Documents), "document")}}
	if r.ListedOnly() {
		answers, _ := r.answers()
		tiles = []tile{{"Answers", wording.Count(answers), "by " + wording.Counted(len(r.Listed), "model")}}
	}
	if r.Evaluation.Plan.Pairwise != nil {
		tiles = append(tiles, tile{"Verdicts on pairs", wording.Count(r.Verdicts), "by " + wording.Counted(len(r.Judges), "judge")})
	}
	if r.Evaluation.Plan.Single != nil {
		tiles = append(tiles, tile{"Scores", wording.Count(r.Scored), "on " + wording.Counted(len(r.Criteria), "criterion")})
	}
	if r.Evaluation.Plan.Single != nil && len(r.Criteria) != 1 {
		tiles[len(tiles)-1].Hint = "on " + wording.Count(len(r.Criteria)) + " criteria"
	}

	if given := r.Evaluation.Plan.Given; given != nil {
		return append(tiles, tile{"Files read", wording.Count(len(given.Files)), "no model was asked"})
	}
	return append(tiles,
		tile{"Runs", wording.Count(succeeded), fmt.Sprintf("of %s; %s failed", wording.Count(planned), wording.Count(failed))},
		tile{"Tokens", shortTokens(u.Input+u.Output, u.Unreported > 0), made(u)},
		tile{"Cost", cost(u), r.costHint(u.Unpriced)},
	)
}

func (r *Report) costHint(unpriced int) string {
	if unpriced == 0 {
		return cmp.Or(r.priceTable(), "as reported")
	}
	return wording.Counted(unpriced, "call") + " without a price"
}

// shortTokens formats a number of tokens with three digits and a unit. If more is set, the number is a lower bound.
func shortTokens(n int64, more bool) string {
	text := strconv.FormatInt(n, 10)
	for _, unit := range []struct {
		size   float64
		letter string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if float64(n) >= 0.9995*unit.size { // 999,500 is 1 M with three digits
			text = threeDigits(float64(n)/unit.size) + " " + unit.letter
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

// threeDigits formats a positive number with three significant digits, or as a whole number if it has more.
func threeDigits(x float64) string {
	power := math.Pow(10, math.Floor(math.Log10(x))-2)
	return wording.Plain(math.Round(x/power) * power)
}

// ShowsAbilities reports whether candidates have abilities. The template calls this and the following methods.
func (p *page) ShowsAbilities() bool { return p.Report.abilities() }

// ShowsOrder reports whether it is known which text was shown first.
func (p *page) ShowsOrder() bool { return p.Report.ordered() }

// ShowsTests reports whether differences between candidates are tested.
func (p *page) ShowsTests() bool { return p.Report.tested() }

// MissingWords returns the explanation of the table of missing verdicts.
func (p *page) MissingWords() string { return missingWords }

// ShowsScale reports whether judges are weighted by their scale.
func (p *page) ShowsScale() bool { return p.Report.Unweighed != nil }

// HasPairs reports whether there are verdicts on pairs.
func (p *page) HasPairs() bool { return p.Report.Verdicts > 0 }

// ShowsSoft reports whether rankings show weighted win rates.
func (p *page) ShowsSoft() bool { return p.Report.softly() }

// HasScores reports whether there are scores.
func (p *page) HasScores() bool { return p.Report.Scored > 0 }

// Ranks reports whether the page has a ranking section: there is a ranking, or the evaluation asks for one.
func (p *page) Ranks() bool {
	return len(p.Report.Groups) > 0 || !p.Report.ListedOnly() && !p.Report.PanelOnly()
}

// Created returns when the evaluation was submitted; empty if that is not known.
func (p *page) Created() string { return dateTime(p.Report.Evaluation.Created) }

func dateTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

func tenth(x float64) float64 { return math.Round(x*10) / 10 }
