package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// trustRow counts what headlines and lines of trust say of evaluations whose truth is known.
type trustRow struct {
	candidates int
	done       float64
	most       int // evaluations with -full
	right      counted
	ahead      counted // one candidate is called better than all others
	falsely    counted // and the best is another one, or all are equal
	good       counted // sound, by two to five good judges
	blind      counted // sound, by judges that do not read
	unsound    counted // unsound, by several judges that do not read
	one        counted // sound, by one judge
}

type counted struct{ hits, of int }

func (c *counted) add(hit bool) { c.hits, c.of = c.hits+one(hit), c.of+1 }

func (c *counted) plus(other counted) { c.hits, c.of = c.hits+other.hits, c.of+other.of }

func (c counted) String() string {
	if c.of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", float64(c.hits)/float64(c.of))
}

// add simulates an evaluation by one to five judges: good ones, ones of different quality and preference for a place, or
// ones that do not read.
func (row *trustRow) add(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 6))
	w := world{candidates: row.candidates, done: row.done, spread: []float64{0, 2, 6}[random.IntN(3)], shuffled: true}
	w.items = max(1, []int{20, 100}[random.IntN(2)]/(w.candidates-1))
	kind := []string{"good", "mixed", "blind"}[random.IntN(3)]
	for range 1 + random.IntN(5) {
		judge := simulated{reads: 4 + 2*random.Float64(), follows: .5 * random.NormFloat64()}
		switch kind {
		case "mixed":
			judge = simulated{reads: .5 + 5*random.Float64(), follows: random.NormFloat64()}
		case "blind":
			judge = simulated{follows: []float64{0, 5, -5}[random.IntN(3)]}
		}
		w.judges = append(w.judges, judge)
	}

	r := built(t, w.build(seed), Options{Draws: 40})
	level := r.Reliance().Level
	if soFar := strings.HasPrefix(r.Headline(), "So far, "); soFar == (w.done == 1) {
		t.Errorf("%+v: headline %q", w, r.Headline())
	}
	if w.done < 1 && level == Sound {
		t.Errorf("%+v: sound, and not complete", w)
	}
	if len(w.judges) == 1 {
		row.one.add(level == Sound)
	}
	if kind == "blind" {
		row.blind.add(level == Sound)
	}
	if w.done == 1 && len(w.judges) > 1 && r.Pairs >= 20 && (w.items == 1 || w.items >= fewItems) {
		switch kind {
		case "good":
			row.good.add(level == Sound)
		case "blind":
			row.unsound.add(level == Unsound)
		}
	}
	if len(r.Groups) != 1 || kind == "blind" { // the truth of verdicts that follow no text is that all are equal
		return
	}

	best, named := w.best(seed, r.Groups[0].Ranked), false
	for k, c := range r.Groups[0].Ranked {
		could := c.RankLow == 1
		if r.Groups[0].tiered() {
			could = slices.Contains(r.Groups[0].Contenders.Positions, k)
		}
		named = named || c.Name == best && (could || c.Rank == 1)
	}
	row.right.add(named)
	row.ahead.add(r.ahead())
	row.falsely.add(r.ahead() && (r.Groups[0].Ranked[0].Name != best || w.spread == 0 && w.items > 1))
}

// TestTrustIsRight: over evaluations that are 5 to 100 % complete, of 2 to 300 candidates by 1 to 5 judges, the headline
// names the best, or says that it could be, in 95 %. Nothing incomplete is sound, judges that do not read are hardly ever
// sound, and two or more good ones nearly always are. With -full it logs the table of docs/report.md.
func TestTrustIsRight(t *testing.T) {
	t.Parallel()
	var rows []*trustRow
	for _, size := range []struct{ candidates, most int }{{2, 60}, {3, 60}, {5, 60}, {10, 60}, {30, 20}, {100, 6}, {300, 2}} {
		for _, done := range []float64{.05, .3, .8, 1} {
			rows = append(rows, &trustRow{candidates: size.candidates, done: done, most: size.most})
		}
	}
	var all trustRow
	for _, row := range rows {
		many := row.most
		if !*full {
			many = map[bool]int{true: 6, false: 15}[testing.Short()]
			if row.done == 1 {
				many *= 3
			}
			if row.candidates > 10 {
				many = one(!testing.Short() && row.done < .5 && row.candidates < 300)
			}
		}
		for k := range many {
			row.add(t, uint64(1000*row.candidates+10_000_000*int(100*row.done)+k))
		}
		if *full {
			t.Logf("| %d candidates, %.0f %% done | %d | %s | %s | %s | %s | %s | %s |", row.candidates, 100*row.done, many,
				row.right, row.ahead, row.falsely, row.good, row.blind, row.one)
		}
		for _, sum := range []struct {
			of  *counted
			one counted
		}{{&all.right, row.right}, {&all.falsely, row.falsely}, {&all.ahead, row.ahead}, {&all.good, row.good}, {&all.blind, row.blind}, {&all.unsound, row.unsound}, {&all.one, row.one}} {
			sum.of.plus(sum.one)
		}
	}

	t.Logf("all: right %s, ahead %s, falsely %s, good and sound %s, blind and sound %s, blind and unsound %s", all.right, all.ahead, all.falsely, all.good, all.blind, all.unsound)
	for what, bounds := range map[string]struct {
		got       counted
		low, high float64
	}{
		"the headline names the best": {all.right, .94, 1}, "one is falsely called ahead of all": {all.falsely, 0, .05},
		"one judge and sound": {all.one, 0, 0}, "judges that do not read, and sound": {all.blind, 0, .02},
		"good judges, complete, and sound": {all.good, .85, 1}, "judges that do not read, complete, and unsound": {all.unsound, .85, 1},
	} {
		if share := float64(bounds.got.hits) / float64(max(1, bounds.got.of)); bounds.got.of == 0 || share < bounds.low || share > bounds.high {
			t.Errorf("%s: %d of %d, want %v to %v", what, bounds.got.hits, bounds.got.of, bounds.low, bounds.high)
		}
	}
}
