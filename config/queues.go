package config

import "slices"

// DefaultMaxQueries is how many prompts of an experiment are sent a minute, through
// each of its queues, where nothing else is said.
const DefaultMaxQueries = 10

// Queue is a line of prompts that are sent at an even pace of their own.
type Queue struct {
	Name      string
	Prompts   int // 0: it is named by --max-queries-json or by an api, and no prompt goes through it
	PerMinute int
}

// sender is what of a prompt decides through which queue it goes.
type sender struct{ group, api, model string }

// key is the sender's queue without rates of models.
func (s sender) key() string {
	if s.group != "" {
		return s.group
	}
	return s.api
}

// countedSender is a sender with its first position, and its number of prompts.
type countedSender struct {
	sender
	at      place
	prompts int
}

// queuing assigns prompts to queues: with own rates, in the order in which the tool that
// experiments come from lists them. Models named in the rates come first, then those of the
// prompts, which are listed even if each of their models has a queue of its own.
type queuing struct {
	most   int    // prompts a minute where nothing else is said
	only   string // the one queue of all prompts; empty: they are laid out
	rates  []ownRate
	queues []Queue
	at     map[string]int // positions in queues, by name
}

func newQueuing(most int, only string, rates []ownRate) *queuing {
	q := &queuing{most: most, only: only, rates: rates, at: map[string]int{}}
	if only != "" {
		q.queue(only, most)
		return q
	}
	for _, r := range rates {
		q.queue(r.queue(), r.most)
	}
	return q
}

// queue is the position of a queue, which has a rate if it is new.
func (q *queuing) queue(name string, perMinute int) int {
	if i, ok := q.at[name]; ok {
		return i
	}
	q.at[name] = len(q.queues)
	q.queues = append(q.queues, Queue{Name: name, PerMinute: perMinute})
	return len(q.queues) - 1
}

// add takes prompts of one sender in, and says through which queue they go.
func (q *queuing) add(s sender, prompts int) (name string) {
	if q.only != "" {
		q.queues[0].Prompts += prompts
		return q.only
	}
	i := q.queue(s.key(), q.most)
	ofModel := func(r ownRate) bool { return r.key == s.key() && r.model == s.model && r.model != "" }
	if own := slices.IndexFunc(q.rates, ofModel); own >= 0 {
		i = q.at[q.rates[own].queue()]
	}
	q.queues[i].Prompts += prompts
	return q.queues[i].Name
}

// unused warns about own rates that apply to no prompt and are probably misspelt.
func (f *findings) unused(rates []ownRate, senders []countedSender) {
	var keys []string
	models := map[string][]string{} // by key
	for _, s := range senders {
		if models[s.key()] == nil {
			keys = append(keys, s.key())
		}
		if !slices.Contains(models[s.key()], s.model) {
			models[s.key()] = append(models[s.key()], s.model)
		}
	}
	told := map[string]bool{}
	for _, r := range rates {
		asked := models[r.key]
		switch {
		case asked == nil && !told[r.key]:
			told[r.key] = true
			f.warn(r.keyAt, didYouMean(r.key, keys), "no line has this api or group")
		case asked != nil && r.model != "" && !slices.Contains(asked, r.model):
			f.warn(r.at, didYouMean(r.model, asked), "no line of %s asks this model", r.key)
		}
	}
}
