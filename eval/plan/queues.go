package plan

import "slices"

// queues maps positions in a queue to indexes of the phase.
type queues struct {
	names  []string       // with at least one run, sorted
	length map[string]int // runs of each queue

	// If judges take turns, every group of len(judges) consecutive indexes has the same number of runs of each queue.
	judges map[string][]int // of each queue, ascending
	all    int              // judges of all queues together

	listed map[string][]int32 // indexes of each queue, for listed runs; nil: judges take turns

	balanced *balanced // the order of pairs; nil: indexes rise
	perJudge int       // runs of each judge for a pair
}

// dealtQueues assigns the first runs to the queues of the judges, which take turns.
func dealtQueues(judgeQueues []string, runs int) queues {
	q := queues{judges: map[string][]int{}, length: map[string]int{}, all: len(judgeQueues)}
	for judge, length := range dealt(q.all, runs) {
		if length == 0 {
			continue
		}
		name := judgeQueues[judge]
		if q.length[name] == 0 {
			q.names = append(q.names, name)
		}
		q.judges[name] = append(q.judges[name], judge)
		q.length[name] += length
	}
	slices.Sort(q.names)
	return q
}

// listedQueues assigns each of the first runs to the queue of its model.
func listedQueues(modelQueues []string, l list, runs int) queues {
	q := queues{listed: map[string][]int32{}, length: map[string]int{}}
	for index := range runs {
		q.length[modelQueues[l.at(index).Judge]]++
	}
	for name, length := range q.length {
		q.names = append(q.names, name)
		q.listed[name] = make([]int32, 0, length)
	}
	for index := range runs {
		name := modelQueues[l.at(index).Judge]
		q.listed[name] = append(q.listed[name], int32(index))
	}
	slices.Sort(q.names)
	return q
}

// index returns the phase's index of the queue's i-th run.
func (q queues) index(name string, i int) int {
	if q.listed != nil {
		return int(q.listed[name][i])
	}
	judges := q.judges[name]
	group := i / len(judges)
	if q.balanced != nil {
		group = q.balanced.at(group/q.perJudge)*q.perJudge + group%q.perJudge
	}
	return group*q.all + judges[i%len(judges)]
}

// near is the greatest distance of indexes that are in one span.
const near = 256

// spans returns the ranges of indexes of pairs with runs in a balanced queue from one position to another.
func (q queues) spans(name string, from, to int) [][2]int {
	size := q.perJudge * q.all // runs of a pair
	of := q.perJudge * len(q.judges[name])
	var first []int
	for place := from / of; place <= (to-1)/of; place++ {
		first = append(first, q.balanced.at(place)*size)
	}
	slices.Sort(first)

	var spans [][2]int
	for _, index := range first {
		if n := len(spans); n > 0 && index-spans[n-1][1] <= near {
			spans[n-1][1] = index + size - 1
			continue
		}
		spans = append(spans, [2]int{index, index + size - 1})
	}
	return spans
}
