package config

import (
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// defaultJSONify is the model that turns prose answers into JSON if the evaluation names none.
var defaultJSONify = eval.Jsonify{Provider: "openai", Model: "gpt-4.1-mini"}

// jsonify reads a jsonify block over the default.
func (y *yamlFile) jsonify(v value) *eval.Jsonify {
	j := defaultJSONify
	provider, model := false, false
	y.mapping(v, keys{
		"provider": func(v value) { j.Provider, provider = catalog.Canonical(y.text(v)), true },
		"model":    func(v value) { j.Model, model = y.called(v), true },
		"temperature": func(v value) {
			t := y.number(v, 0, "a number, at least 0")
			j.Temperature = &t
		},
		"max_output_tokens": func(v value) { j.MaxOutputTokens = y.integer(v, 1, math.MaxInt32) },
	})
	if provider && !model {
		y.refuse(v.key, "add model", "jsonify has a provider but no model")
	}
	return &j
}

// setJsonify makes sure that a suitable model writes the JSON for models that cannot return it in
// the call that searches.
func (s *draft) setJsonify() {
	first, needed := s.inTwo()
	j := s.asked.Jsonify
	for i, judge := range s.settings.Fallback.Judges() {
		switch {
		case !s.takesTwo(judge):
		case j == nil && !needed: // fallback models are not part of the identity
			s.refuse(s.fallbackAt[i], "add jsonify: {provider: openai, model: gpt-4.1-mini}",
				"%s cannot produce the requested JSON in one call", judge.Target())
		default:
			needed = true
		}
	}

	switch {
	case j == nil && !needed:
		return
	case j == nil:
		byDefault := defaultJSONify
		j, s.jsonifyAt = &byDefault, s.top
		s.asked.Jsonify = j
		s.warn(s.top, "set another model under jsonify, or set json: false",
			"%s cannot produce the requested JSON in one call: %s:%s writes it in a second one", first.Target(), j.Provider, j.Model)
	case !needed && !slices.ContainsFunc(plan.Phases(&s.asked), func(kind eval.Kind) bool { return s.asked.JSONOf(kind) != eval.JSONFalse }):
		s.warn(s.jsonifyAt, "add json: auto, or remove jsonify", "answers are prose, so jsonify is not used")
	case !needed:
		s.warn(s.jsonifyAt, "remove it", "all models return JSON in one call, so jsonify has no effect")
	}

	writer := eval.Judge{Provider: j.Provider, Model: j.Model}
	if can, ok := s.reachable(s.jsonifyAt, writer); ok && can.JSON == providers.JSONNone {
		s.refuse(s.jsonifyAt, "use a model that has it, for example jsonify: {provider: openai, model: gpt-4.1-mini}",
			"%s has no structured output, so it cannot write the JSON of answers", writer.Target())
	}
}

// takesTwo reports whether a model needs two calls for any of its verdicts.
func (s *draft) takesTwo(judge eval.Judge) bool {
	return slices.ContainsFunc(plan.Phases(&s.asked), func(kind eval.Kind) bool { return twoCalls(&s.asked, s.known, kind, judge) })
}

// inTwo returns the first judge that needs two calls for a verdict.
func (s *draft) inTwo() (first eval.Judge, found bool) {
	for _, kind := range plan.Phases(&s.asked) {
		for _, judge := range s.asked.JudgesOf(kind) {
			if twoCalls(&s.asked, s.known, kind, judge) {
				return judge, true
			}
		}
	}
	return eval.Judge{}, false
}

func twoCalls(e *eval.Evaluation, known map[string]catalog.Entry, kind eval.Kind, judge eval.Judge) bool {
	entry, ok := known[judge.Provider]
	mode := e.JSONOf(kind)
	return ok && mode != eval.JSONFalse && entry.Capabilities(judge.Model).TwoCalls(e.Grounded(kind), mode == eval.JSONTrue)
}

// TwoCalls reports whether an answer of a judge or listed run needs two calls: one for the answer
// in prose, and one to the model of Evaluation.Jsonify for its JSON.
func (s *Submission) TwoCalls(kind eval.Kind, judge eval.Judge) bool {
	return twoCalls(s.Evaluation, s.Providers, kind, judge)
}

// Capabilities returns what is known about a judge's model.
func (s *Submission) Capabilities(judge eval.Judge) providers.Capabilities {
	return s.Providers[judge.Provider].Capabilities(judge.Model)
}
