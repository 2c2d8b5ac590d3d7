package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scoring is what is simulated: judges score the texts of candidates whose quality is known. A text's score also depends on
// its question, on luck that all judges share, and on how strict the judge is.
type scoring struct {
	name       string
	candidates int
	apart      float64 // between neighbours, in points; drawn: normal with this deviation
	drawn      bool
	alike      int // that many neighbours are equal; 0: none
	items      int
	judges     int
	trials     int     // 0: one
	most       float64 // the scale begins at 1
	center     float64 // of the scores; 0: the middle of the scale
	own        float64 // standard deviation of a judge's errors
	constant   bool    // of a judge on a text, so that trials say the same
	lacks      float64 // share of the scores that are missing at random
	zeros      float64 // share of texts of the last candidate that get the lowest score; its others are better
}

// scorings are what coverage is measured of.
func scorings() []scoring {
	return []scoring{
		{name: "2 equal candidates, 6 items, 1 judge", candidates: 2, items: 6, judges: 1, most: 10, own: 1},
		{name: "2 equal candidates, 20 items, 1 judge", candidates: 2, items: 20, judges: 1, most: 10, own: 1},
		{name: "2 equal candidates, 20 items, 5 judges, 3 trials", candidates: 2, items: 20, judges: 5, trials: 3, most: 10, own: 1, constant: true},
		{name: "2 equal candidates, 20 items, scores of 0 or 1", candidates: 2, items: 20, judges: 1, most: 2, own: 1},
		{name: "8 equal candidates, 10 items, 2 judges", candidates: 8, items: 10, judges: 2, most: 10, own: 1},
		{name: "8 equal candidates, 30 items, 3 judges", candidates: 8, items: 30, judges: 3, most: 10, own: 1},
		{name: "8 equal candidates, 20 items, most scores 5 of 5", candidates: 8, items: 20, judges: 1, most: 5, center: 5, own: 1},
		{name: "20 equal candidates, 20 items, 1 judge", candidates: 20, items: 20, judges: 1, most: 10, own: 1},
		{name: "6 candidates .5 apart, 3 items, 2 judges", candidates: 6, apart: .5, items: 3, judges: 2, most: 10, own: 1},
		{name: "6 candidates .5 apart, 10 items, 2 judges", candidates: 6, apart: .5, items: 10, judges: 2, most: 10, own: 1},
		{name: "6 candidates .5 apart, 50 items, 2 judges", candidates: 6, apart: .5, items: 50, judges: 2, most: 10, own: 1},
		{name: "6 candidates .5 apart, 50 items, a fifth of scores missing", candidates: 6, apart: .5, items: 50, judges: 2, most: 10, own: 1, lacks: .2},
		{name: "6 candidates .5 apart, 100 items, scale of 5, high scores", candidates: 6, apart: .5, items: 100, judges: 1, most: 5, center: 4.5, own: 1},
		{name: "6 candidates drawn, 20 items, 2 judges", candidates: 6, apart: .7, drawn: true, items: 20, judges: 2, most: 10, own: 1},
		{name: "a candidate that fails on a tenth, 4 equals, 20 items", candidates: 5, items: 20, judges: 1, most: 10, own: 1, zeros: .1},
		{name: "a candidate that fails on a tenth, 4 equals, 100 items", candidates: 5, items: 100, judges: 1, most: 10, own: 1, zeros: .1},
		{name: "a candidate that fails on a twentieth, 4 equals, 12 items", candidates: 5, items: 12, judges: 1, most: 10, own: 1, zeros: .05},
		{name: "30 candidates drawn, 40 items, 1 judge", candidates: 30, apart: .7, drawn: true, items: 40, judges: 1, most: 10, own: 1},
		{name: "2 groups of 10 equals 2 apart, 30 items, 1 judge", candidates: 20, apart: 2, alike: 10, items: 30, judges: 1, most: 20, own: 1},
	}
}

// qualities of the candidates; the last is the best unless they are drawn.
func (s scoring) qualities(random *rand.Rand) []float64 {
	middle := (1 + s.most) / 2
	if s.center > 0 {
		middle = s.center
	}
	out := make([]float64, s.candidates)
	for i := range out {
		out[i] = middle + s.apart*(float64(i/max(s.alike, 1))-float64((s.candidates-1)/max(s.alike, 1))/2)
		if s.drawn {
			out[i] = middle + s.apart*random.NormFloat64()
		}
	}
	return out
}

