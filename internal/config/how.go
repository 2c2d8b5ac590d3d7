package config

import (
	"math"
)

// howKeys are the keys that say how calls are made, whatever they ask, and the name.
type howKeys struct {
	retry *value
	older olderNames
}

// keys returns the functions that read the keys into a draft.
func (k *howKeys) keys(y *yamlFile, s *draft) keys {
	keep := func(into **value) func(value) {
		return func(v value) { *into = &v }
	}
	return keys{
		"name":          func(v value) { s.asked.Name, s.nameAt = y.text(v), v.place },
		"concurrency":   func(v value) { s.own = y.concurrency(v) },
		"retry":         keep(&k.retry),
		"outage":        func(v value) { s.settings.Outage = y.duration(v, 0) },
		"priority":      func(v value) { s.settings.Priority = y.integer(v, 1, math.MaxInt32) },
		"providers":     func(v value) { s.ownProviders(y, v) },
		"batch":         func(v value) { s.batch(y, v) },
		"cache":         func(v value) { s.settings.Cache = y.boolean(v) },
		"reuse":         func(v value) { s.noReuse = !y.boolean(v) || s.options.NoReuse },
		"budget":        func(v value) { s.budget = y.money(v, "budget") },
		"prices":        func(v value) { y.prices(v, s.prices) },
		"confirm_above": func(v value) { s.confirmAbove = y.money(v, "bound") },
		"llm_api":       keep(&k.older.llmAPI),
		"retries":       keep(&k.older.retries),
	}
}

// read reads the keys that refer to others, once all are known.
func (k *howKeys) read(y *yamlFile, s *draft) {
	y.retries(s.own.retry, k.retry, &s.settings.Retry)
	k.older.read(y, s, k.retry)
}
