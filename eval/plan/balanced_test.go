package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// sameCandidates gives the documents of every item the same candidates, as many as it has documents.
func sameCandidates(e *eval.Evaluation) *eval.Evaluation {
	first := 0
	for i, d := range e.Documents {
		if i > 0 && e.Documents[i-1].Item != d.Item {
			first = i
		}
		e.Documents[i].Candidate = fmt.Sprintf("c%03d", i-first)
	}
	return e
}

// tally counts how often each of some names has been compared.
type tally struct {
	times  map[string]int // by name
	having map[int]int    // number of names, by how often
}

func newTally(names []string) tally {
	t := tally{times: map[string]int{}, having: map[int]int{}}
	for _, name := range names {
		t.times[name] = 0
	}
	t.having[0] = len(t.times)
	return t
}

func (t tally) add(name string) {
	n, counted := t.times[name]
	if !counted {
		return
	}
	t.times[name] = n + 1
	t.having[n+1]++
	if t.having[n]--; t.having[n] == 0 {
		delete(t.having, n)
	}
}

// spread returns the difference between the most and the least often compared.
func (t tally) spread() int {
	least, most := -1, 0
	for n := range t.having {
		if most = max(most, n); least < 0 || n < least {
			least = n
		}
	}
	return most - least
}

// TestAnyPrefixComparesAllAboutEquallyOften counts, after each run of each queue, how often the documents of an item and
// the candidates of all items have been compared.
func TestAnyPrefixComparesAllAboutEquallyOften(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		items          []int
		judges, trials int
		order          eval.Order
		pairs          eval.Pairs
		// The greatest differences in pairs; -1: not the same candidates.
		ofItem, ofAll int
	}{
		{"one item", []int{150}, 1, 1, eval.OrderRandom, eval.Pairs{Mode: eval.PairsAll}, 2, 2},
		{"an odd number", []int{61}, 1, 1, eval.OrderAsListed, eval.Pairs{Mode: eval.PairsAll}, 2, 2},
		{"three judges, both orders, two trials", []int{16}, 3, 2, eval.OrderBoth, eval.Pairs{Mode: eval.PairsAll}, 2, 2},
		{"50 items", slices.Repeat([]int{12}, 50), 1, 1, eval.OrderRandom, eval.Pairs{Mode: eval.PairsAll}, 2, 4},
		{"50 items, an odd number", slices.Repeat([]int{13}, 50), 2, 1, eval.OrderRandom, eval.Pairs{Mode: eval.PairsAll}, 2, 2},
		{"many small items", slices.Repeat([]int{5}, 200), 1, 1, eval.OrderBoth, eval.Pairs{Mode: eval.PairsAll}, 2, 2},
		{"as many items as documents", slices.Repeat([]int{30}, 30), 1, 1, eval.OrderRandom, eval.Pairs{Mode: eval.PairsAll}, 2, 4},
		{"uneven items", []int{40, 3, 12, 1, 12, 7, 2, 40, 5}, 2, 1, eval.OrderBoth, eval.Pairs{Mode: eval.PairsAll}, 2, -1},
		{"a baseline", slices.Repeat([]int{12}, 50), 1, 1, eval.OrderBoth, eval.Pairs{Mode: eval.PairsBaseline, Baseline: "c004"}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := sameCandidates(evaluation(c.judges, c.items...))
			e.Pairwise.Order, e.Pairwise.Trials, e.Pairwise.Pairs = c.order, c.trials, c.pairs
			p := mustPlan(t, e, pairwise, queuesOf(e, "a", "b"))
			if !p.Balanced() {
				t.Fatal("the plan is not balanced")
			}

			var all []string
			byItem := make([][]string, len(e.Items))
			for _, d := range e.Documents {
				if d.Candidate != c.pairs.Baseline {
					all = append(all, d.Candidate)
					byItem[d.Item] = append(byItem[d.Item], d.ID)
				}
			}
			for _, queue := range p.Queues() {
				candidates, documents := newTally(all), make([]tally, len(byItem))
				for i, ids := range byItem {
					documents[i] = newTally(ids)
				}
				ofPair := p.Len(queue) * plan.RunsOfPair(e, 0) / p.Runs()
				for i := range p.Len(queue) {
					run := p.At(queue, i)
					if before := p.At(queue, i-i%ofPair); min(run.First, run.Second) != min(before.First, before.Second) ||
						max(run.First, run.Second) != max(before.First, before.Second) {
						t.Fatalf("run %d of queue %s compares other documents than the first of its pair", i, queue)
					}
					for _, document := range []int{run.First, run.Second} {
						d := e.Documents[document]
						candidates.add(d.Candidate)
						documents[d.Item].add(d.ID)
					}

					item := documents[e.Documents[run.First].Item]
					if apart := item.spread(); apart > c.ofItem*ofPair {
						t.Fatalf("after %d runs of queue %s, how often an item's documents were compared differs by %d, want at most %d",
							i+1, queue, apart, c.ofItem*ofPair)
					}
					if apart := candidates.spread(); c.ofAll >= 0 && apart > c.ofAll*ofPair {
						t.Fatalf("after %d runs of queue %s, how often candidates were compared differs by %d, want at most %d",
							i+1, queue, apart, c.ofAll*ofPair)
					}
				}
			}
		})
	}
}

