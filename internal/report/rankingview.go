package report

import (
	"fmt"
	"slices"
	"strconv"
)

type rankingView struct {
	Title       string
	Head, Means string // of the column of scores, and what a score is
	Plot        *plot
	Worth       []*scatter
	Matrix      *matrix
	Open        []rankingRow
	Folded      []rankingRow
	Details     bool // there is more to say of each candidate than its score
	Assumed     bool
	Tiers       []string // what tiers and the candidates that may be the best mean; nil: few candidates
	Choices     string   // settings that the ranking depends on, in words
	Fit         string   // how well the model fits, in words
}

// All returns the rows that are visible and those that are not.
func (v rankingView) All() []rankingRow { return slices.Concat(v.Open, v.Folded) }

type rankingRow struct {
	Rank, Name, Score, Limits                                 string // the score and its interval
	Ability, Interval, Best, Lead, Elo, WinRate, Record, Mean string
	Soft                                                      string // the weighted win rate
	Why                                                       string // id of its reasons; empty: not shown
}

// rowOfPage is a row with its page, from which the template learns which columns to show.
type rowOfPage struct {
	Page *page
	Row  rankingRow
}

// rankingViews returns the rankings with at most pageRows candidates, and how many candidates it leaves out. reasoned
// are the candidates whose reasons the page shows.
func (r *Report) rankingViews(reasoned []Ranked) (views []rankingView, hidden int) {
	why := map[int]string{}
	for _, c := range reasoned {
		why[c.Candidate] = whyID(c)
	}
	left := pageRows
	for g := range r.Groups {
		if left == 0 {
			break
		}
		view := r.rankingView(g, left, why)
		left -= len(view.Open) + len(view.Folded)
		views = append(views, view)
	}
	return views, r.ranked() - (pageRows - left)
}

func (r *Report) rankingView(g, most int, why map[int]string) rankingView {
	group := r.Groups[g]
	view := rankingView{Title: r.groupTitle(g), Assumed: group.Regularised, Details: r.Verdicts > 0 || r.tested(), Tiers: group.tierLines()}
	view.Head, view.Means = r.scoreWords()
	if g < drawnGroups {
		view.Plot = r.intervalPlot(group)
		if r.Verdicts > 0 && len(group.Ranked) > 1 {
			view.Matrix = r.headToHead(group)
		}
	}

	if g == 0 {
		view.Worth = r.candidateScatters()
	}
	if g == 0 {
		view.Choices = r.choiceSentence()
	}
	if g == 0 && r.Fit != nil {
		view.Fit = r.fitWords()
	}
	for k, c := range group.Ranked[:min(most, len(group.Ranked))] {
		row := rankingRow{
			Rank: r.ranks(c), Name: c.Name, Score: r.score(c), Limits: r.scoreInterval(c),
			WinRate: percent(c.WinRate()), Record: tally(c), Mean: mean(c.Overall), Why: why[c.Candidate],
		}
		row.WinRate = limited(row.WinRate, c.WinLimits, func(x float64) string { return fmt.Sprintf("%.0f", 100*x) })
		row.Soft = softCell(c)
		row.Mean = limited(row.Mean, c.ScoreLimits, func(x float64) string { return fmt.Sprintf("%.2f", x) })
		if r.abilities() {
			row.Ability = plusMinus(signed(c.Ability), c.SE)
			row.Interval = between(c.Low, c.High)
			row.Elo = eloOf(c)
		}
		if r.tested() {
			row.Best, row.Lead = probability(c.Best), group.leadWords(k)
		}
		if k < openRows {
			view.Open = append(view.Open, row)
		} else {
			view.Folded = append(view.Folded, row)
		}
	}

	return view
}

// fitWords says how well the model fits, and how many triples of candidates are circular.
func (r *Report) fitWords() string {
	words := ""
	if r.Fit.Dense {
		words = fmt.Sprintf("The model's deviance is %.1f on %s. ", r.Fit.Deviance, degrees(r.Fit.DegreesOfFreedom))
	}
	if r.Cycles.Triples > 0 {
		words += "Circular triples of candidates (a beats b, b beats c, c beats a), which no order explains: " + r.cycleWords() + "."
	}
	return words
}

// reasoned returns the best candidates that have reasons to show, and the number of those it leaves out.
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

// whyID returns the anchor of a candidate's reasons in the page.
func whyID(c Ranked) string { return "why-" + strconv.Itoa(c.Candidate) }
