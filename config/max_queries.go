package config

import (
	"math"
	"strconv"
)

// Flags of experiments.
const (
	maxQueriesFlag     = "--max-queries"
	maxQueriesJSONFlag = "--max-queries-json"
	parallelFlag       = "--parallel"
	maxAttemptsFlag    = "--max-attempts"
)

// ownRate is a pace of a queue's own: an entry of the file of --max-queries-json.
type ownRate struct {
	key   string // an api or a group
	model string // empty: all models that have none of their own
	most  int    // prompts a minute
	at    place
	keyAt place // of key
}

// queue is the name of the queue that has the rate.
func (r ownRate) queue() string {
	if r.model == "" {
		return r.key
	}
	return r.key + "-" + r.model
}

// defaultKey is the key for models without a rate of their own.
const defaultKey = "default"

// ownRates reads the file of --max-queries-json: an object of whole numbers, or of
// objects of them by model.
func (s *draft) ownRates(path string) []ownRate {
	text, ok := s.readText(path, maxSettings)
	if !ok {
		return nil
	}
	j := jsonText{findings: &s.findings, file: path, text: text}
	members, ok := j.object(`for example {"openai": 20, "gemini": {"default": 30, "gemini-1.5-pro": 10}}`)
	if !ok {
		return nil
	}
	var rates []ownRate
	first := map[string]ownRate{}
	add := func(r ownRate, value member) {
		if r.most, ok = j.rate(value, r.at.path); !ok {
			return
		}
		if before, twice := first[r.queue()]; twice && before.most != r.most {
			s.refuse(r.at, "say it once", "queue %s has another rate in line %d", r.queue(), before.at.line)
		}
		first[r.queue()] = r
		rates = append(rates, r)
	}
	for _, m := range members {
		if len(m.value) == 0 || m.value[0] != '{' {
			at := j.place(m.at, m.key)
			add(ownRate{key: m.key, at: at, keyAt: at}, m)
			continue
		}
		for _, of := range membersOf(m.value, m.from) {
			r := ownRate{key: m.key, model: of.key, at: j.place(of.at, m.key+"."+of.key), keyAt: j.place(m.at, m.key)}
			if of.key == defaultKey {
				r.model = ""
			}
			add(r, of)
		}
	}
	return rates
}

// rate reads a number of prompts a minute.
func (j jsonText) rate(m member, path string) (most int, ok bool) {
	n, err := strconv.Atoi(string(m.value))
	if err != nil || n < 1 || n > math.MaxInt32 {
		j.refuse(j.place(m.from, path), "want a whole number of prompts a minute, at least 1", "got %s", printable(string(m.value)))
		return 0, false
	}
	return n, true
}