func TestPhasesThatKeepTheOrderOfTheirIndexes(t *testing.T) {
	t.Parallel()
	limited := queuesOf(evaluation(1, 4), "q")
	limited.Limit = 5
	for name, c := range map[string]struct {
		pairs eval.Pairs
		phase int
		o     plan.Options
	}{
		"scores":         {eval.Pairs{Mode: eval.PairsAll}, single, queuesOf(evaluation(1, 4), "q")},
		"a limit":        {eval.Pairs{Mode: eval.PairsAll}, pairwise, limited},
		"listed pairs":   {eval.Pairs{Mode: eval.PairsListed, Listed: [][2]int{{3, 1}, {0, 2}}}, pairwise, queuesOf(evaluation(1, 4), "q")},
		"swiss pairing":  {eval.Pairs{Mode: eval.PairsSwiss, Share: 0.5}, pairwise, queuesOf(evaluation(1, 4), "q")},
		"a random share": {eval.Pairs{Mode: eval.PairsSample, Sample: 0.5}, pairwise, queuesOf(evaluation(1, 4), "q")},
	} {
		e := evaluation(1, 4)
		e.Pairwise.Pairs = c.pairs
		p := mustPlan(t, e, c.phase, c.o)
		if p.Balanced() {
			t.Errorf("%s: balanced, want runs in the order of their indexes", name)
		}
		asked(t, p, c.o)
		if got, want := p.Spans("q", 0, p.Runs()), [][2]int{{0, p.Runs() - 1}}; !slices.Equal(got, want) {
			t.Errorf("%s: Spans = %v, want %v", name, got, want)
		}
	}
}

func TestSpansHoldTheRunsOfARange(t *testing.T) {
	t.Parallel()
	e := evaluation(3, 400, 30, 1, 7)
	p := mustPlan(t, e, pairwise, queuesOf(e, "a", "b"))
	for _, queue := range p.Queues() {
		for _, size := range []int{0, 1, 7, 500, 5000} {
			for _, from := range []int{0, 1, 12_345, p.Len(queue) - size} {
				spans, runs := p.Spans(queue, from, from+size), 0
				for i, span := range spans {
					if runs += span[1] - span[0] + 1; span[0] > span[1] || i > 0 && span[0] <= spans[i-1][1] {
						t.Fatalf("spans %v are not ascending and apart", spans)
					}
				}
				for i := from; i < from+size; i++ {
					index := p.At(queue, i).Index
					if !slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] <= index && index <= s[1] }) {
						t.Fatalf("spans of %d runs of queue %s from %d are %v, without %d", size, queue, from, spans, index)
					}
				}
				if size == 500 && runs > 200_000 {
					t.Errorf("the spans of %d runs of queue %s from %d hold %d runs", size, queue, from, runs)
				}
			}
		}
	}
}
