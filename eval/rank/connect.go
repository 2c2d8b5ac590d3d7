package rank

import (
	"cmp"
	"slices"
)

// Component is a set of candidates that comparisons connect, directly or through
// others. Abilities of different components cannot be compared: nothing that was
// observed relates them.
type Component struct {
	Candidates []int // ascending

	// Separable is set when the candidates fall into two groups, and one never lost to, or tied
	// with, the other. The likelihood then has no finite maximum (Ford 1957, "Solution of a
	// ranking problem from binary comparisons").
	Separable bool

	// Regularised is set when a prior was needed to make the abilities finite; they
	// and their errors are then partly an assumption (Options.Ridge).
	Regularised bool
}

// components partitions n candidates by the rows that compare them, the largest
// first, then the one with the smallest candidate, and names each candidate's.
func components(n int, rows []row) (parts []Component, of []int) {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for _, r := range rows {
		parent[root(r.first)] = root(r.second)
	}

	byRoot := map[int]int{}
	for i := range n {
		k, seen := byRoot[root(i)]
		if !seen {
			k = len(parts)
			byRoot[root(i)] = k
			parts = append(parts, Component{})
		}
		parts[k].Candidates = append(parts[k].Candidates, i)
	}
	slices.SortStableFunc(parts, func(a, b Component) int {
		return cmp.Compare(len(b.Candidates), len(a.Candidates))
	})
	of = make([]int, n)
	for k, part := range parts {
		for _, i := range part.Candidates {
			of[i] = k
		}
	}

	return parts, of
}

// defeats is the graph with an edge from winner to loser, a tie being one each
// way, and the same graph turned round.
func defeats(n int, rows []row) (forward, backward [][]int32) {
	forward, backward = make([][]int32, n), make([][]int32, n)
	edge := func(winner, loser int) {
		forward[winner] = append(forward[winner], int32(loser))
		backward[loser] = append(backward[loser], int32(winner))
	}
	for _, r := range rows {
		if r.wins+r.ties > 0 {
			edge(r.first, r.second)
		}
		if r.losses+r.ties > 0 {
			edge(r.second, r.first)
		}
	}
	return forward, backward
}

// strong names, of each candidate, the set in which every candidate beat or tied with
// every other, directly or through others (a strongly connected component of the
// defeats: Kosaraju's algorithm). Between two such sets all verdicts went one way.
func strong(n int, rows []row) (of []int) {
	forward, backward := defeats(n, rows)
	var finished []int
	seen := make([]bool, n)
	for start := range n {
		finished = visit(forward, start, seen, finished)
	}
	of = make([]int, n)
	clear(seen)
	sets := 0
	for _, start := range slices.Backward(finished) {
		if seen[start] {
			continue
		}
		for _, i := range visit(backward, start, seen, nil) {
			of[i] = sets
		}
		sets++
	}
	return of
}

// visit appends the unseen nodes reachable from start, each after all that it leads to.
func visit(edges [][]int32, start int, seen []bool, finished []int) []int {
	if seen[start] {
		return finished
	}
	seen[start] = true
	type step struct{ at, next int }
	stack := []step{{at: start}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.next == len(edges[top.at]) {
			finished = append(finished, top.at)
			stack = stack[:len(stack)-1]
			continue
		}
		to := int(edges[top.at][top.next])
		top.next++
		if !seen[to] {
			seen[to] = true
			stack = append(stack, step{at: to})
		}
	}
	return finished
}

// heights gives the candidates numbers such that every one shown first has exactly one
// more than the one shown second. Where there are such numbers, a preference for the
// first position cannot be told from them, so that candidates of different heights
// cannot be compared. told: there are none, and the rows can tell the preference.
func heights(n int, rows []row) (height []int, told bool) {
	type step struct{ to, up int }
	steps := make([][]step, n)
	for _, r := range rows {
		steps[r.first] = append(steps[r.first], step{r.second, -1})
		steps[r.second] = append(steps[r.second], step{r.first, +1})
	}
	height = make([]int, n)
	seen := make([]bool, n)
	for start := range n {
		if seen[start] {
			continue
		}
		seen[start] = true
		stack := []int{start}
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, s := range steps[i] {
				switch want := height[i] + s.up; {
				case !seen[s.to]:
					seen[s.to], height[s.to] = true, want
					stack = append(stack, s.to)
				case height[s.to] != want:
					return nil, true
				}
			}
		}
	}
	return height, false
}
