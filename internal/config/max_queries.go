package config

import (
	"math"
	"slices"
	"strconv"

	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

// Flags of experiments.
const (
	maxQueriesFlag     = "--max-queries"
	maxQueriesJSONFlag = "--max-queries-json"
	parallelFlag       = "--parallel"
	maxAttemptsFlag    = "--max-attempts"
)

// ownRate is a rate in the file of --max-queries-json, with its place.
type ownRate struct {
	prompto.Rate
	at    place
	keyAt place // of the key
}

func ratesOf(own []ownRate) []prompto.Rate {
	rates := make([]prompto.Rate, len(own))
	for i, r := range own {
		rates[i] = r.Rate
	}
	return rates
}

// ownRates reads the file of --max-queries-json: an object of whole numbers, or of objects that
// hold whole numbers by model.
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
		if r.Most, ok = j.rate(value, r.at.path); !ok {
			return
		}
		if before, twice := first[r.Queue()]; twice && before.Most != r.Most {
			s.refuse(r.at, "say it once", "queue %s has a different rate in line %d", r.Queue(), before.at.line)
		}
		first[r.Queue()] = r
		rates = append(rates, r)
	}

	for _, m := range members {
		if len(m.value) == 0 || m.value[0] != '{' {
			at := j.place(m.at, m.key)
			add(ownRate{Rate: prompto.Rate{Key: m.key}, at: at, keyAt: at}, m)
			continue
		}
		for _, of := range membersOf(m.value, m.from) {
			r := ownRate{Rate: prompto.Rate{Key: m.key, Model: of.key}, at: j.place(of.at, m.key+"."+of.key), keyAt: j.place(m.at, m.key)}
			if of.key == prompto.DefaultKey {
				r.Model = ""
			}
			add(r, of)
		}
	}

	return rates
}

// rate reads a number of prompts per minute.
func (j jsonText) rate(m member, path string) (most int, ok bool) {
	n, err := strconv.Atoi(string(m.value))
	if err != nil || n < 1 || n > math.MaxInt32 {
		j.refuse(j.place(m.from, path), "want a whole number of prompts per minute, at least 1", "got %s", printable(string(m.value)))
		return 0, false
	}
	return n, true
}

// countedSender is a sender with the place of its first prompt, and its number of prompts.
type countedSender struct {
	prompto.Sender
	at      place
	prompts int
}

// unused warns about rates that apply to no prompt and are probably misspelt.
func (f *findings) unused(rates []ownRate, senders []countedSender) {
	var keys []string
	models := map[string][]string{} // by key
	for _, s := range senders {
		if models[s.Key()] == nil {
			keys = append(keys, s.Key())
		}
		if !slices.Contains(models[s.Key()], s.Model) {
			models[s.Key()] = append(models[s.Key()], s.Model)
		}
	}
	told := map[string]bool{}
	for _, r := range rates {
		asked := models[r.Key]
		switch {
		case asked == nil && !told[r.Key]:
			told[r.Key] = true
			f.warn(r.keyAt, didYouMean(r.Key, keys), "no line has this api or group")
		case asked != nil && r.Model != "" && !slices.Contains(asked, r.Model):
			f.warn(r.at, didYouMean(r.Model, asked), "no line of %s uses this model", r.Key)
		}
	}
}
