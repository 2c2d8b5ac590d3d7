package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// simulated is a judge whose verdicts depend on the texts and on their order, each in log-odds.
type simulated struct {
	reads, follows float64
	model          string // empty: one of its own
}

// world is an evaluation with a known truth. Candidate k is better than k+1 by the same difference, over all about
// spread; items change a text's quality at random.
type world struct {
	candidates, items int
	spread            float64
	judges            []simulated
	done              float64                               // share of the pairs that have verdicts; 0: all
	wins              func(first, second, item int) float64 // log-odds that replace the qualities
	votes             int                                   // pairs that a person voted on
	reads             float64                               // of the person; negative: prefers the worse text
	fails             func(first, second, run int) bool     // by candidate
	change            func(*memory)
	shuffled          bool // pairs are asked about in random order
}

// qualities of the documents, item by item.
func (w world) qualities(random *rand.Rand) []float64 {
	quality := make([]float64, w.candidates*w.items)
	for d := range quality {
		quality[d] = -w.spread*float64(d%w.candidates)/float64(max(1, w.candidates-1)) + .7*random.NormFloat64()
	}
	return quality
}

// best is the best of the ranked candidates, or the first of equals. Of one item, the best text is that of the best
// candidate.
func (w world) best(seed uint64, ranked []Ranked) string {
	quality := w.qualities(rand.New(rand.NewPCG(seed, 11)))
	best, most := "", math.Inf(-1)
	for k, name := range names(w.candidates) {
		of := -w.spread * float64(k)
		if w.items == 1 {
			of = quality[k]
		}
		if of > most && slices.ContainsFunc(ranked, func(c Ranked) bool { return c.Name == name }) {
			best, most = name, of
		}
	}
	return best
}

func (w world) build(seed uint64) *memory {
	random := rand.New(rand.NewPCG(seed, 11))
	items := make([]string, w.items)
	for k := range items {
		items[k] = fmt.Sprintf("q%03d", k)
	}
	judges := make([]string, len(w.judges))
	for k := range judges {
		judges[k] = fmt.Sprintf("judge-%d", k)
	}
	e := plan(names(w.candidates), items, judges...)
	for k, j := range w.judges {
		if j.model != "" {
			e.Judges[k].Model = j.model
		}
	}
	m := sourceOf(e)
	counts := results.PhaseCounts{Kind: eval.KindPairwise, Classes: map[string]int{}}
	quality := w.qualities(random)

	pairs := w.items * w.candidates * (w.candidates - 1) / 2
	left, voted := pairs, 0
	asked := make([]bool, pairs)
	if w.done > 0 {
		left = int(math.Ceil(w.done * float64(pairs)))
	}
	places := make([]int, pairs)
	for k := range places {
		places[k] = k
	}
	if w.shuffled {
		places = random.Perm(pairs)
	}
	for _, k := range places[:left] {
		asked[k] = true
	}
	place := 0
	for item := range w.items {
		for i := range w.candidates {
			for k := i + 1; k < w.candidates; k++ {
				counts.Runs += 2 * len(judges)
				if place++; !asked[place-1] {
					continue
				}
				one, other := item*w.candidates+i, item*w.candidates+k
				better := quality[one] - quality[other]
				if w.wins != nil {
					better = w.wins(i, k, item)
				}
				for j, judge := range w.judges {
					for order := range 2 {
						first, second := e.Documents[one], e.Documents[other]
						if order == 1 {
							first, second = second, first
						}
						winner := e.Documents[other].ID
						if random.Float64() < logistic(judge.reads*better+judge.follows*float64(1-2*order)) {
							winner = e.Documents[one].ID
						}
						if w.fails != nil && w.fails(i, k, counts.Succeeded+counts.Failed) {
							m.failed = append(m.failed, results.RunRow{Run: record.Run{
								Index: counts.Succeeded + counts.Failed, Kind: eval.KindPairwise, State: "failed", Judge: judges[j], Model: e.Judges[j].Target(),
								Documents: []string{first.ID, second.ID}, Class: providers.Timeout, Trial: 1,
							}})
							counts.Failed++
							continue
						}
						m.verdict(j, first.ID, second.ID, winner, "r")
						counts.Succeeded++
					}
				}
				if voted < w.votes {
					voted++
					winner := e.Documents[other].ID
					if random.Float64() < logistic(w.reads*better) {
						winner = e.Documents[one].ID
					}
					m.vote("ann", e.Documents[one].ID, e.Documents[other].ID, winner)
				}
			}
		}
	}

	m.counts = []results.PhaseCounts{counts}
	if counts.Runs > counts.Succeeded+counts.Failed {
		m.evaluation.Finished = time.Time{}
	}
	if w.change != nil {
		w.change(m)
	}
	return m
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
