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

	// Separable is set when the candidates fall into two groups of which one never
	// lost to, or tied with, the other. The likelihood then has no finite maximum
	// (Ford 1957, "Solution of a ranking problem from binary comparisons").
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

	forward, backward := defeats(n, rows)
	for k := range parts {
		size := len(parts[k].Candidates)
		start := parts[k].Candidates[0]
		parts[k].Separable = reach(forward, start) < size || reach(backward, start) < size
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

// reach counts the candidates that can be reached from start. A component is
// strongly connected when one of its candidates reaches all and is reached by all.
func reach(edges [][]int32, start int) int {
	seen := make([]bool, len(edges))
	seen[start] = true
	stack, count := []int32{int32(start)}, 1
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, j := range edges[i] {
			if !seen[j] {
				seen[j] = true
				count++
				stack = append(stack, j)
			}
		}
	}
	return count
}

// tellsOrder reports whether a judge's rows can tell a preference for the first
// position from differences between candidates. They cannot when numbers can be
// given to the candidates such that every one shown first has exactly one more
// than the one shown second: the preference is then indistinguishable from those
// numbers.
func tellsOrder(n int, rows []row) bool {
	type step struct{ to, up int }
	steps := make([][]step, n)
	for _, r := range rows {
		steps[r.first] = append(steps[r.first], step{r.second, -1})
		steps[r.second] = append(steps[r.second], step{r.first, +1})
	}
	height, seen := make([]int, n), make([]bool, n)
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
					return true
				}
			}
		}
	}
	return false
}
