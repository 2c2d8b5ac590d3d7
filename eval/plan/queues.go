package plan

import "slices"

// queues maps a queue's positions to the phase's indexes. Indexes are dealt to
// the judges in turn, so every group of len(judges) neighbouring indexes holds
// the same number of each queue's runs.
type queues struct {
	names  []string         // that carry at least one run, sorted
	judges map[string][]int // of each queue, ascending
	length map[string]int   // runs of each queue
	all    int              // judges of all queues together
}

// newQueues deals the first runs indexes to the judges' queues.
func newQueues(judgeQueues []string, runs int) queues {
	q := queues{judges: map[string][]int{}, length: map[string]int{}, all: len(judgeQueues)}
	whole, part := runs/q.all, runs%q.all
	for judge, name := range judgeQueues {
		length := whole
		if judge < part {
			length++
		}
		if length == 0 {
			continue
		}
		if q.length[name] == 0 {
			q.names = append(q.names, name)
		}
		q.judges[name] = append(q.judges[name], judge)
		q.length[name] += length
	}
	slices.Sort(q.names)
	return q
}

// index is the phase's index of the queue's i-th run.
func (q queues) index(name string, i int) int {
	judges := q.judges[name]
	return i/len(judges)*q.all + judges[i%len(judges)]
}
