package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// covered counts how often what is known lies in what is said.
type covered struct {
	abilities, differences, orders share
	together, alone                share       // the ranks of all candidates at once, and of the first one
	alarms                         share       // one difference is called, of the wrong sign or of equals
	ahead                          share       // a candidate is said to be ahead of all others, and is not
	first, bold, order             calibration // the first, also where that is likely, and each one before the next
	tiers, contenders              share       // all that tiers say is true; the contenders include the best
	tierCount, contenderCount      int         // sums of their numbers
	width                          float64     // sum of the mean numbers of ranks within bounds
	wide, widest                   float64     // sums of the widths of limits of abilities and of differences
	layout                         layoutCovered
}

// layoutCovered counts what is said of two factors.
type layoutCovered struct {
	main, ranges, interaction share // limits; those of the interaction of all candidates at once
	levels                    share // the ranks of all rows and columns at once
	found, falsely            share // an interaction where there is one, and where there is none
	more, moreFalsely         share // which factor differs more is said, and wrongly
}

type share struct{ hits, of int }

// calibration sets how often the first was the best beside the probability that was said.
type calibration struct {
	share
	sum float64
}

func (c *calibration) add(best bool, said float64) {
	c.share.add(best)
	c.sum += said
}

func (c calibration) said() float64 { return c.sum / float64(max(c.of, 1)) }

// tooBold is by how much more was said than was true, beyond what chance explains.
func (c calibration) tooBold() float64 {
	said := c.said()
	return said - c.rate() - 3*math.Sqrt(said*(1-said)/float64(max(c.of, 1)))
}

func (s *share) add(hit bool) {
	s.of++
	if hit {
		s.hits++
	}
}

func (s share) rate() float64 { return float64(s.hits) / float64(max(s.of, 1)) }

func (c *covered) add(t *testing.T, e evaluations, seed uint64, draws int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 77))
	abilities := e.abilities(random)
	truth := e.truth(t, abilities)
	observed, missing := e.incomplete(random, e.observed(random, abilities))
	fit, err := FromObserved(e.candidates, len(e.judges), observed, e.options())
	if err != nil {
		t.Fatal(err)
	}
	if len(fit.Components) > 1 {
		return // not one ranking
	}
	u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: draws, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	lowest, highest := e.ranks(truth.abilities)
	together, alone, ahead := true, true, false
	for i, ability := range truth.abilities {
		low, high := u.RankLow[i], u.RankHigh[i]
		if missing != nil {
			bounds, err := BoundsOf(t.Context(), i, e.candidates, len(e.judges), observed, missing, e.options())
			if err != nil {
				t.Fatal(err)
			}
			low, high = bounds.Low, bounds.High
		}
		c.abilities.add(u.Abilities[i].Low <= ability && ability <= u.Abilities[i].High)
		c.wide += u.Abilities[i].High - u.Abilities[i].Low
		together = together && low <= lowest[i] && highest[i] <= high
		alone = alone && (i > 0 || u.MarginalLow[i] <= lowest[i] && highest[i] <= u.MarginalHigh[i])
		c.width += float64(high-low+1) / float64(e.candidates)
		ahead = ahead || high == 1 && highest[i] > 1
		for j := range i {
			real := ability - truth.abilities[j]
			_, limits, _ := u.Contrast(i, j)
			c.differences.add(limits.Low <= real && real <= limits.High)
			c.widest += limits.High - limits.Low
			claim := u.ahead(i, j, ofPair)
			c.alarms.add(claim != 0 && float64(claim)*real < 1e-3)
		}
	}
	c.ahead.add(ahead)
	if e.layout != nil {
		c.layout.add(t, *e.layout, u, truth.abilities)
	}
	if missing == nil { // otherwise all abilities are biased
		c.addTiers(u, truth.abilities)
	}
	if first := fit.Standings()[0].Candidate; missing == nil && e.alike == 0 && (e.drawn || e.apart > 0) {
		c.first.add(highest[first] == 1, u.Best[first])
		if u.Best[first] >= 0.8 {
			c.bold.add(highest[first] == 1, u.Best[first])
		}
		for _, pair := range u.Neighbours() {
			c.order.add(truth.abilities[pair.Better] > truth.abilities[pair.Worse], pair.Right)
		}
	}
	c.together.add(together)
	c.alone.add(alone || missing != nil)
	for k, order := range u.Orders {
		if !e.ordered() {
			break
		}
		real := truth.orders[k]
		c.orders.add(order.Low <= real && real <= order.High)
	}
}

