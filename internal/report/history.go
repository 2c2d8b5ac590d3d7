package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// mostHistory bounds the rankings in the history of a text for a terminal.
const mostHistory = 10

// Standing returns the ranking as the history of a grown evaluation keeps it. Candidates of several rankings follow each
// other, the largest ranking first.
func (r *Report) Standing() eval.Standing {
	e := r.Evaluation
	s := eval.Standing{Evaluation: e.ID, Ended: e.Finished.UTC(), Ranks: []eval.RankedName{}, Calls: r.total().Calls}
	if s.Ended.IsZero() {
		s.Ended = r.Last.UTC()
	}
	if e.Plan.Board != nil {
		s.Newcomers = e.Plan.Pairwise.Pairs.Newcomers
	}
	if u := r.total(); u.Unpriced == 0 {
		s.CostUSD = &u.CostUSD
	}
	for _, g := range r.Groups {
		for _, c := range g.Ranked {
			one := eval.RankedName{Candidate: c.Name, Rank: c.Rank, Low: c.Rank, High: c.Rank}
			if g.tests != nil {
				one.Low, one.High = c.RankLow, c.RankHigh
			}
			s.Ranks = append(s.Ranks, one)
		}
	}
	return s
}

// History returns the rankings that this one has grown from, oldest first, and itself; nil: it has not grown.
func (r *Report) History() []eval.Standing {
	if r.Evaluation.Plan.Board == nil {
		return nil
	}
	before := r.Evaluation.Plan.Board.History
	return append(before[:len(before):len(before)], r.Standing())
}

// addedWords says at which ranks the evaluation's own newcomers are; empty: it has none.
func (r *Report) addedWords() string {
	if r.Evaluation.Plan.Board == nil {
		return ""
	}
	added, newcomers := newcomersOf(r.Standing()), r.Evaluation.Plan.Pairwise.Pairs.Newcomers
	switch {
	case added == "" && len(newcomers) == 1:
		added = named(newcomers[0]) + " has no verdict yet"
	case added == "":
		added = wording.Counted(len(newcomers), "newcomer") + " have no verdict yet"
	}
	return fmt.Sprintf("%s; the ranking before had %s", added, wording.Counted(len(r.candidates)-len(newcomers), "candidate"))
}

// newcomersOf returns the ranks of a ranking's newcomers: "new 7 (5–11), other 2".
func newcomersOf(s eval.Standing) string {
	const most = 3 // that are named
	var words []string
	for _, one := range s.Ranks {
		if !slices.Contains(s.Newcomers, one.Candidate) {
			continue
		}
		text := fmt.Sprintf("%s is %d", named(one.Candidate), one.Rank)
		if one.Low != one.High {
			text += fmt.Sprintf(" (%d–%d)", one.Low, one.High)
		}
		words = append(words, text)
	}
	if left := len(words) - most; left > 0 {
		words = append(words[:most], wording.Counted(left, "more newcomer"))
	}
	return strings.Join(words, ", ")
}

// historySection returns a table of the rankings that this one has grown from, with at most `most` of the newest. ok is
// false if it has not grown.
func (r *Report) historySection(most int) (s section, ok bool) {
	all := r.History()
	if all == nil {
		return section{}, false
	}
	t := lines.Table{{Head: "ended"}, {Head: "added", Flexible: true}, {Head: "first", Flexible: true}}
	t = append(t, lines.Heads("candidates", "calls", "cost")...)
	for _, one := range all[max(0, len(all)-most):] {
		added, first, paid := newcomersOf(one), "–", "unknown"
		if added == "" {
			added = "–"
		}
		if len(one.Ranks) > 0 {
			first = named(one.Ranks[0].Candidate)
		}
		if one.CostUSD != nil {
			paid = ratelimit.USD(*one.CostUSD)
		}
		t.Add(one.Ended.UTC().Format("2006-01-02 15:04"), added, first, wording.Count(len(one.Ranks)), wording.Count(one.Calls), paid)
	}

	s = section{title: "History", table: t}
	if left := len(all) - most; left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "earlier ranking")+" in report.json.")
	}
	return s, true
}