// scores are those of some items, by candidate. Raters are judges.
func (s scoring) scores(random *rand.Rand, quality []float64, items int, strict []float64) (all []Scores) {
	for item := range items {
		hard := 1.5 * random.NormFloat64()
		for i, q := range quality {
			text := q + hard + random.NormFloat64()
			if s.zeros > 0 && i == len(quality)-1 { // of the same mean: the others are raised by what is lost
				if text += s.zeros / (1 - s.zeros) * (q - 1); random.Float64() < s.zeros {
					text = -9
				}
			}
			for judge := range s.judges {
				said := s.own * random.NormFloat64()
				one := Scores{Candidate: i, Cluster: item, Rater: judge}
				for range max(s.trials, 1) {
					score := math.Round(min(max(text+strict[judge]+said, 1), s.most))
					one.Sum, one.Count = one.Sum+score, one.Count+1
					if !s.constant {
						said = s.own * random.NormFloat64()
					}
				}
				if random.Float64() >= s.lacks {
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// truth holds the mean of each candidate's scores on many items. Equal candidates have the same.
func (s scoring) truth(quality, strict []float64) []float64 {
	const many = 20_000
	out, full := make([]float64, s.candidates), s
	full.lacks, full.trials = 0, 1
	counts := make([]float64, s.candidates)
	for _, one := range full.scores(rand.New(rand.NewPCG(3, 3)), quality, many, strict) {
		out[one.Candidate] += one.Sum
		counts[one.Candidate]++
	}
	for i := range out {
		out[i] /= counts[i]
	}
	for i := range out {
		for j := range i {
			if quality[i] == quality[j] && (s.zeros == 0 || i < s.candidates-1) {
				out[i] = out[j]
				break
			}
		}
	}
	return out
}

// scoresCovered counts how often what is known lies in what is said.
type scoresCovered struct {
	means, differences, together, alarms, ahead, tiers, contenders share
	first                                                          calibration
	width                                                          float64
	found                                                          share // real differences that a test finds
}

func (c *scoresCovered) add(t *testing.T, s scoring, truth, quality, strict []float64, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 78))
	scores := s.scores(random, quality, s.items, strict)
	m, err := MeansOf(t.Context(), s.candidates, scores, 1, s.most, Drawing{Draws: 300, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}

	const near = 0.02 // what the truth is known to
	equal := func(i, j int) bool { return math.Abs(truth[i]-truth[j]) < near }
	together, ahead := true, false
	for i := range truth {
		sums, counts := map[int]float64{}, map[int]float64{}
		for _, one := range scores {
			if one.Candidate == i {
				sums[one.Cluster] += one.Sum
				counts[one.Cluster] += float64(one.Count)
			}
		}
		var sum, count []float64
		for k, n := range counts {
			sum, count = append(sum, sums[k]), append(count, n)
		}
		_, limits := MeanOf(sum, count, 1, s.most)
		c.means.add(limits.Low <= truth[i] && truth[i] <= limits.High)

		low, high := 1, s.candidates
		for j := range truth {
			if j == i {
				continue
			}
			if truth[j] > truth[i] && !equal(i, j) {
				low++
			}
			if truth[j] < truth[i] && !equal(i, j) {
				high--
			}
			if j > i {
				continue
			}
			real := truth[i] - truth[j]
			_, limits, _ := m.Contrast(i, j)
			c.differences.add(limits.Low <= real && real <= limits.High)
			claim := float64(m.ahead(i, j, ofPair))
			c.alarms.add(claim != 0 && (equal(i, j) || claim*real < 0))
			if !equal(i, j) {
				c.found.add(claim*real > 0)
			}
		}
		together = together && m.RankLow[i] <= low && high <= m.RankHigh[i]
		ahead = ahead || m.RankHigh[i] == 1 && high > 1
		c.width += float64(m.RankHigh[i]-m.RankLow[i]+1) / float64(s.candidates)
	}
	c.together.add(together)
	c.ahead.add(ahead)

	var of covered
	u := &Uncertainty{Conclusions: m.Conclusions}
	of.addTiers(u, truth)
	c.tiers.add(of.tiers.hits == 1)
	c.contenders.add(of.contenders.hits == 1)
	if s.drawn {
		first := m.ranked[0]
		c.first.add(truth[first] == slices.Max(truth), m.Best[first])
	}
}

// TestCoverageOfScores: as TestCoverage, of what is said of mean scores.
func TestCoverageOfScores(t *testing.T) {
	t.Parallel()
	for _, s := range scorings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			evaluations := 4
			if *full {
				evaluations = *evaluationsFlag
			}
			var c scoresCovered
			random := rand.New(rand.NewPCG(1, 79))
			strict := make([]float64, s.judges)
			for k := range strict {
				strict[k] = 0.7 * random.NormFloat64()
			}
			var quality, truth []float64
			for seed := range uint64(evaluations) {
				if quality == nil || s.drawn && seed%20 == 0 { // to know the truth takes long
					quality = s.qualities(random)
					truth = s.truth(quality, strict)
				}
				c.add(t, s, truth, quality, strict, seed)
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
			t.Logf("| %s | %.3f | %.3f | %.3f | %.1f | %.3f | %.3f | %.3f | %s |", s.name, c.means.rate(), c.differences.rate(), c.together.rate(),
				c.width/float64(c.together.of), c.alarms.rate(), c.ahead.rate(), c.contenders.rate(), calibrated)
			t.Logf("tiers right %.3f, real differences found %.3f of %d", c.tiers.rate(), c.found.rate(), c.found.of)
			for what, share := range map[string]share{"limits of means": c.means, "limits of differences": c.differences} {
				if share.rate() < least {
					t.Errorf("%.3f of %d %s hold the truth, want %.3f", share.rate(), share.of, what, least)
				}
			}
			for what, share := range map[string]share{"ranks": c.together, "tiers": c.tiers, "contenders": c.contenders} {
				if share.rate() < joint {
					t.Errorf("%s are right in %.3f of the evaluations, want %.3f", what, share.rate(), joint)
				}
			}
			if c.alarms.rate() > falsely || c.ahead.rate() > falsely {
				t.Errorf("%.3f of the pairs are falsely called different, %.3f of the candidates ahead of every other; want at most %.3f",
					c.alarms.rate(), c.ahead.rate(), falsely)
			}
			if c.first.of > 0 && c.first.tooBold() > 0.02 {
				t.Errorf("the first is said to be the best with probability %.3f, and is in %.3f", c.first.said(), c.first.rate())
			}
		})
	}
}