// add adds what is said of the factors, beside what is true.
func (c *layoutCovered) add(t *testing.T, l twoWay, u *Uncertainty, truth []float64) {
	t.Helper()
	said, ok := u.Effects(l.of())
	if !ok {
		t.Fatal("the candidates have no effects")
	}
	means := func(levels, step, size, apart int) (out []float64) {
		for k := range levels {
			mean := 0.0
			for j := range size {
				mean += truth[k*step+j*apart] / float64(size)
			}
			out = append(out, mean)
		}
		return out
	}
	rows, columns := means(l.rows, l.columns, l.columns, 1), means(l.columns, 1, l.rows, l.columns)

	right, squares := true, [2]float64{}
	for k, factor := range []struct {
		said  []Effect
		truth []float64
		span  Range
	}{{said.Rows, rows, said.RowRange}, {said.Columns, columns, said.ColumnRange}} {
		lowest, highest := evaluations{}.ranks(factor.truth)
		for j, one := range factor.said {
			c.main.add(one.Low <= factor.truth[j] && factor.truth[j] <= one.High)
			right = right && one.RankLow <= lowest[j] && highest[j] <= one.RankHigh
			squares[k] += factor.truth[j] * factor.truth[j] / float64(len(factor.truth)-1)
		}
		real := factor.truth[factor.span.Highest] - factor.truth[factor.span.Lowest]
		c.ranges.add(factor.span.Low <= real && real <= factor.span.High)
	}
	c.levels.add(right)
	c.more.add(said.More != 0)
	c.moreFalsely.add(float64(said.More)*(squares[0]-squares[1]) < 0 || said.More != 0 && math.Abs(squares[0]-squares[1]) < 1e-9)
	if said.Untested != Tested {
		return
	}

	all := true
	for r, line := range said.Interaction {
		for k, one := range line {
			real := truth[r*l.columns+k] - rows[r] - columns[k]
			all = all && one.Low <= real && real <= one.High
		}
	}
	c.interaction.add(all)
	if l.beyond != 0 {
		c.found.add(said.P < level)
	} else {
		c.falsely.add(said.P < level)
	}
}

// check logs what was counted, and complains of shares that are too low or too high.
func (c *layoutCovered) check(t *testing.T, name string, least, joint, falsely float64) {
	t.Helper()
	interaction, tested := fmt.Sprintf("%.3f", c.interaction.rate()), fmt.Sprintf("%.3f", c.falsely.rate())
	switch {
	case c.interaction.of == 0:
		interaction, tested = "–", "–"
	case c.found.of > 0:
		tested = fmt.Sprintf("%.3f (there is one)", c.found.rate())
	}
	t.Logf("effects | %s | %.3f | %.3f | %.3f | %s | %s | %.3f | %.3f |", name,
		c.main.rate(), c.ranges.rate(), c.levels.rate(), interaction, tested, c.more.rate(), c.moreFalsely.rate())
	if c.main.rate() < least {
		t.Errorf("%.3f of %d limits of main effects hold the truth, want %.3f", c.main.rate(), c.main.of, least)
	}
	for what, share := range map[string]share{"ranges": c.ranges, "ranks of all levels": c.levels, "interactions": c.interaction} {
		if share.of > 0 && share.rate() < joint {
			t.Errorf("%s hold in %.3f of the evaluations, want %.3f", what, share.rate(), joint)
		}
	}
	if c.falsely.rate() > falsely || c.moreFalsely.rate() > falsely {
		t.Errorf("an interaction is falsely claimed in %.3f of the evaluations, and which factor differs more in %.3f; want at most %.3f",
			c.falsely.rate(), c.moreFalsely.rate(), falsely)
	}
}

// addTiers adds what tiers and contenders say. Of equals that are the best, one is taken that no
// chance has chosen, so that the contenders do not include it by being the first.
func (c *covered) addTiers(u *Uncertainty, truth []float64) {
	best, right := len(truth)-1, true
	for i := range slices.Backward(truth) {
		if truth[i] > truth[best]+1e-3 {
			best = i
		}
	}
	tiers := u.Tiers[0]
	for t, tier := range tiers {
		if t == 0 {
			continue
		}
		for _, i := range tier.Candidates {
			better := func(j int) bool { return truth[j] > truth[i]+1e-3 }
			right = right && slices.ContainsFunc(tiers[t-1].Candidates, better)
			for _, above := range tiers[:t] {
				right = right && (!tiers[t-1].Apart || !slices.ContainsFunc(above.Candidates, func(j int) bool { return !better(j) }))
			}
		}
	}

	c.tiers.add(right)
	c.tierCount += len(tiers)
	c.contenders.add(u.Contenders[best])
	for _, one := range u.Contenders {
		if one {
			c.contenderCount++
		}
	}
}

// ranks are the least and the greatest that a candidate can be said to have; of equals
// they differ.
func (e evaluations) ranks(truth []float64) (lowest, highest []int) {
	for _, x := range truth {
		low, high := 1, 0
		for _, y := range truth {
			if y > x+1e-3 {
				low++
			}
			if y > x-1e-3 {
				high++
			}
		}
		lowest, highest = append(lowest, low), append(highest, high)
	}
	return lowest, highest
}

