package prompto

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/internal/wire"
)

// Queue is a line of prompts that are sent at an even pace of their own.
type Queue struct {
	Name      string
	Prompts   int // 0: it is named by --max-queries-json or by an api, and no prompt goes through it
	PerMinute int
}

// Sender is the part of a prompt that decides through which queue it goes.
type Sender struct{ Group, API, Model string }

// Key returns the sender's queue without rates of models.
func (s Sender) Key() string { return cmp.Or(s.Group, s.API) }

// Judge returns the model that a line asks, named after everything in which it can differ from
// the models of other lines.
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

// Rate is a pace of a queue's own: an entry of the file of --max-queries-json.
type Rate struct {
	Key   string // an api or a group
	Model string // empty: all models that have none of their own
	Most  int    // prompts a minute
}

// DefaultKey is the key for models without a rate of their own.
const DefaultKey = "default"

// Queue returns the name of the queue that has the rate.
func (r Rate) Queue() string {
	if r.Model == "" {
		return r.Key
	}
	return r.Key + "-" + r.Model
}

// Queues assigns prompts to queues: with own rates, in the order in which prompto lists them.
// Models named in the rates come first, then those of the prompts, which are listed even if
// each of their models has a queue of its own.
type Queues struct {
	most  int    // prompts a minute where nothing else is said
	only  string // the one queue of all prompts; empty: they are laid out
	rates []Rate
	all   []Queue
	at    map[string]int // positions in all, by name
}

// NewQueues returns queues without prompts: one called only, or where that is empty those of
// the rates.
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

// queue is the position of a queue, which has a rate if it is new.
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

// WrittenID is the id of a line.
type WrittenID struct {
	ID   string // empty: none that can name a run
	Line int
}

// Renamed are lines whose runs cannot have the lines' own ids.
type Renamed struct {
	Lines     int
	WrittenID        // of the first of them
	Name      string // of its run
	Taken     int    // the line before that has the id; 0: none
}

func (r *Renamed) note(w WrittenID, name string, taken int) {
	if r.Lines++; r.Lines == 1 {
		r.WrittenID, r.Name, r.Taken = w, name, taken
	}
}

// NameRuns returns a unique name for the run of every line: its id, if no earlier line has it,
// or else one made of the line's number.
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

// SortForOllama sorts prompts for Ollama by their models, among the positions that they
// have, so that a server loads each model once. senders are those of the prompts' models.
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
