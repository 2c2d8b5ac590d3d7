package config

import (
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// judges reads the list of judges into the draft; their names are checked once everything is
// known.
func (y *yamlFile) judges(v value, s *draft) {
	y.list(v, func(v value) {
		if judge, at, ok := y.judge(v, s); ok {
			s.asked.Judges = append(s.asked.Judges, judge)
			s.judgesAt = append(s.judgesAt, at)
		}
	})

	if isEmptyList(v.node) {
		s.noJudges(v.place)
	}
}

// judge reads a judge: provider:model, or a mapping. at is the position of its model.
func (y *yamlFile) judge(v value, s *draft) (judge eval.Judge, at place, ok bool) {
	model, provider := "", ""
	at = v.place
	if word, isWord := scalar(v.node); isWord {
		model = word
	} else {
		written := false
		y.mapping(v, keys{
			"name":      func(v value) { judge.Name = y.called(v) },
			"provider":  func(v value) { provider = y.text(v) },
			"model":     func(v value) { model, at, written = y.text(v), v.place, true },
			"overrides": func(v value) { judge.Overrides = y.overrides(v) },
		})
		model = ofProvider(provider, model)
		if !written {
			y.refuse(v.place, "add model: provider:model, or write only the text \"provider:model\"", "the judge has no model")
			return judge, at, false
		}
	}
	return judge, at, s.setTarget(&judge, model, at)
}

func (s *draft) noJudges(at place) {
	s.refuse(at, "add judges: [provider:model]", "judges are missing")
}

// ofProvider returns the target of a model whose provider is given separately; the model's name may
// repeat it.
func ofProvider(provider, model string) string {
	if provider == "" || model == "" || strings.HasPrefix(model, provider+":") {
		return model
	}
	return provider + ":" + model
}

// setTarget splits "provider:model" and names the judge after it if it has no
// name.
func (s *draft) setTarget(judge *eval.Judge, target string, at place) bool {
	var err error
	judge.Provider, judge.Model, err = eval.ParseTarget(target)
	if err != nil || strings.TrimSpace(target) != target || !harmless.IsName(target) {
		how := "write provider:model, for example openai:gpt-5-mini"
		if provider, model, ok := strings.Cut(target, "/"); ok && catalog.BuiltIn()[provider].Name != "" {
			how = "write " + provider + ":" + model
		}
		s.refuse(at, how, "%q does not name a provider", target)
		return false
	}
	if ours := fromPromptfoo(judge.Provider, judge.Model); ours != "" {
		s.refuse(at, "write "+ours, "%q is a name of another tool", target)
		return false
	}
	judge.Provider = catalog.Canonical(judge.Provider)
	if judge.Name == "" {
		judge.Name = judge.Target()
	}
	return true
}

// checkJudges requires that all judges can be asked and have unique names.
func (s *draft) checkJudges() {
	first := map[string]place{}
	for i, judge := range s.asked.Judges {
		at := s.judgesAt[i]
		s.checkAsked(at, judge, s.asked.Grounding == eval.Required, s.asked.Reasoning == eval.Required)
		if before, ok := first[judge.Name]; ok {
			s.refuse(at, "give each judge a unique name: {name: …, model: …}",
				"a second judge called %s, the first is in %s", judge.Name, before.origin())
			continue
		}
		first[judge.Name] = at
	}
}

// checkModels requires that the models of listed runs can be asked.
func (s *draft) checkModels() {
	if s.asked.Runs == nil {
		return
	}
	for i, model := range s.asked.Runs.Models {
		s.checkAsked(s.modelsAt[i], model, s.asked.Grounded(eval.KindRuns), s.asked.Reasoned(eval.KindRuns))
	}
}

// reachable requires a known provider and, if this process makes the calls, its address. It returns
// the abilities of the judge's model.
func (s *draft) reachable(at place, judge eval.Judge) (can providers.Capabilities, ok bool) {
	e, known := s.known[judge.Provider]
	switch {
	case !known:
		s.unknownProvider(at, judge.Provider, s.known)
		return can, false
	case !e.Addressed() && !s.options.ForFleet:
		s.refuse(at, fixAddress(e)+" under providers."+e.Name+" of --config", "no address for %s", e.Name)
		return can, false
	}
	return e.Capabilities(judge.Model), true
}

// demands reports whether required holds for any kind of runs.
func (s *draft) demands(required func(eval.Kind) bool) bool {
	return slices.ContainsFunc(plan.Phases(&s.asked), required)
}

// checkAsked requires a model that can be called, and can give the required evidence.
func (s *draft) checkAsked(at place, judge eval.Judge, grounded, reasoned bool) {
	can, ok := s.reachable(at, judge)
	if !ok {
		return
	}
	if grounded && can.Search == "" {
		s.refuse(at, "set grounding: off, use another model, or set its search under providers."+judge.Provider+".models",
			"%s has no known web search", judge.Target())
	}

	request := providers.Request{Reason: reasoned}
	request.ReasoningEffort, _ = judge.Overrides["reasoning_effort"].(string)
	effort, refused := can.Effort(&request)
	if refused {
		s.warn(at, "remove it, or say under providers."+judge.Provider+".models what it takes",
			"%s does not take reasoning_effort: %s, so it is not sent", judge.Target(), request.ReasoningEffort)
	}

	if _, asked := judge.Overrides["temperature"]; asked && !can.TakesTemperatureAt(effort) {
		s.warn(at, "remove it, or say under providers."+judge.Provider+".models what it takes",
			"%s does not take a temperature here, so it is not sent", judge.Target())
	}
	if most, bounded := judge.Overrides["max_completion_tokens"].(float64); bounded && can.MaxOutput > 0 && int(most) > can.MaxOutput {
		s.warn(at, "set at most that, or say max_output under providers."+judge.Provider+".models",
			"%s writes at most %d tokens, and may refuse max_completion_tokens: %d", judge.Target(), can.MaxOutput, int(most))
	}

	switch {
	case !reasoned || can.Reasoning != providers.ReasoningNone:
	case s.asked.Reasoning == eval.Required:
		s.refuse(at, "set reasoning: off, or use another model", "%s does not reason", judge.Target())
	case !slices.Contains(s.settings.Unreasoning, judge.Target()): // listed runs require reasoning by default
		s.settings.Unreasoning = append(s.settings.Unreasoning, judge.Target())
		s.warn(at, "", "%s does not reason, so its answers need not show that it did", judge.Target())
	}
}

// maxOverrides bounds how many values one judge's overrides have.
const maxOverrides = 1000

// overrides reads a judge's settings. Those that every dialect knows are checked; the rest goes
// into the request unchanged, except for keys that evalfleet itself sets.
func (y *yamlFile) overrides(v value) map[string]any {
	all := map[string]any{}
	budget := maxOverrides
	check := map[string]func(value) any{
		"temperature":           func(v value) any { return y.number(v, 0, "a number, at least 0") },
		"max_completion_tokens": func(v value) any { return float64(y.integer(v, 1, math.MaxInt32)) },
		"reasoning_effort":      func(v value) any { return y.oneOf(v, providers.Efforts) },
	}

	reserved := map[string]bool{"model": true, "messages": true, "stream": true, "n": true, "response_format": true}
	y.entries(v, func(key string, v value) {
		switch read, ok := check[key]; {
		case ok:
			all[key] = read(v)
		case reserved[key]:
			y.refuse(v.key, "remove it", "evalfleet sets %s itself", key)
		default:
			if near := wording.Nearest(key, overrideNames); near != "" && !slices.Contains(overrideNames, key) {
				y.warn(v.key, "did you mean "+near+"?", "%s is sent to the model unchanged", key)
			}
			all[key] = y.free(v, &budget)
		}
	})
	if len(all) == 0 {
		return nil
	}
	return all
}
