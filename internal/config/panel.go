package config

import (
	"slices"
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// panel reads the panel block.
func (s *draft) panel(y *yamlFile, v value) *eval.Panel {
	panel := &eval.Panel{Scale: eval.Scale{Min: 1, Max: 5}, Template: prompt.DefaultTemplate(eval.KindPanel)}
	agents, dimensions := false, false
	y.mapping(v, keys{
		"agents":     func(v value) { panel.Agents, agents = s.agents(y, v), true },
		"dimensions": func(v value) { panel.Dimensions, dimensions = s.dimensions(y, v), true },
		"scale":      func(v value) { panel.Scale = y.scale(v) },
		"batching":   func(v value) { s.batching = y.boolean(v) },
		"template":   func(v value) { panel.Template = s.template(y, v, eval.KindPanel) },
	})
	if !agents {
		s.refuse(v.key, "for example agents: [{name: prosecutor, model: simulator:careful, prompt: prosecutor.md}]", "panel has no agents")
	}
	if !dimensions {
		s.refuse(v.key, "add dimensions: dims.yaml, a list of {id, name, description}", "panel has no dimensions")
	}
	return panel
}

// agents reads the agents of a panel. Their names are unique; the models are checked once
// everything is known.
func (s *draft) agents(y *yamlFile, v value) []eval.Judge {
	var all []eval.Judge
	first := map[string]place{}
	y.list(v, func(v value) {
		var agent eval.Judge
		model, provider, modelAt, nameAt := "", "", place{}, v.place
		y.mapping(v, keys{
			"name":      func(v value) { agent.Name, nameAt = y.called(v), v.place },
			"provider":  func(v value) { provider = y.text(v) },
			"model":     func(v value) { model, modelAt = y.text(v), v.place },
			"prompt":    func(v value) { agent.Prompt, _ = s.fileText(y, v) },
			"overrides": func(v value) { agent.Overrides = y.overrides(v) },
		})
		if modelAt == (place{}) {
			y.refuse(v.place, "add model: provider:model", "the agent has no model")
			return
		}
		if model = ofProvider(provider, model); model == "" || !s.setTarget(&agent, model, modelAt) {
			return
		}
		if before, ok := first[agent.Name]; ok {
			y.refuse(nameAt, "give each agent a unique name", "a second agent called %s, the first is in %s", agent.Name, before.origin())
			return
		}
		first[agent.Name] = nameAt
		all = append(all, agent)
		s.agentsAt = append(s.agentsAt, modelAt)
	})

	if isEmptyList(v.node) {
		y.refuse(v.place, "for example [{name: prosecutor, model: simulator:careful}]", "agents are missing")
	}
	return all
}

// dimensions reads a list of dimensions, or the file that contains it.
func (s *draft) dimensions(y *yamlFile, v value) []eval.Dimension {
	if _, isName := scalar(v.node); !isName {
		return y.dimensionList(v)
	}
	path, ok := s.pathOf(y, v)
	if !ok {
		return nil
	}
	text, ok := s.textAt(v.place, path, maxSettings)
	if !ok {
		return nil
	}
	file, root, ok := parseYAML(path, text, &s.findings)
	if !ok {
		return nil
	}
	return file.dimensionList(root)
}

func (y *yamlFile) dimensionList(v value) []eval.Dimension {
	var all []eval.Dimension
	y.list(v, func(v value) {
		var d eval.Dimension
		at := v.place
		if _, ok := scalar(v.node); ok {
			d.ID = y.text(v)
		} else {
			given := false
			y.mapping(v, keys{
				"id":          func(v value) { d.ID, at, given = y.text(v), v.place, true },
				"name":        func(v value) { d.Name = y.called(v) },
				"description": func(v value) { d.Description = y.text(v) },
			})
			if !given {
				y.refuse(v.place, "add id", "the dimension has no id")
			}
		}
		switch {
		case d.ID == "":
			return
		case !nameable(d.ID):
			y.unnameable(at, d.ID, "cannot be an id")
			return
		case slices.ContainsFunc(all, func(other eval.Dimension) bool { return other.ID == d.ID }):
			y.refuse(at, "name each dimension once", "a second dimension with the id %s", d.ID)
			return
		}
		all = append(all, d)
	})

	if isEmptyList(v.node) {
		y.refuse(v.place, "for example [{id: clarity, name: Clarity, description: …}]", "dimensions are missing")
	}
	return all
}

// batchingFromEnv lets the variable of the bounded-concurrency specification override the file.
func (s *draft) batchingFromEnv() {
	raw, ok := s.options.lookup("BATCHING_ENABLED")
	if !ok {
		return
	}
	on, err := strconv.ParseBool(raw)
	if err != nil {
		s.refuse(place{path: "BATCHING_ENABLED"}, "want true or false", "got %q", raw)
	}
	s.batching = on
}

// setBatching names the agents that are asked about all dimensions in one call: those whose
// provider has structured output.
func (s *draft) setBatching() {
	s.batchingFromEnv()
	if s.asked.Panel == nil || !s.batching {
		return
	}
	if s.asked.JSON == eval.JSONFalse {
		s.warn(s.top, "set json: auto", "batching needs structured output: with json: false each dimension is a separate call")
		return
	}
	for i, agent := range s.asked.Panel.Agents {
		e := s.known[agent.Provider]
		if e.Dialect == catalog.Test || e.Capabilities(agent.Model).JSON == providers.JSONNone {
			s.warn(s.agentsAt[i], "", "%s has no structured output: agent %s makes a separate call for each dimension", agent.Target(), agent.Name)
			continue
		}
		s.settings.Batching = append(s.settings.Batching, agent.Name)
	}
}

// checkAgents requires that all agents can be asked.
func (s *draft) checkAgents() {
	if s.asked.Panel == nil {
		return
	}
	for i, agent := range s.asked.Panel.Agents {
		s.checkAsked(s.agentsAt[i], agent, s.asked.Grounded(eval.KindPanel), s.asked.Reasoned(eval.KindPanel))
	}
}
