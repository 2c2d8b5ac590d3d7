package prompto

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// Queue is a queue of prompts that are sent at an even rate, independently of other queues.
type Queue struct {
	Name      string
	Prompts   int // 0: named by --max-queries-json or an API, but unused
	PerMinute int
}

// Sender holds the parts of a prompt that determine its queue.
type Sender struct{ Group, API, Model string }

// Key returns the name of the sender's queue, unless its model has its own rate.
func (s Sender) Key() string { return cmp.Or(s.Group, s.API) }

// Judge returns the model that a line asks. Its name contains everything in which it can differ from the models of
// other lines.
func (s Sender) Judge(provider string, parameters map[string]any, filter string) eval.Judge {
	m := eval.Judge{Provider: provider, Model: s.Model}
	m.Name = m.Target()
	if len(parameters) > 0 {
		m.Name += " " + string(wire.Encode(parameters))
	}
	if filter != "" {
		m.Name += " safety_filter " + filter
	}
	if s.API != m.Provider {
		m.Name += " as " + s.API
	}
	if s.Group != "" {
		m.Name += " in " + s.Group
	}
	m.Overrides, _ = Settings(s.API, parameters, filter)
	if len(m.Overrides) == 0 {
		m.Overrides = nil
	}
	return m
}

// Rate is the rate of a queue: an entry of the file of --max-queries-json.
type Rate struct {
	Key   string // an API or a group
	Model string // empty: all models without their own rate
	Most  int    // prompts per minute
}

// DefaultKey is the key for models without their own rate.
const DefaultKey = "default"

// Queue returns the name of the queue that the rate applies to.
func (r Rate) Queue() string {
	if r.Model == "" {
		return r.Key
	}
	return r.Key + "-" + r.Model
}

// Queues assigns prompts to queues, in the order in which prompto lists them. Queues with rates come first, then
// those of the prompts' groups and APIs. The latter are listed even if each of their models has its own queue.
type Queues struct {
	most  int    // prompts per minute without a rate
	only  string // the only queue, for all prompts; empty: several queues
	rates []Rate
	all   []Queue
	at    map[string]int // positions in all, by name
}

// NewQueues returns queues without prompts. If only is not empty it is the name of the only queue; otherwise there is
// a queue for each rate.
func NewQueues(most int, only string, rates []Rate) *Queues {
	q := &Queues{most: most, only: only, rates: rates, at: map[string]int{}}
	if only != "" {
		q.queue(only, most)
		return q
	}
	for _, r := range rates {
		q.queue(r.Queue(), r.Most)
	}
	return q
}

// All returns the queues.
func (q *Queues) All() []Queue { return q.all }

// queue returns the position of a queue. It adds a new queue, with the given rate.
func (q *Queues) queue(name string, perMinute int) int {
	if i, ok := q.at[name]; ok {
		return i
	}
	q.at[name] = len(q.all)
	q.all = append(q.all, Queue{Name: name, PerMinute: perMinute})
	return len(q.all) - 1
}

// Add adds prompts of one sender, and returns the name of their queue.
func (q *Queues) Add(s Sender, prompts int) (name string) {
	if q.only != "" {
		q.all[0].Prompts += prompts
		return q.only
	}
	i := q.queue(s.Key(), q.most)
	ofModel := func(r Rate) bool { return r.Key == s.Key() && r.Model == s.Model && r.Model != "" }
	if own := slices.IndexFunc(q.rates, ofModel); own >= 0 {
		i = q.at[q.rates[own].Queue()]
	}
	q.all[i].Prompts += prompts
	return q.all[i].Name
}

// WrittenID is the id of a line, as it was written.
type WrittenID struct {
	ID   string // empty: there is none that can name a run
	Line int
}

// Renamed counts the lines whose runs cannot have the lines' own ids.
type Renamed struct {
	Lines     int
	WrittenID        // of the first of them
	Name      string // of its run
	Taken     int    // the earlier line with the same id; 0: none
}

func (r *Renamed) note(w WrittenID, name string, taken int) {
	if r.Lines++; r.Lines == 1 {
		r.WrittenID, r.Name, r.Taken = w, name, taken
	}
}

// NameRuns returns a unique name for the run of every line. It is the line's id if no earlier line has it, otherwise
// a name with the line's number.
func NameRuns(written []WrittenID) (names []string, unnamed, repeated Renamed) {
	names = make([]string, len(written))
	taken := map[string]int{}
	for i, w := range written {
		if _, ok := taken[w.ID]; w.ID != "" && !ok {
			taken[w.ID] = w.Line
			names[i] = w.ID
		}
	}

	for i, w := range written {
		if names[i] != "" {
			continue
		}
		name := fmt.Sprintf("line %d", w.Line)
		kind := &unnamed
		if w.ID != "" {
			kind, name = &repeated, fmt.Sprintf("%s (%s)", w.ID, name)
		}
		for _, ok := taken[name]; ok; _, ok = taken[name] {
			name += "'"
		}
		kind.note(w, name, taken[w.ID])
		taken[name] = w.Line
		names[i] = name
	}

	return names, unnamed, repeated
}

// SortForOllama sorts the prompts for Ollama by their models, so that a server loads each model once. Prompts for
// other APIs keep their positions. sender returns the sender of a model's prompts.
func SortForOllama(prompts []eval.Prompt, sender func(model int) Sender) {
	var at []int
	var sorted []eval.Prompt
	for i, p := range prompts {
		if sender(p.Model).API == "ollama" {
			at, sorted = append(at, i), append(sorted, p)
		}
	}
	slices.SortStableFunc(sorted, func(a, b eval.Prompt) int {
		return cmp.Compare(sender(a.Model).Model, sender(b.Model).Model)
	})
	for i, p := range sorted {
		prompts[at[i]] = p
	}
}
