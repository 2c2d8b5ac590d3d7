package rank

import (
	"cmp"
	"slices"
)

// Component is a set of candidates that comparisons connect, directly or through others. Abilities in different
// components cannot be compared, because no verdict relates them.
type Component struct {
	Candidates []int // ascending

	// Separable is set if the candidates fall into two groups, one of which never lost to or tied with the other. The
	// likelihood then has no finite maximum (Ford 1957, "Solution of a ranking problem from binary comparisons").
	Separable bool

	// Regularised is set if a prior was needed to make the abilities finite. Abilities and their errors are then
	// partly an assumption (Options.Ridge).
	Regularised bool
}

// components partitions n candidates by the rows that compare them. Larger components come first; among equal ones,
// that with the smallest candidate. of holds each candidate's component.
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

// defeats returns the graph with an edge from winner to loser, and its reverse. A tie is an edge in both directions.
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

// strong returns, for each candidate, the number of its set. In a set, every candidate beat or tied with every other,
// directly or through others. Between two sets, all verdicts went one way. The sets are the strongly connected
// components of the defeats, found by Kosaraju's algorithm.
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

// visit appends the unseen nodes that are reachable from start, each after the nodes that it leads to.
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

// heights looks for numbers such that every candidate shown first has exactly one more than the one shown second. If
// they exist, a preference for the first position looks the same as these numbers. Candidates of different heights
// then cannot be compared. told is true if there are no such numbers, so that the rows can tell the preference.
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
