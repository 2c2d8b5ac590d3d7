package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Comparison sets evaluations side by side; the first is the one that the others are compared with. If an evaluation
// has several rankings, which share no scale, the first and largest is compared.
type Comparison struct {
	Reports    []*Report
	Candidates []Compared // best first in the first evaluation; then those it does not rank, by name
	Settings   []Difference
	// Shared counts the candidates that every evaluation ranks. Abilities are relative to the mean of these, so that
	// one more candidate in one evaluation does not change the others' abilities.
	Shared int
	both   []int // by evaluation: the candidates that it and the first rank
}

// Compared is one candidate in each evaluation.
type Compared struct {
	Name   string
	Places []*Place // by evaluation; nil: not ranked there
	Moves  []Move   // by evaluation, relative to the first, whose own is MoveSame
	steps  []int    // by evaluation: ranks that the candidate gained since the first
}

// Place is a candidate's place in one evaluation.
type Place struct {
	Ranked
	// SharedRank is the rank among the candidates that every evaluation ranks; 0 if the candidate is not one of them.
	SharedRank int
}

// Move says how a candidate's place differs between two evaluations.
type Move string

// The moves. A candidate has moved if its rank differs among the candidates that both evaluations rank. What further
// evaluations rank has no influence.
const (
	MoveNone    Move = ""        // ranked in neither, or the only one ranked in both
	MoveSame    Move = "same"    // its rank is the same
	MoveNew     Move = "new"     // not ranked in the first
	MoveGone    Move = "gone"    // ranked in the first only
	MoveWithin  Move = "within"  // it moved, but the intervals of its abilities overlap
	MoveBeyond  Move = "beyond"  // it moved, and the intervals do not overlap
	MoveUnsized Move = "unsized" // it moved, and there are no intervals to tell by how much
)

// Difference is a setting that is not the same in all evaluations.
type Difference struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // by evaluation; empty: not set
}

