package simulator

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// judge is how reliably a model judges.
type judge struct {
	noise float64 // standard deviation of its error, in points of quality
	first float64 // points given to the text shown first
	own   float64 // points given to a document whose name has the model's name in it
	obeys bool    // text outside of all fences (obey.go)
}

// defaultJudge judges for models that are configured but not among judges.
const defaultJudge = "average"

var judges = map[string]judge{
	"careful":  {noise: 1.5},
	"average":  {noise: 5},
	"careless": {noise: 14, first: 6},
	"loyal":    {noise: 1.5, own: 100},
	"obedient": {noise: 1.5, obeys: true},
}

// evenly is the difference in quality below which two texts count as equally
// good where a tie may be said.
const evenly = 0.5

// verdict is what a judge says of two texts.
type verdict struct {
	winner int // 0: the first shown, 1: the second, -1: a tie
	reason string
}

// compare judges two texts in the order shown. The model's error depends on its
// name and the two texts only, so that renaming documents, or asking again,
// changes nothing.
func (j judge) compare(model, first, second string, mayTie bool) verdict {
	var readings [2]reading
	for i, text := range [2]string{first, second} {
		readings[i] = library.of(text)
	}
	difference := readings[0].quality() - readings[1].quality()
	if mayTie && math.Abs(difference) < evenly {
		return verdict{winner: -1, reason: "neither is better: " + readings[0].describe() + " in the one, " + readings[1].describe() + " in the other"}
	}
	felt := difference + j.first +
		j.noise*normal("compare", model, first, second) - j.noise*normal("compare", model, second, first)
	winner := 0
	if felt < 0 {
		winner = 1
	}
	return verdict{winner: winner, reason: advantage(readings[winner], readings[1-winner])}
}

// score judges one text by one criterion on a scale.
func (j judge) score(model, criterion, text string, lowest, highest int) (int, string) {
	r := library.of(text)
	felt := min(max(r.quality()+j.noise*normal("score", model, criterion, text), 0), 100)
	return lowest + int(math.Round(felt/100*float64(highest-lowest))), r.describe()
}

// advantage lists the winner's merits: the kinds of faults that weigh less in it, the
// weightiest first.
func advantage(winner, loser reading) string {
	gain := func(k kind) float64 { return loser.rate(k) - winner.rate(k) }
	var better []kind
	for k := range kinds {
		if gain(k) > 0 && winner.faults[k] < loser.faults[k] {
			better = append(better, k)
		}
	}
	if len(better) == 0 {
		return "reads a little better as a whole, with " + winner.describe()
	}
	slices.SortStableFunc(better, func(a, b kind) int { return cmp.Compare(gain(b), gain(a)) })
	var said []string
	for _, k := range better[:min(len(better), 2)] {
		said = append(said, fmt.Sprintf("fewer %s (%d against %d)", judged[k].name, winner.faults[k], loser.faults[k]))
	}
	return strings.Join(said, " and ")
}

// describe names the kinds of faults found, the weightiest two.
func (r reading) describe() string {
	var found []kind
	for k := range kinds {
		if r.faults[k] > 0 {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return fmt.Sprintf("no faults in %d words", r.words)
	}
	slices.SortStableFunc(found, func(a, b kind) int { return cmp.Compare(r.rate(b), r.rate(a)) })
	var said []string
	for _, k := range found[:min(len(found), 2)] {
		said = append(said, fmt.Sprintf("%s: %d", judged[k].name, r.faults[k]))
	}
	return fmt.Sprintf("%s in %d words", strings.Join(said, ", "), r.words)
}

// normal is a standard normal number decided by its arguments.
func normal(parts ...string) float64 {
	h := hashOf(parts...)
	u, v := unit(h), unit(mix(h+1))
	return math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
}

// library caches the analysis of recent texts: a document is judged many times.
var library = shelf{found: map[[sha256.Size]byte]reading{}}

type shelf struct {
	mu    sync.Mutex
	found map[[sha256.Size]byte]reading
}

// remembered texts at most; then all are forgotten.
const remembered = 20_000

func (s *shelf) of(text string) reading {
	key := sha256.Sum256([]byte(text))
	s.mu.Lock()
	r, ok := s.found[key]
	s.mu.Unlock()
	if ok {
		return r
	}
	r = read(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) >= remembered {
		clear(s.found)
	}
	s.found[key] = r
	return r
}
