package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// followers are two judges of so many pairs in both orders. Their verdicts depend on the texts as much as `reads` says,
// and on the order as much as `follows` says, both in log-odds. It returns their verdicts by pair, judge and order, in
// terms of the texts.
func followers(random *rand.Rand, pairs int, reads, follows float64) [][2][2]Outcome {
	all := make([][2][2]Outcome, pairs)
	for p := range all {
		better := random.NormFloat64()
		for judge := range 2 {
			for order := range 2 {
				odds := reads*better + follows*float64(1-2*order)
				if random.Float64() > 1/(1+math.Exp(-odds)) {
					all[p][judge][order] = SecondWins
				}
			}
		}
	}
	return all
}

// kappas returns four ways to compare two judges: without the pairs on which one contradicts itself, with such a
// verdict as a tie, verdict by verdict in the same order, and as AddShares does.
func kappas(all [][2][2]Outcome) (without, asTies, inOrder, crossed float64) {
	var by [4]*Agreement
	for k := range by {
		by[k] = NewAgreement(2)
	}
	for _, said := range all {
		consistent, tied, shares := make([]float64, 2), make([]float64, 2), make([]Shares, 2)
		for judge, both := range said {
			consistent[judge], tied[judge] = float64(both[0]), float64(both[0])
			if both[0] != both[1] {
				consistent[judge], tied[judge] = math.NaN(), float64(Tied)
			}
			shares[judge][both[0]] += .5
			shares[judge][both[1]] += .5
		}
		by[0].Add(consistent)
		by[1].Add(tied)
		for order := range 2 {
			by[2].Add([]float64{float64(said[0][order]), float64(said[1][order])})
		}
		by[3].AddShares(shares)
	}
	return by[0].Cohen(0, 1), by[1].Cohen(0, 1), by[2].Cohen(0, 1), by[3].Cohen(0, 1)
}

// TestAgreementCountsFlips: judges that only follow the order agree by chance, and the more the order decides, the less
// they agree. Of four definitions, only that of AddShares has both properties.
func TestAgreementCountsFlips(t *testing.T) {
	t.Parallel()
	const pairs = 4000
	orders := []float64{0, 1, 2, 4}
	for _, reads := range []float64{0, 3} {
		var by [4][]float64
		for _, follows := range orders {
			without, asTies, inOrder, crossed := kappas(followers(rand.New(rand.NewPCG(3, uint64(10*reads+follows))), pairs, reads, follows))
			for k, kappa := range []float64{without, asTies, inOrder, crossed} {
				by[k] = append(by[k], kappa)
			}
		}
		t.Logf("texts %v, order %v: kappa without flips %.2f, as ties %.2f, in the same order %.2f, of all verdicts %.2f", reads, orders, by[0], by[1], by[2], by[3])

		for k, kappa := range by[3] {
			if reads == 0 && math.Abs(kappa) > .05 {
				t.Errorf("judges that do not read, order %v: kappa %.2f, want chance", orders[k], kappa)
			}
			if reads > 0 && k > 0 && kappa > by[3][k-1]-.02 {
				t.Errorf("order %v: kappa %.2f, want less than the %.2f of %v", orders[k], kappa, by[3][k-1], orders[k-1])
			}
		}
		if last := len(orders) - 1; reads == 0 && by[2][last] < .5 {
			t.Errorf("in the same order: kappa %.2f of judges that do not read, so the choice needs another reason", by[2][last])
		} else if reads > 0 && by[0][last] < by[0][0]+.1 {
			t.Errorf("without flips: kappa %.2f, and %.2f of judges that follow the order, so the choice needs another reason", by[0][0], by[0][last])
		}
	}
}

// A judge that always prefers the first text agrees with another of its kind on half of its verdicts, which is chance.
func TestAgreementOfPositions(t *testing.T) {
	t.Parallel()
	a := NewAgreement(3)
	for range 60 {
		a.AddShares([]Shares{{.5, .5, 0}, {.5, .5, 0}, {.5, .5, 0}})
	}
	raw, units := a.Raw(0, 1)
	fleiss, complete := a.Fleiss()
	if raw != .5 || units != 60 || a.Cohen(0, 1) != 0 || fleiss != 0 || complete != 60 || math.Abs(a.Alpha(Nominal)) > .01 {
		t.Errorf("raw %v of %d, Cohen %v, Fleiss %v of %d, alpha %v; want half, and kappas of 0", raw, units, a.Cohen(0, 1), fleiss, complete, a.Alpha(Nominal))
	}
}

// Verdicts that are all alike have the same coefficients whether they are values or shares.
func TestSharesOfOneVerdict(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	values, shares := NewAgreement(3), NewAgreement(3)
	for range 200 {
		said, one := make([]float64, 3), make([]Shares, 3)
		for k := range said {
			if outcome := Outcome(random.IntN(4)); outcome > Tied {
				said[k] = math.NaN()
			} else {
				said[k], one[k] = float64(outcome), outcome.Only()
			}
		}
		values.Add(said)
		shares.AddShares(one)
	}
	one, n := values.Fleiss()
	other, m := shares.Fleiss()
	if one != other || n != m || values.Alpha(Nominal) != shares.Alpha(Nominal) || values.Cohen(0, 2) != shares.Cohen(0, 2) {
		t.Errorf("Fleiss %v of %d, %v of %d; alpha %v, %v", one, n, other, m, values.Alpha(Nominal), shares.Alpha(Nominal))
	}
}
