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
}

// Compared is one candidate in each evaluation.
type Compared struct {
	Name   string
	Places []*Place // by evaluation; nil: not ranked there
	Moves  []Move   // by evaluation, relative to the first, whose own is MoveSame
}

// Place is a candidate's place in one evaluation.
type Place struct {
	Ranked
	// SharedRank is the rank among the candidates that every evaluation ranks; 0 if the candidate is not one of them.
	SharedRank int
}

// Move says how a candidate's place differs between two evaluations.
type Move string

// The moves. A candidate has moved if its SharedRank differs.
const (
	MoveNone    Move = ""        // ranked in neither
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
	for i := range c.Candidates {
		c.move(&c.Candidates[i])
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
	slices.SortStableFunc(shared, func(a, b *Place) int { return cmp.Compare(a.Rank, b.Rank) })
	for i, p := range shared {
		p.SharedRank = i + 1
		if i > 0 && p.Rank == shared[i-1].Rank {
			p.SharedRank = shared[i-1].SharedRank
		}
	}
}

func (c *Comparison) move(one *Compared) {
	from := one.Places[0]
	for k, to := range one.Places {
		one.Moves = append(one.Moves, c.moved(k, from, to))
	}
}

func (c *Comparison) moved(k int, from, to *Place) Move {
	switch {
	case from == nil && to == nil:
		return MoveNone
	case from == nil:
		return MoveNew
	case to == nil:
		return MoveGone
	case k == 0 || from.SharedRank == to.SharedRank:
		return MoveSame
	case !c.Reports[0].abilities() || !c.Reports[k].abilities() || math.IsNaN(from.Low+to.Low):
		return MoveUnsized
	case from.Low <= to.High && to.Low <= from.High:
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
		if len(parts) == 0 {
			parts = []string{"nothing is ranked"}
		}
		lines = append(lines, fmt.Sprintf("%s against %s: %s.", c.label(k), c.label(0), strings.Join(parts, ", ")))
	}

	return lines
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

// meaning returns the move in words, such as "up 2, apart".
func (m Move) meaning(from, to *Place) string {
	step := func() string {
		n := from.SharedRank - to.SharedRank
		if n < 0 {
			return fmt.Sprintf("down %d", -n)
		}
		return fmt.Sprintf("up %d", n)
	}
	switch m {
	case MoveWithin:
		return step() + ", overlap"
	case MoveBeyond:
		return step() + ", apart"
	case MoveUnsized:
		return step()
	default:
		return string(m)
	}
}