// Compare sets reports side by side; there must be at least one.
func Compare(reports ...*Report) *Comparison {
	c := &Comparison{Reports: reports, Settings: differences(reports)}
	places, known := make([]map[string]*Place, len(reports)), map[string]bool{}
	for k, r := range reports {
		places[k] = map[string]*Place{}
		if len(r.Groups) == 0 {
			continue
		}
		for _, one := range r.Groups[0].Ranked {
			places[k][one.Name] = &Place{Ranked: one}
			if !known[one.Name] {
				known[one.Name] = true
				c.Candidates = append(c.Candidates, Compared{Name: one.Name})
			}
		}
	}

	first := len(places[0])
	slices.SortFunc(c.Candidates[min(first, len(c.Candidates)):], func(a, b Compared) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.Candidates {
		one := &c.Candidates[i]
		for _, of := range places {
			one.Places = append(one.Places, of[one.Name])
		}
		if !slices.Contains(one.Places, nil) {
			c.Shared++
		}
	}

	for k := range reports {
		c.align(k)
	}
	for k := range reports {
		c.move(k)
	}
	return c
}

// align ranks the candidates that every evaluation ranks among themselves, and centres evaluation k's abilities on
// their mean.
func (c *Comparison) align(k int) {
	var shared, all []*Place
	for _, one := range c.Candidates {
		if one.Places[k] == nil {
			continue
		}
		all = append(all, one.Places[k])
		if !slices.Contains(one.Places, nil) {
			shared = append(shared, one.Places[k])
		}
	}

	mean := 0.0
	for _, p := range shared {
		mean += p.Ability / float64(len(shared))
	}
	for _, p := range all {
		p.Ability, p.Low, p.High = p.Ability-mean, p.Low-mean, p.High-mean
	}
	for p, rank := range ranksAmong(shared) {
		p.SharedRank = rank
	}
}

// ranksAmong returns the ranks that places of one evaluation have among themselves. Equal ranks stay equal.
func ranksAmong(places []*Place) map[*Place]int {
	places = slices.SortedStableFunc(slices.Values(places), func(a, b *Place) int { return cmp.Compare(a.Rank, b.Rank) })
	ranks := make(map[*Place]int, len(places))
	for i, p := range places {
		ranks[p] = i + 1
		if i > 0 && p.Rank == places[i-1].Rank {
			ranks[p] = ranks[places[i-1]]
		}
	}
	return ranks
}

// move sets how the candidates' places in evaluation k differ from those in the first.
func (c *Comparison) move(k int) {
	var from, to []*Place
	shift := 0.0 // of the mean of these candidates
	for _, one := range c.Candidates {
		if was, is := one.Places[0], one.Places[k]; was != nil && is != nil {
			from, to = append(from, was), append(to, is)
			shift += is.Ability - was.Ability
		}
	}

	shift /= float64(max(1, len(from)))
	before, after := ranksAmong(from), ranksAmong(to)
	for i := range c.Candidates {
		one := &c.Candidates[i]
		was, is := one.Places[0], one.Places[k]
		step := 0
		if was != nil && is != nil {
			step = before[was] - after[is]
		}
		one.Moves, one.steps = append(one.Moves, c.moved(k, was, is, len(from), step, shift)), append(one.steps, step)
	}
	c.both = append(c.both, len(from))
}

// moved returns the move of a candidate by a number of ranks among those that both evaluations rank.
func (c *Comparison) moved(k int, from, to *Place, both, step int, shift float64) Move {
	switch {
	case from == nil && to == nil:
		return MoveNone
	case from == nil:
		return MoveNew
	case to == nil:
		return MoveGone
	case k == 0:
		return MoveSame
	case both == 1:
		return MoveNone
	case step == 0:
		return MoveSame
	case !c.Reports[0].abilities() || !c.Reports[k].abilities() || math.IsNaN(from.Low+to.Low):
		return MoveUnsized
	case from.Low <= to.High-shift && to.Low-shift <= from.High:
		return MoveWithin
	default:
		return MoveBeyond
	}
}

// differences returns the settings that are not the same in all evaluations, in the order of their first appearance.
// It leaves out times and durations, which always differ.
func differences(reports []*Report) []Difference {
	var all []Difference
	at := map[string]int{}
	for k, r := range reports {
		for _, s := range r.comparable() {
			i, ok := at[s.Name]
			if !ok {
				i = len(all)
				at[s.Name] = i
				all = append(all, Difference{Name: s.Name, Values: make([]string, len(reports))})
			}
			if value := &all[i].Values[k]; *value == "" {
				*value = s.Value
			} else { // a repeated setting, such as a limit
				*value += "; " + s.Value
			}
		}
	}
	return slices.DeleteFunc(all, func(d Difference) bool {
		return !slices.ContainsFunc(d.Values, func(v string) bool { return v != d.Values[0] })
	})
}

// comparable returns the settings that determine the questions and how they are asked.
func (r *Report) comparable() []setting {
	all := slices.DeleteFunc(r.settings(), func(s setting) bool {
		return slices.Contains([]string{"submitted", "finished", "cancelled", "budget"}, s.Name)
	})
	for k := range all { // the scope of a limit contains the evaluation's id
		all[k].Value = strings.ReplaceAll(all[k].Value, "evaluation "+string(r.Evaluation.ID), "evaluation")
	}
	return all
}

// Headline says what changed in a sentence for each evaluation after the first.
func (c *Comparison) Headline() []string {
	var lines []string
	for k := 1; k < len(c.Reports); k++ {
		counts := map[Move]int{}
		for _, one := range c.Candidates {
			counts[one.Moves[k]]++
		}
		var parts []string
		for _, part := range []struct {
			move Move
			text string
		}{
			{MoveBeyond, "%s moved beyond the intervals"}, {MoveWithin, "%s moved within the intervals"}, {MoveUnsized, "%s moved"},
			{MoveSame, "%s kept the rank"}, {MoveNew, "%s new"}, {MoveGone, "%s gone"},
		} {
			if n := counts[part.move]; n > 0 {
				parts = append(parts, fmt.Sprintf(part.text, wording.Count(n)))
			}
		}
		switch {
		case len(parts) == 0 && c.both[k] == 0:
			parts = []string{"nothing is ranked"}
		case c.both[k] == 0:
			parts = append(parts, "so no candidate can be compared")
		case c.both[k] == 1:
			parts = append(parts, "with only one candidate in both, no rank can be compared")
		}
		lines = append(lines, fmt.Sprintf("%s against %s: %s.%s", c.label(k), c.label(0), strings.Join(parts, ", "), c.doubt(k)))
	}

	return lines
}

// doubt says if one of the rankings behind the moves of evaluation k cannot be relied on; empty: both can.
func (c *Comparison) doubt(k int) string {
	var why []string
	for _, of := range []int{0, k} {
		if t := c.Reports[of].Reliance(); t != nil && t.Level.place() <= Unsound.place() {
			why = append(why, fmt.Sprintf("trust in %s is %s", c.label(of), t.Level))
		}
	}
	if len(why) == 0 || c.both[k] < 2 {
		return ""
	}
	return " Do not rely on these moves: " + strings.Join(why, ", and ") + "."
}

// reliances says how far each evaluation can be relied on, if judges compared texts.
func (c *Comparison) reliances() (all []comparedReliance) {
	for k, r := range c.Reports {
		if t := r.Reliance(); t != nil {
			all = append(all, comparedReliance{t.Level, fmt.Sprintf("Trust in %d is %s. %s", k+1, t.Level, t)})
		}
	}
	return all
}

// comparedReliance is a Reliance in words, with the number of its evaluation.
type comparedReliance struct {
	Level Level
	Text  string
}

// label returns the name of evaluation k, followed by its id if another evaluation has the same name.
func (c *Comparison) label(k int) string {
	of := c.Reports[k].Evaluation
	for i, r := range c.Reports {
		if i != k && r.Evaluation.Plan.Name == of.Plan.Name {
			return called(of.Plan.Name) + " (" + string(of.ID) + ")"
		}
	}
	return called(of.Plan.Name)
}

// meaning returns the move of a candidate that gained a number of ranks in words, such as "up 2, apart".
func (m Move) meaning(step int) string {
	words := fmt.Sprintf("up %d", step)
	if step < 0 {
		words = fmt.Sprintf("down %d", -step)
	}
	switch m {
	case MoveWithin:
		return words + ", overlap"
	case MoveBeyond:
		return words + ", apart"
	case MoveUnsized:
		return words
	default:
		return string(m)
	}
}
