package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// anchorJudge is a judge by the probabilities of its verdicts: of each anchor in each order, that the first text wins.
type anchorJudge [][2]float64

// newAnchorJudge returns a judge of so many anchors that contradicts itself as often as unsure says if it is asked again, and
// that often follows the order.
func newAnchorJudge(random *rand.Rand, anchors int, unsure float64) anchorJudge {
	j := make(anchorJudge, anchors)
	for i := range j {
		sure := func() float64 { // 2·p·(1−p) is unsure on average
			p := (1 - math.Sqrt(1-2*min(unsure*2*random.Float64(), .5))) / 2
			if random.IntN(2) == 0 {
				p = 1 - p
			}
			return p
		}
		p := sure()
		if j[i] = [2]float64{p, p}; random.Float64() < .3 {
			j[i][1] = sure()
		}
	}
	return j
}

// replaced returns a judge that prefers the other text of a share of the anchors.
func (j anchorJudge) replaced(random *rand.Rand, share float64) anchorJudge {
	other := slices.Clone(j)
	for i := range other {
		if random.Float64() < share {
			other[i] = [2]float64{1 - other[i][0], 1 - other[i][1]}
		}
	}
	return other
}

// asked returns the judge's verdicts at one time, with failed runs.
func (j anchorJudge) asked(random *rand.Rand, failed float64) string {
	var letters []byte
	for _, p := range j {
		for _, first := range p {
			letter := byte('2')
			if random.Float64() < first {
				letter = '1'
			}
			if random.Float64() < failed {
				letter = '-'
			}
			letters = append(letters, letter)
		}
	}
	return string(letters)
}

// Of evaluations whose three judges are as before, at most DriftAlarm call one changed, for judges that are sure and judges
// that are not, after two and after more times, and also if runs fail.
func TestDriftRarelyAlarms(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const rounds, judges = 800, 3
	for _, of := range []struct {
		anchors, times int
		unsure, failed float64
	}{{30, 3, .1, 0}, {30, 3, .3, 0}, {60, 4, .1, .05}, {60, 6, .2, 0}, {10, 3, .4, 0}, {60, 3, .01, 0}} {
		alarms := 0
		for range rounds {
			said := make([][]string, of.times)
			for range judges {
				judge := newAnchorJudge(random, of.anchors, of.unsure)
				for at := range said {
					said[at] = append(said[at], judge.asked(random, of.failed))
				}
			}
			last := Drifts(said)[of.times-1]
			if slices.ContainsFunc(last, func(d Drift) bool { return d.State == DriftChanged }) {
				alarms++
			}
		}
		rate, error3 := float64(alarms)/rounds, 3*math.Sqrt(DriftAlarm*(1-DriftAlarm)/rounds)
		t.Logf("%+v: %.2f %% of evaluations raise an alarm", of, 100*rate)
		if rate > DriftAlarm+error3 {
			t.Errorf("%+v: %.2f %% of evaluations raise an alarm, want at most %.0f %%", of, 100*rate, 100*DriftAlarm)
		}
	}
}

// The power that docs/which-judge.md names: how often a judge is found that changes 20 % of its verdicts.
func TestDriftIsFound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	const rounds = 1000
	for _, of := range []struct {
		anchors, before int
		unsure, want    float64
	}{{50, 2, 0, .95}, {50, 2, .05, .8}, {100, 2, .1, .9}, {50, 5, .1, .8}, {30, 5, .05, .8}, {30, 2, .05, .4}} {
		found, steady := 0, 0
		for range rounds {
			judge := newAnchorJudge(random, of.anchors, of.unsure)
			var said [][]string
			for range of.before {
				said = append(said, []string{judge.asked(random, 0)})
			}
			said = append(said, []string{judge.replaced(random, .2).asked(random, 0)})
			switch Drifts(said)[of.before][0].State {
			case DriftChanged:
				found++
			case DriftSteady:
				steady++
			case DriftUnknown:
			}
		}
		t.Logf("%d anchors, %d times before, %.0f %% of verdicts usually differ: found in %.1f %%, called steady in %.1f %%",
			of.anchors, of.before, 100*of.unsure, float64(found)/rounds*100, float64(steady)/rounds*100)
		if power := float64(found) / rounds; power < of.want {
			t.Errorf("%+v: found in %.1f %%, want %.0f %%", of, 100*power, 100*of.want)
		}
		if rate := float64(steady) / rounds; rate > .05+3*math.Sqrt(.05*.95/rounds) {
			t.Errorf("%+v: called steady in %.1f %%, want at most 5 %%", of, 100*rate)
		}
	}
}

// Nothing is said about judges with too few times or anchors, or none in common. After a change, a judge is compared with
// itself as it is since.
func TestDriftNeedsEvidence(t *testing.T) {
	t.Parallel()
	many := func(pair string, n int) (out string) {
		for range n {
			out += pair
		}
		return out
	}
	states := func(times ...string) (out []DriftState) {
		var said [][]string
		for _, one := range times {
			said = append(said, []string{one})
		}
		for _, of := range Drifts(said) {
			out = append(out, of[0].State)
		}
		return out
	}
	const u, s, c = DriftUnknown, DriftSteady, DriftChanged
	old, other, few := many("11", 40), many("11", 25)+many("22", 15), many("11", 8)
	for _, tt := range []struct {
		times []string
		want  []DriftState
	}{
		{[]string{old}, []DriftState{u}},
		{[]string{old, old}, []DriftState{u, u}},
		{[]string{old, other}, []DriftState{u, u}},
		{[]string{old, old, old}, []DriftState{u, u, s}},
		{[]string{old, old, other}, []DriftState{u, u, c}},
		{[]string{old, old, other, other, other}, []DriftState{u, u, c, u, s}},
		{[]string{old, old, other, other, old}, []DriftState{u, u, c, u, c}},
		{[]string{few, few, few}, []DriftState{u, u, u}},
		{[]string{old, old, many("--", 40)}, []DriftState{u, u, u}},
		{[]string{old, "", old, "", other}, []DriftState{u, u, u, u, c}},
		{[]string{"", "", old}, []DriftState{u, u, u}},
	} {
		if got := states(tt.times...); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%.40q: %v, want %v", tt.times, got, tt.want)
		}
	}
}

// The example of Holm's method by hand: 0.01·4, 0.02·3, and values that do not fall.
func TestHolm(t *testing.T) {
	t.Parallel()
	got := fmt.Sprintf("%.2f", Holm([]float64{.03, .01, math.NaN(), .04, .02}))
	if got != "[0.06 0.04 NaN 0.06 0.06]" {
		t.Errorf("adjusted p-values are %s", got)
	}
}
