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

// Shares of one verdict have the coefficients of values, if each pair is counted with its texts exchanged, too.
func TestSharesOfOneVerdict(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	values, shares := NewAgreement(3), NewAgreement(3)
	for range 200 {
		said, exchanged, one := make([]float64, 3), make([]float64, 3), make([]Shares, 3)
		for k := range said {
			said[k], exchanged[k] = math.NaN(), math.NaN()
			if outcome := Outcome(random.IntN(4)); outcome <= Tied {
				said[k], exchanged[k] = float64(outcome), float64([]Outcome{SecondWins, FirstWins, Tied}[outcome])
				one[k] = outcome.Only()
			}
		}
		values.Add(said)
		values.Add(exchanged)
		shares.AddShares(one)
	}

	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 2e-3 { // alpha knows how many units there are
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	one, n := values.Fleiss()
	other, m := shares.Fleiss()
	near("Fleiss", other, one)
	near("alpha", shares.Alpha(Nominal), values.Alpha(Nominal))
	near("Cohen", shares.Cohen(0, 2), values.Cohen(0, 2))
	if n != 2*m || values.Units() != 2*shares.Units() {
		t.Errorf("%d of %d pairs are complete, want half of %d of %d", m, shares.Units(), n, values.Units())
	}
}

// Which text of a pair is called the first changes no coefficient, and no limit of one, although in one naming the better
// text is always called the first.
func TestNamesDoNotChangeAgreement(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	byWorth, byChance := NewClusteredAgreement(3), NewClusteredAgreement(3)
	for pair := range 120 {
		said, renamed := make([]Shares, 3), make([]Shares, 3)
		exchanged := random.IntN(2) == 1
		for k := range said {
			said[k] = [3]Shares{{1, 0, 0}, {.5, .5, 0}, {.5, 0, .5}}[min(2, random.IntN(20))*random.IntN(2)]
			if renamed[k] = said[k]; exchanged {
				renamed[k] = Shares{said[k][SecondWins], said[k][FirstWins], said[k][Tied]}
			}
		}
		byWorth.AddShares(pair, said)
		byChance.AddShares(pair, renamed)
	}

	of := func(c *ClusteredAgreement) []float64 {
		fleiss, _ := c.Fleiss()
		raw, _ := c.Raw(0, 1)
		limits := c.Limits(func(a *Agreement) float64 { return a.Cohen(1, 2) })
		return []float64{fleiss, raw, c.Cohen(0, 1), c.Alpha(Nominal), limits.Low, limits.High}
	}
	first, second := of(byWorth), of(byChance)
	for k := range first {
		if math.Abs(first[k]-second[k]) > 1e-9 {
			t.Errorf("coefficient %d is %v, and with other names %v", k, first[k], second[k])
		}
	}
	if first[0] < .4 {
		t.Errorf("Fleiss' kappa of judges who nearly always agree is %v", first[0])
	}
}