// TestCoverage: of many evaluations by simulated judges, 95 % intervals hold the truth
// about 95 times in 100 or more, and so do bounds for the ranks of all candidates at
// once, what tiers say, and the best among the contenders; at most 5 in 100 say of a candidate that is not the best
// that it is ahead of every other; the probability that the first is the best is not said to be greater than it
// is. With -full these are 1,000 evaluations of each row, and the bounds are
// tight; with -short it is every third row.
func TestCoverage(t *testing.T) {
	t.Parallel()
	for i, e := range simulations() {
		if e.candidates > 500 && !*full || testing.Short() && i%3 != 0 {
			continue // takes long
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			evaluations, draws := 4, 50
			if *full {
				evaluations, draws = *evaluationsFlag, 500
			}
			if e.most > 0 {
				evaluations = min(evaluations, e.most)
			}
			var c covered
			for seed := range uint64(evaluations) {
				c.add(t, e, seed, draws)
			}
			least, joint, falsely := 0.75, 0.5, 0.5 // of so few evaluations: that nothing is wrong by far
			if *full {
				slack := 3 * math.Sqrt(0.05*0.95/float64(c.together.of))
				least, joint, falsely = 0.94-slack, 0.94-slack, 0.05+slack
			}
			calibrated := "– | –"
			if c.first.of > 0 {
				calibrated = fmt.Sprintf("%.3f | %.3f", c.first.said(), c.first.rate())
			}
			orders := "–"
			if c.orders.of > 0 {
				orders = fmt.Sprintf("%.3f", c.orders.rate())
			}
			t.Logf("| %s | %.3f | %.3f | %s | %.3f | %.1f | %.3f | %.3f | %s |", e.name,
				c.abilities.rate(), c.differences.rate(), orders, c.together.rate(), c.width/float64(c.together.of), c.alarms.rate(), c.ahead.rate(), calibrated)
			if n := float64(max(c.tiers.of, 1)); c.tiers.of > 0 {
				t.Logf("tiers and contenders | %s | %.3f | %.1f | %.3f | %.1f |", e.name,
					c.tiers.rate(), float64(c.tierCount)/n, c.contenders.rate(), float64(c.contenderCount)/n)
			}
			if e.layout != nil {
				c.layout.check(t, e.name, least, joint, falsely)
			}
			t.Logf("mean widths: abilities %.2f, differences %.2f", c.wide/float64(c.abilities.of), c.widest/float64(c.differences.of))
			t.Logf("ranks of one candidate alone %.3f", c.alone.rate())
			t.Logf("P(best) of .8 or more: %d of %d, %.3f said, %.3f true", c.bold.of, c.first.of, c.bold.said(), c.bold.rate())
			t.Logf("order of neighbours: %.3f said, %.3f true of %d", c.order.said(), c.order.rate(), c.order.of)
			for what, share := range map[string]share{"abilities": c.abilities, "differences": c.differences, "order effects": c.orders} {
				if e.fails > 0 || !e.ordered() && share.of == 0 {
					continue // limits take failures as random
				}
				if share.of == 0 || share.rate() < least {
					t.Errorf("%.3f of %d limits of %s hold the truth, want %.3f", share.rate(), share.of, what, least)
				}
			}
			if c.alone.rate() < joint {
				t.Errorf("bounds hold the rank of one candidate in %.3f of the evaluations, want %.3f", c.alone.rate(), joint)
			}
			if c.together.rate() < joint {
				t.Errorf("bounds hold all ranks at once in %.3f of the evaluations, want %.3f", c.together.rate(), joint)
			}
			if c.tiers.of > 0 && c.tiers.rate() < joint {
				t.Errorf("all that tiers say is true in %.3f of the evaluations, want %.3f", c.tiers.rate(), joint)
			}
			if c.contenders.of > 0 && c.contenders.rate() < joint {
				t.Errorf("contenders include the best in %.3f of the evaluations, want %.3f", c.contenders.rate(), joint)
			}
			if e.fails == 0 && c.alarms.rate() > falsely || c.ahead.rate() > falsely {
				t.Errorf("%.3f of the pairs are falsely called different, %.3f of the candidates ahead of every other; want at most %.3f", c.alarms.rate(), c.ahead.rate(), falsely)
			}
			if c.order.of > 0 && c.order.tooBold() > 0.02 {
				t.Errorf("the order of neighbours is said to be right with probability %.3f, and is in %.3f of %d", c.order.said(), c.order.rate(), c.order.of)
			}
			for what, best := range map[string]calibration{"": c.first, " where that is .8 or more": c.bold} {
				if best.of > 0 && best.tooBold() > 0.02 {
					t.Errorf("the first is said to be the best with probability %.3f%s, and is in %.3f of %d evaluations", best.said(), what, best.rate(), best.of)
				}
			}
		})
	}
}
