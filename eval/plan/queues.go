package plan

import "slices"

// queues maps a queue's positions to the phase's indexes.
type queues struct {
	names  []string       // that carry at least one run, sorted
	length map[string]int // runs of each queue

	// Where indexes are dealt to the judges in turn, every group of len(judges)
	// neighbouring indexes holds the same number of each queue's runs.
	judges map[string][]int // of each queue, ascending
	all    int              // judges of all queues together

	listed map[string][]int32 // indexes of each queue, of a list; nil: they are dealt
}

// dealtQueues deals the first runs indexes to the judges' queues.
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

// listedQueues puts each of the first runs into its model's queue.
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

// index is the phase's index of the queue's i-th run.
func (q queues) index(name string, i int) int {
	if q.listed != nil {
		return int(q.listed[name][i])
	}
	judges := q.judges[name]
	return i/len(judges)*q.all + judges[i%len(judges)]
}
