package rank

import (
	"maps"
	"math"
)

const (
	jackknifeGroups = 60
	// mostJackknifed is the largest number of raters for which coefficients get limits.
	mostJackknifed = 30
)

// ClusteredAgreement is an Agreement whose coefficients have limits. Units of a cluster may depend on each other in
// any way. It takes the memory of an Agreement for each of up to 60 groups of clusters. It is not safe for concurrent
// use.
type ClusteredAgreement struct {
	Agreement
	groups  map[int]*Agreement // by the cluster modulo jackknifeGroups
	without []*Agreement       // everything but each group; nil: not computed yet
}

// NewClusteredAgreement returns an empty comparison of raters 0 to raters−1.
func NewClusteredAgreement(raters int) *ClusteredAgreement {
	return &ClusteredAgreement{Agreement: *NewAgreement(raters), groups: map[int]*Agreement{}}
}

// Add adds a unit of a cluster; see Agreement.Add.
func (c *ClusteredAgreement) Add(cluster int, values []float64) {
	c.Agreement.Add(values)
	if group := c.group(cluster); group != nil {
		group.Add(values)
	}
}

// AddShares adds a pair of texts of a cluster; see Agreement.AddShares.
func (c *ClusteredAgreement) AddShares(cluster int, said []Shares) {
	c.Agreement.AddShares(said)
	if group := c.group(cluster); group != nil {
		group.AddShares(said)
	}
}

// group returns the agreement of the group of a cluster; nil if there are no limits.
func (c *ClusteredAgreement) group(cluster int) *Agreement {
	if c.raters > mostJackknifed {
		return nil
	}
	c.without = nil
	group := cluster % jackknifeGroups
	if c.groups[group] == nil {
		c.groups[group] = NewAgreement(c.raters)
	}
	return c.groups[group]
}

// Groups returns the number of groups of clusters that have units, at most 60. With fewer clusters than that, it is
// hardly ever less than their number. It is the number of units if there are too many raters for limits.
func (c *ClusteredAgreement) Groups() int {
	if c.raters > mostJackknifed {
		return c.Units()
	}
	return len(c.groups)
}

// Limits returns the limits of a coefficient at 95 %, between −1 and 1. It leaves out one group of clusters after
// another (Kott 2001, "The delete-a-group jackknife"), and uses Student's t for their number. Limits are NaN with
// fewer than two groups, or if the coefficient does not exist without some group. They are also NaN if the
// coefficient is the same without any group: its error is then unknown, not 0.
func (c *ClusteredAgreement) Limits(of func(*Agreement) float64) Limits {
	none := Limits{math.NaN(), math.NaN(), math.NaN()}
	if len(c.groups) < 2 {
		return none
	}

	if c.without == nil {
		for k := range jackknifeGroups {
			if c.groups[k] != nil {
				c.without = append(c.without, c.lessGroup(c.groups[k]))
			}
		}
	}

	var values []float64
	for _, a := range c.without {
		values = append(values, of(a))
	}
	return jackknifed(of(&c.Agreement), values)
}

// jackknifed returns the limits of a coefficient whose values without one group after another are given. They are NaN if
// there are fewer than two, or if all are equal.
func jackknifed(at float64, values []float64) Limits {
	groups, mean := float64(len(values)), 0.0
	for _, value := range values {
		mean += value / groups
	}
	variance := 0.0
	for _, value := range values {
		variance += (value - mean) * (value - mean) * (groups - 1) / groups
	}
	if groups < 2 || !(variance > nothing) {
		return Limits{math.NaN(), math.NaN(), math.NaN()}
	}
	se := math.Sqrt(variance)
	times := student(groups - 1).Quantile(1 - level/2)
	return Limits{SE: se, Low: max(at-times*se, -1), High: min(at+times*se, 1)}
}

// lessGroup returns the agreement without the units of a group.
func (c *ClusteredAgreement) lessGroup(group *Agreement) *Agreement {
	a := &Agreement{
		raters: c.raters, pairs: maps.Clone(c.pairs), coincidences: maps.Clone(c.coincidences), given: maps.Clone(c.given),
		shared: c.shared - group.shared, complete: c.complete - group.complete, same: c.same - group.same,
	}
	for raters, table := range group.pairs {
		a.pairs[raters] = maps.Clone(a.pairs[raters])
		less(a.pairs[raters], table)
	}
	less(a.coincidences, group.coincidences)
	less(a.given, group.given)
	return a
}

// less subtracts counts from others, and deletes those that differ from 0 only by rounding.
func less[K comparable](from, counts map[K]float64) {
	for key, n := range counts {
		if from[key] -= n; math.Abs(from[key]) < 1e-9 {
			delete(from, key)
		}
	}
}
