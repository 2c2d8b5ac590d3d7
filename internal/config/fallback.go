package config

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// fallbackPresets holds the initial values of a fallback block by the name of the preset.
var fallbackPresets = map[string]record.Fallback{
	"balanced":     record.DefaultFallback,
	"conservative": {MaxWait: 600 * time.Second, MaxRetries: 5, Base: 1.5},
	"aggressive":   {MaxWait: 30 * time.Second, MaxRetries: 2, Base: 3},
}

// fallback reads a fallback block. The models are checked with the judges.
func (s *draft) fallback(y *yamlFile, v value) {
	f := record.DefaultFallback
	var settings []func()
	later := func(set func(value)) func(value) {
		return func(v value) { settings = append(settings, func() { set(v) }) }
	}
	named := false
	y.mapping(v, keys{
		"models": func(v value) {
			y.list(v, func(v value) {
				named = true
				target, overrides := y.fallbackModel(v)
				s.fallbackModel(&f, target, overrides, v.place)
			})
		},
		"preset": func(v value) {
			p := fallbackPresets[y.oneOf(v, []string{"balanced", "conservative", "aggressive"})]
			f.MaxWait, f.MaxRetries, f.Base = p.MaxWait, p.MaxRetries, p.Base
		},
		"auto_wait":         later(func(v value) { f.AutoWait = y.boolean(v) }),
		"max_wait_seconds":  later(func(v value) { f.MaxWait = y.maxWait(v) }),
		"max_retries":       later(func(v value) { f.MaxRetries = y.integer(v, 0, 1000) }),
		"backoff_base":      later(func(v value) { f.Base = y.backoffBase(v) }),
		"after_429_seconds": later(func(v value) { f.After429 = y.seconds(v) }),
		"on_error": later(func(v value) {
			f.AfterRetries = y.oneOf(v, []string{"immediate", "after_retries"}) == "after_retries"
		}),
	})

	for _, set := range settings { // after the preset, wherever that is written
		set()
	}
	if !named {
		s.refuse(v.key, "add models: [provider:model]", "fallback names no models")
	}
	if !slices.ContainsFunc(f.Overrides, func(own map[string]any) bool { return own != nil }) {
		f.Overrides = nil
	}
	s.settings.Fallback = &f
}

// fallbackModel reads a "provider:model", or a mapping with overrides. Within braces, the YAML library parses
// provider:model as a mapping with one key.
func (y *yamlFile) fallbackModel(v value) (target string, overrides map[string]any) {
	switch {
	case !isMapping(v.node):
		return y.text(v), nil
	case y.has(v, "model"):
		provider, model := "", ""
		y.mapping(v, keys{
			"provider":  func(v value) { provider = y.text(v) },
			"model":     func(v value) { model, _ = y.fallbackModel(v) },
			"overrides": func(v value) { overrides = y.overrides(v) },
		})
		return ofProvider(provider, model), overrides
	}

	y.entries(v, func(key string, v value) {
		if target != "" {
			y.refuse(v.key, "", "a mapping of two keys does not name a model")
		}
		model, _ := y.fallbackModel(v)
		target = key + ":" + model
	})
	return target, nil
}

// fallbackModel adds a model to the fallback.
func (s *draft) fallbackModel(f *record.Fallback, target string, overrides map[string]any, at place) {
	var judge eval.Judge
	if !s.setTarget(&judge, target, at) {
		return
	}
	for i, named := range f.Models {
		if named == judge.Target() && reflect.DeepEqual(f.Overrides[i], overrides) {
			s.refuse(at, "name each model once, or give it other overrides", "a second fallback to %s", named)
			return
		}
	}

	f.Models, f.Overrides = append(f.Models, judge.Target()), append(f.Overrides, overrides)
	s.fallbackAt = append(s.fallbackAt, at)
}

// checkFallback applies the checks of judges to fallback models.
func (s *draft) checkFallback() {
	grounded, reasoned := s.demands(s.asked.Grounded), s.demands(s.asked.Reasoned)
	for i, judge := range s.settings.Fallback.Judges() {
		s.checkAsked(s.fallbackAt[i], judge, grounded, reasoned)
	}
}

// maxWait reads a number of seconds, or none for unlimited waits.
func (y *yamlFile) maxWait(v value) time.Duration {
	if word, _ := scalar(v.node); word == "none" {
		return 0
	}
	return y.seconds(v)
}

func (y *yamlFile) backoffBase(v value) float64 {
	const most = 100
	base := y.number(v, 1, "a number from 1 to 100")
	if base > most {
		y.mismatch(v, "a number from 1 to 100")
	}
	return math.Min(base, most)
}
